// The list of entries.
(function () {
    "use strict";

    const {el, text, attribute, count, plural, span, coarse, ago, ahead, time, iso, now} = pecker;
    const pictures = pecker.pictures;
    const body = document.querySelector("#entries tbody");
    const search = document.getElementById("search");
    const params = new URLSearchParams(location.search);
    const view = {
        search: params.get("search") || "",
        order: params.get("order") || "state",
        descending: params.get("descending") === "1",
        page: Math.max(parseInt(params.get("page"), 10) || 1, 1),
    };
    const fresh = document.getElementById("new");
    let last = null, rows = new Map();

    function query() {
        const query = new URLSearchParams();
        if (view.search) { query.set("search", view.search); }
        if (view.order !== "state") { query.set("order", view.order); }
        if (view.descending) { query.set("descending", "1"); }
        if (view.page > 1) { query.set("page", view.page); }
        return query.toString();
    }

    // One row of the table; kept as long as its entry is shown, so that focus stays.

    function newRow(name) {
        const cells = {
            state: el("td"), name: el("td", {class: "pecker-what"}), schedule: el("td", {class: "pecker-when"}),
            last: el("td", {class: "pecker-time"}), next: el("td", {class: "pecker-time"}),
            late: el("td", {class: "pecker-late"}), holder: el("td", {class: "pecker-who"}), epoch: el("td"),
            missed: el("td", {class: "text-end"}), acts: el("td", {class: "pecker-does"}),
        };
        const row = el("tr", {}, ...Object.values(cells));
        const parts = {row, cells, state: ""};
        parts.link = el("a", {href: pecker.entryUrl(name), title: name}, pecker.shown(name));
        parts.task = el("small");
        cells.name.append(parts.link, parts.task);
        parts.schedule = el("span");
        parts.run = el("small");
        cells.schedule.append(parts.schedule, parts.run);
        for (const column of ["last", "next"]) {
            parts[column] = el("span");
            parts[column + "Sub"] = el("small");
            cells[column].append(parts[column], parts[column + "Sub"]);
        }
        parts.spark = pictures.spark();
        parts.late = el("span", {class: "pecker-figure"});
        cells.late.append(el("div", {}, parts.spark, parts.late));
        parts.host = el("span");
        parts.holder = el("small");
        cells.holder.append(parts.host, parts.holder);
        parts.epoch = el("code");
        cells.epoch.append(parts.epoch);
        const does = what => act(what, name);
        parts.run_now = pecker.button("run", "Run " + name + " now", does);
        parts.pause = pecker.button("pause", "Pause " + name, does);
        parts.edit = pecker.link("edit", "Edit " + name, pecker.editUrl(name));
        cells.acts.append(parts.edit, parts.run_now, parts.pause);
        return parts;
    }

    function drawRow(parts, entry) {
        const why = entry.state === "failing" ? entry.why : entry.state === "unreadable" ? entry.stored.problem : "";
        if (parts.state !== entry.state || parts.why !== why) {
            Object.assign(parts, {state: entry.state, why});
            parts.cells.state.replaceChildren(pictures.badge(entry.state, why));
            parts.row.className = "pecker-row-" + entry.state;
        }
        text(parts.task, entry.task === entry.name ? "" : entry.task);
        attribute(parts.task, "title", entry.task);
        const stored = entry.stored, words = stored && !stored.by_code && stored.words || pecker.schedule(entry.schedule, entry.period);
        text(parts.schedule, words);
        attribute(parts.schedule, "title", words === entry.schedule ? words : words + "\n" + entry.schedule);
        text(parts.run, [stored && stored.problem, entry.run === "local" ? "local" : ""].filter(Boolean).join(" · "));
        attribute(parts.run, "title", stored && stored.problem || (entry.run === "local" ? "Runs in the worker that wins it, without a broker" : null));
        parts.run.classList.toggle("pecker-bad", Boolean(stored && stored.problem));
        parts.edit.style.visibility = stored ? "" : "hidden";
        for (const button of [parts.run_now, parts.pause]) { button.style.visibility = entry.state === "removed" ? "hidden" : ""; }
        pictures.drawSpark(parts.spark, entry.spark, entry.period);
        text(parts.late, entry.late === null ? "" : span(entry.late));
        text(parts.host, entry.host || (entry.holder ? "gone" : "–"));
        text(parts.holder, entry.holder ? entry.holder.slice(0, 8) : "");
        attribute(parts.cells.holder, "title", entry.holder
            ? `Won the last slot: ${entry.host || "a scheduler seen no more"}, process life ${entry.holder}` : null);
        text(parts.epoch, pecker.short(entry.epoch));
        attribute(parts.epoch, "title", `Epoch ${entry.epoch}` + (entry.era ? `, era ${entry.era}` : ""));
        text(parts.cells.missed, count(entry.missed));
        parts.cells.missed.classList.toggle("pecker-some", entry.missed > 0);
        pecker.relabel(parts.pause, entry.paused ? "resume" : "pause",
            (entry.paused ? "Resume " : "Pause ") + entry.name);
        parts.entry = entry;
        drawTimes(parts);
    }

    // Times go on between two answers.
    function drawTimes(parts) {
        const entry = parts.entry, at = now(), exact = entry.period && entry.period < 1e6 ? true : undefined;
        const never = entry.epoch === "0";
        text(parts.last, never ? "–" : time(entry.last, exact));
        attribute(parts.last, "title", (never ? "First seen " : "") + iso(entry.last));
        text(parts.lastSub, never ? "seen " + ago(at - entry.last) : ago(at - entry.last));
        if (entry.next === null || !entry.declared) {
            text(parts.next, "–");
            attribute(parts.next, "title", !entry.declared ? "No scheduler declares it"
                : entry.stored ? "None is due" : "Only the app's own code can say");
            text(parts.nextSub, "");
            return;
        }
        const left = entry.next - at;
        // What was won since the last answer is no news of being late.
        const late = Math.max(-left - 2.5e6, 0);
        text(parts.next, time(entry.next, exact));
        attribute(parts.next, "title", iso(entry.next));
        text(parts.nextSub, late && !entry.paused ? coarse(-left) + " overdue" : ahead(Math.max(left, 0)));
        parts.nextSub.classList.toggle("pecker-bad", late > 2.5e6 && !entry.paused);
    }

    function show(data) {
        last = data;
        const keep = new Map();
        data.rows.forEach((entry, nth) => {
            const parts = rows.get(entry.name) || newRow(entry.name);
            drawRow(parts, entry);
            keep.set(entry.name, parts);
            if (body.children[nth] !== parts.row) { body.insertBefore(parts.row, body.children[nth] || null); }
        });
        rows = keep;
        while (body.children.length > data.rows.length) { body.lastChild.remove(); }
        drawTotals(data.totals);
        drawFooter(data);
        const why = pecker.root.dataset.refusal || data.why;
        attribute(fresh, "aria-disabled", why ? "true" : null);
        attribute(fresh, "title", why || "Add a schedule that is stored in the database");
    }

    function drawTotals(totals) {
        const put = (name, value, sub, tone) => pecker.card(name, count(value), sub, tone);
        const parts = [];
        if (totals.local) { parts.push(count(totals.local) + " local"); }
        if (totals.paused) { parts.push(count(totals.paused) + " paused"); }
        if (totals.new) { parts.push(count(totals.new) + " new"); }
        if (totals.undeclared) { parts.push(count(totals.undeclared) + " undeclared"); }
        put("entries", totals.entries, parts.join(" · ") || "all declared", "success");
        put("overdue", totals.overdue, totals.overdue ? `the longest ${coarse(totals.worst_us)}: ${totals.worst}`
            : totals.unclaimed ? `no scheduler claims ${count(totals.unclaimed)}` : "every due slot was won",
        totals.overdue || totals.unclaimed ? "danger" : "success");
        put("failing", totals.failing + totals.unreported, totals.undelivered ? plural(totals.undelivered, "entry", "entries") + " not sent"
            : totals.unreported ? `no worker reports of ${count(totals.unreported)}`
                : totals.failing ? "their last runs ended badly" : "no run ended badly lately",
        totals.failing + totals.unreported ? "danger" : "success");
        put("missed", totals.missed, totals.missed ? "since they were first seen" : "none yet", totals.missed ? "warning" : "success");
        const waiting = totals.pending + totals.asked;
        put("replicas", totals.replicas, totals.replicas ? (waiting ? plural(waiting, "slot") + " on the way" : "any of them is enough") : "no slot is claimed",
            !totals.replicas ? "danger" : totals.overdue || totals.unclaimed ? "warning" : "success");
        document.title = (totals.overdue ? `(${count(totals.overdue)} overdue) ` : "") + "Schedules · Flower";
    }

    function drawFooter(data) {
        const from = (view.page - 1) * data.size;
        const shown = data.rows.length;
        text(document.getElementById("range"), shown
            ? `${count(from + 1)}–${count(from + shown)} of ${plural(data.total, "entry", "entries")}`
            : plural(data.total, "entry", "entries"));
        document.getElementById("back").disabled = view.page <= 1;
        document.getElementById("on").disabled = from + shown >= data.total;
        const empty = document.getElementById("empty");
        empty.hidden = shown > 0;
        text(empty, view.search ? `No entry has “${view.search}” in its name or task.`
            : data.total ? "There are no more entries." : "No entry yet. The first scheduler that starts with "
                + "pecker_dsn set to this database enters those of its app.");
        for (const head of document.querySelectorAll("th[data-order]")) {
            attribute(head, "aria-sort", head.dataset.order !== view.order ? null
                : view.descending ? "descending" : "ascending");
        }
    }

    async function act(what, name) {
        const parts = rows.get(name);
        if (what === "pause" && parts && parts.entry.paused) { what = "resume"; }
        if (await pecker.act(what, name)) { ask(); }
    }

    function turn(change) {
        Object.assign(view, change);
        const search = query();
        history.replaceState(null, "", search ? "?" + search : location.pathname);
        ask();
    }

    // Back from behind the end of a list that became shorter is to its last page.
    const pages = by => {
        const page = Math.min(view.page + by, Math.max(Math.ceil(last.total / last.size), 1));
        if (page >= 1 && page !== view.page) { turn({page}); }
    };

    search.value = view.search;
    const ask = pecker.watch(query, show);
    setInterval(() => { for (const parts of rows.values()) { drawTimes(parts); } }, 500);

    let typing = 0;
    search.addEventListener("input", () => {
        clearTimeout(typing);
        typing = setTimeout(() => turn({search: search.value.trim(), page: 1}), 150);
    });
    document.getElementById("tools").addEventListener("submit", event => event.preventDefault());
    document.getElementById("back").addEventListener("click", () => pages(-1));
    document.getElementById("on").addEventListener("click", () => pages(1));
    for (const head of document.querySelectorAll("th[data-order]")) {
        head.querySelector("button").addEventListener("click", () => {
            const order = head.dataset.order;
            const largest = order === "late" || order === "missed" || order === "last";
            turn({order, page: 1, descending: order === view.order ? !view.descending : largest});
        });
    }
    for (const id of ["worst", "bad"]) {
        document.getElementById(id).addEventListener("click", () => {
            search.value = "";
            turn({order: "state", descending: false, search: "", page: 1});
        });
    }

    // Keys

    function step(by) {
        const all = [...body.querySelectorAll(".pecker-what a")];
        const here = all.indexOf(document.activeElement && document.activeElement.closest("tr")
            ? document.activeElement.closest("tr").querySelector(".pecker-what a") : null);
        const next = all[Math.min(Math.max(here + by, 0), all.length - 1)];
        if (next) { next.focus(); next.scrollIntoView({block: "nearest"}); }
    }

    function focused() {
        const row = document.activeElement && document.activeElement.closest("#entries tbody tr");
        return [...rows.values()].find(parts => parts.row === row);
    }

    pecker.keys(event => {
        if (event.target === search) {
            if (event.key === "Escape") { search.value = ""; turn({search: "", page: 1}); search.blur(); }
            if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); step(1); }
            return;
        }
        if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { return; }
        const here = focused();
        const does = {
            "/": () => { search.focus(); search.select(); },
            j: () => step(1), ArrowDown: here && (() => step(1)),
            k: () => step(-1), ArrowUp: here && (() => step(-1)),
            "[": () => pages(-1), "]": () => pages(1),
            // Once for each time that it is pressed, however long it is held.
            p: here && !event.repeat && (() => act("pause", here.entry.name)),
            r: here && !event.repeat && (() => act("run", here.entry.name)),
            e: here && here.entry.stored && (() => here.edit.click()),
            n: () => fresh.click(),
        }[event.key];
        if (does) { event.preventDefault(); does(); }
    });
})();
