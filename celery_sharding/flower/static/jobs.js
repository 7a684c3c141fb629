// The list of jobs.
(function () {
    "use strict";

    const {el, text, attribute, count, plural, time, iso} = pecker;
    const {drawBadge, bar, drawBar, percent, rate, left, jobUrl, drawActs} = pecker.sharding;
    const body = document.querySelector("#jobs tbody");
    const search = document.getElementById("search");
    const open = document.getElementById("open");
    const params = new URLSearchParams(location.search);
    const view = {search: params.get("search") || "", open: params.get("open") === "1", before: params.get("before") || ""};
    let last = null, rows = new Map();

    function query() {
        const params = new URLSearchParams();
        if (view.search) { params.set("search", view.search); }
        if (view.open) { params.set("open", "1"); }
        if (view.before) { params.set("before", view.before); }
        return params.toString();
    }

    // One row of the table; kept as long as its job is shown, so that focus stays.
    function newRow(job) {
        const cells = {
            state: el("td"), name: el("td", {class: "pecker-what"}), items: el("td", {class: "shard-items"}),
            rate: el("td", {class: "pecker-time"}), left: el("td", {class: "pecker-time"}),
            failed: el("td", {class: "text-end"}), at: el("td", {class: "pecker-time"}), acts: el("td", {class: "pecker-does"}),
        };
        const parts = {row: el("tr", {}, ...Object.values(cells)), cells};
        parts.link = el("a", {href: jobUrl(job.id), title: job.task}, pecker.shown(job.task));
        parts.id = el("small", {title: job.id}, job.key ? `${job.key} · ${job.id}` : job.id);
        cells.name.append(parts.link, parts.id);
        parts.bar = bar();
        parts.many = el("small");
        cells.items.append(parts.bar, parts.many);
        parts.at = el("span", {title: iso(job.submitted)});
        parts.took = el("small");
        cells.at.append(parts.at, parts.took);
        return parts;
    }

    function drawRow(parts, job) {
        drawBadge(parts.cells.state, job.state);
        attribute(parts.cells.state, "title", job.why);
        drawBar(parts.bar, job.done, job.failed, job.total);
        const layer = job.layers > 1 && !job.ended ? `, layer ${Math.min(job.layer + 1, job.layers)} of ${job.layers}` : "";
        text(parts.many, job.total ? `${percent(job.done + job.failed, job.total)} of ${count(job.total)}${layer}` : "no items yet");
        text(parts.cells.rate, job.rate ? rate(job.rate) + "/s" : "–");
        text(parts.cells.left, left(job.eta));
        text(parts.cells.failed, count(job.failed));
        parts.cells.failed.classList.toggle("pecker-some", job.failed > 0);
        text(parts.at, time(job.submitted));
        text(parts.took, pecker.sharding.took(job));
        drawActs(parts.cells.acts, job, false, () => ask());
    }

    function show(data) {
        last = data;
        const keep = new Map();
        data.rows.forEach((job, nth) => {
            const parts = rows.get(job.id) || newRow(job);
            drawRow(parts, job);
            keep.set(job.id, parts);
            if (body.children[nth] !== parts.row) { body.insertBefore(parts.row, body.children[nth] || null); }
        });
        rows = keep;
        while (body.children.length > data.rows.length) { body.lastChild.remove(); }
        drawTotals(data.totals);
        drawFooter(data);
    }

    function drawTotals(totals) {
        const put = (name, value, sub, tone) => pecker.card(name, count(value), sub, tone);
        const parts = [];
        if (totals.sharding) { parts.push(count(totals.sharding) + " at their shards"); }
        if (totals.paused) { parts.push(count(totals.paused) + " paused"); }
        put("open", totals.jobs, parts.join(" · ") || (totals.jobs ? "at their beginning or end" : "nothing to do"), "active");
        put("held", totals.held, totals.slots ? `of ${plural(totals.slots, "slot")}` : "no slots", "success");
        const starved = !totals.executors && totals.jobs;
        put("workers", totals.executors, totals.executors ? plural(totals.slots, "slot") : "none is alive", starved ? "danger" : "success");
        const ended = totals.succeeded + totals.failed + totals.cancelled;
        const bad = [];
        if (totals.failed) { bad.push(count(totals.failed) + " failed"); }
        if (totals.cancelled) { bad.push(count(totals.cancelled) + " cancelled"); }
        put("day", ended, bad.join(" · ") || (ended ? "all succeeded" : "none"), totals.failed ? "warning" : "success");
    }

    function drawFooter(data) {
        const shown = data.rows.length;
        text(document.getElementById("range"), plural(shown, "job") + (view.before ? ", older ones" : "") + (data.more ? " of more" : ""));
        document.getElementById("newest").disabled = !view.before;
        document.getElementById("older").disabled = !data.more;
        const empty = document.getElementById("empty");
        empty.hidden = shown > 0;
        text(empty, view.search ? `No job has “${view.search}” in its name, key or id.`
            : view.open ? "All jobs have ended." : "No job yet.");
    }

    function turn(change) {
        Object.assign(view, change);
        const text = query();
        history.replaceState(null, "", text ? "?" + text : location.pathname);
        ask();
    }

    search.value = view.search;
    open.checked = view.open;
    const ask = pecker.watch(query, show);

    let typing = 0;
    search.addEventListener("input", () => {
        clearTimeout(typing);
        typing = setTimeout(() => turn({search: search.value.trim(), before: ""}), 150);
    });
    open.addEventListener("change", () => turn({open: open.checked, before: ""}));
    document.getElementById("tools").addEventListener("submit", event => event.preventDefault());
    document.getElementById("newest").addEventListener("click", () => turn({before: ""}));
    document.getElementById("older").addEventListener("click", () => {
        if (last.more) { turn({before: String(last.rows[last.rows.length - 1].job)}); }
    });
    pecker.keys(event => {
        if (event.key !== "/" || event.target === search) { return; }
        event.preventDefault();
        search.focus();
        search.select();
    });
})();
