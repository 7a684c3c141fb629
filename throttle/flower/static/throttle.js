// A panel for each database: traffic against the limit, the last minutes, what waits.
(function () {
    "use strict";

    const {el, text, attribute, count, plural} = pecker;
    const place = document.getElementById("databases");
    const ICONS = {
        over: ["Above its limit", "M8 1 .8 14.5h14.4zM7.2 6h1.6v4.2H7.2zm0 5.2h1.6v1.6H7.2z"],
        holding: ["Holding", "M3.5 2h3.2v12H3.5zM9.3 2h3.2v12H9.3z"],
        lowered: ["Limit lowered", "M7.2 1.5h1.6v9.1l3.3-3.3 1.1 1.2L8 13.6 2.8 8.5l1.1-1.2 3.3 3.3z"],
        unguarded: ["Unguarded", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6zM4.5 7.2h7v1.6h-7z"],
        calm: ["Calm", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.8 4.9-4.6 5.2-3-2.8 1-1 1.9 1.8 3.6-4.1z"],
        unlimited: ["No limit", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6z"],
    };
    const HEADROOM = 1.25;         // the bar ends a quarter above the limit
    const WIDE = 300, HIGH = 96, TOP = 62, BASE = 70;   // of the chart: traffic above, held below
    const KEPT = 300;              // looks that the chart has room for
    let panels = new Map();

    const percent = part => Math.round(part * 100) + " %";
    const rate = value => value === null ? "–" : (value > 0 && value < 9.95 ? value.toFixed(1) : count(Math.round(value)));

    function size(bytes) {
        for (const unit of ["B", "kB", "MB"]) {
            if (bytes < 1000) { return Math.round(bytes) + " " + unit; }
            bytes /= 1000;
        }
        return bytes.toFixed(1) + " GB";
    }

    // One panel; kept as long as its database is known, so that what was opened stays.

    function newPanel(name) {
        const parts = {state: ""};
        parts.badge = el("span", {class: "throttle-state"});
        parts.shadow = el("span", {class: "throttle-shadow", title: "Nothing is held; what would have been is counted"}, "shadow");
        parts.line = el("span", {class: "pecker-muted throttle-summary"});
        parts.notes = el("ul", {class: "throttle-notes"});
        parts.gated = el("span", {class: "throttle-gated"});
        parts.outside = el("span", {class: "throttle-outside"});
        parts.mark = el("span", {class: "throttle-mark"});
        parts.full = el("span", {class: "throttle-full"});
        parts.bar = el("div", {class: "throttle-bar", role: "img"}, parts.gated, parts.outside, parts.full, parts.mark);
        parts.used = el("b");
        parts.amounts = el("small");
        parts.flow = el("small");
        parts.chart = newChart();
        parts.from = el("span");
        parts.highest = el("span");
        parts.to = el("span", {}, "now");
        parts.summary = el("summary");
        parts.workers = newTable("Workers", ["Worker", "Share", "Held", "Oldest", "Admitted/s"]);
        parts.tenants = newTable("Tenants", ["Tenant", "Held", "Admitted/s"]);
        parts.who = el("details", {class: "throttle-who"}, parts.summary,
            el("div", {class: "throttle-pair"}, parts.workers, parts.tenants));
        // A panel that a user opened or closed stays so, whatever the state becomes.
        parts.summary.addEventListener("click", () => { parts.chosen = true; });
        parts.panel = el("section", {"aria-label": name},
            el("div", {class: "throttle-title"}, el("h2", {}, pecker.shown(name)), parts.badge, parts.shadow, parts.line),
            parts.notes,
            el("div", {class: "throttle-now"}, parts.bar,
                el("div", {class: "throttle-figures"}, parts.used, parts.amounts, parts.flow)),
            parts.chart, el("div", {class: "throttle-ends"}, parts.from, parts.highest, parts.to), parts.who);
        return parts;
    }

    function newTable(label, heads) {
        return el("table", {"aria-label": label},
            el("thead", {}, el("tr", {}, ...heads.map((head, nth) =>
                el("th", {scope: "col", class: nth ? "throttle-number" : null}, head)))),
            el("tbody"));
    }

    function newChart() {
        const made = el("svg:svg", {class: "throttle-chart", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img"},
            el("svg:title"));
        for (const kind of ["gap", "area", "excess", "line", "wait", "bound"]) {
            made.append(el("svg:path", {class: "throttle-" + kind}));
        }
        return made;
    }

    function drawPanel(parts, database, every) {
        if (parts.state !== database.state) {
            parts.state = database.state;
            const [words, path] = ICONS[database.state];
            parts.badge.replaceChildren(
                el("svg:svg", {viewBox: "0 0 16 16", "aria-hidden": "true"}, el("svg:path", {d: path, "fill-rule": "evenodd"})),
                words);
            parts.panel.className = "pecker-card throttle-panel throttle-" + database.state;
            if (!parts.chosen) { parts.who.open = database.state === "over" || database.state === "holding"; }
        }
        parts.shadow.hidden = !database.shadow;
        text(parts.line, ICONS[database.state][0].toLowerCase() === database.summary ? "" : database.summary);
        drawNotes(parts.notes, database.notes);
        drawBar(parts, database);
        drawChart(parts, database.past, every);
        drawWho(parts, database);
    }

    function drawNotes(list, notes) {
        if (list.dataset.notes === notes.join("\n")) { return; }
        list.dataset.notes = notes.join("\n");
        list.replaceChildren(...notes.map(note => el("li", {}, note)));
    }

    function drawBar(parts, database) {
        const limited = database.operations !== null;
        parts.bar.parentNode.classList.toggle("throttle-bare", !limited);
        const part = database.used * database.factor;   // of the limit as it was set
        const end = Math.max(HEADROOM, part * 1.05);
        const all = limited ? part / end : 0;
        const outside = database.traffic.operations > 0
            ? Math.min(database.outside.operations / database.traffic.operations, 1) * all : 0;
        parts.gated.style.width = (all - outside) * 100 + "%";
        parts.outside.style.left = (all - outside) * 100 + "%";
        parts.outside.style.width = outside * 100 + "%";
        parts.mark.style.left = `calc(${database.factor / end * 100}% - 1.5px)`;
        parts.full.style.left = 100 / end + "%";
        parts.mark.hidden = parts.full.hidden = !limited;
        const now = count(Math.round(database.traffic.operations));
        text(parts.used, limited ? percent(database.used) : now + "/s");
        const inForce = limit => count(Math.round(limit * database.factor * 10) / 10);
        const lowered = database.factor < 1 ? ` (else ${count(database.operations)})` : "";
        const busy = database.seconds === null ? ""
            : ` · ${database.traffic.seconds.toFixed(1)} of ${inForce(database.seconds)} connections busy`;
        text(parts.amounts, limited ? `${now} of ${inForce(database.operations)} per second${lowered}${busy}`
            : `${database.traffic.seconds.toFixed(1)} connections busy`);
        const flow = [];
        if (database.workers.length) { flow.push(`${rate(database.rate)} admitted/s`); }
        if (database.held) { flow.push(`${count(database.held)} held, ${size(database.held_bytes)}`); }
        if (database.parked) { flow.push(`${count(database.parked)} parked`); }
        if (database.shadow) { flow.push(`${rate(database.would_rate)} would be held/s`); }
        text(parts.flow, flow.join(" · "));
        attribute(parts.bar, "aria-label", limited ? `${percent(database.used)} of the limit, `
            + `${count(Math.round(database.outside.operations))} per second from outside the gate` : "no limit");
        attribute(parts.bar, "title", limited
            ? `${count(Math.round(database.outside.operations))} per second come from outside the gate` : null);
    }

    function drawChart(parts, past, every) {
        const known = past.filter(point => point);
        const highest = Math.max(1, ...known.map(point => Math.max(point[0], point[1]))) * 1.08;
        const most = Math.max(...known.map(point => point[2]), 0);
        const step = WIDE / KEPT, begin = WIDE - (past.length - 1) * step;
        const x = nth => (begin + nth * step).toFixed(1);
        const y = value => (TOP - value / highest * TOP).toFixed(1);
        const paths = {gap: "", area: "", excess: "", line: "", wait: "", bound: ""};
        let open = false;
        past.forEach((point, nth) => {
            if (!point) {
                paths.gap += `M${x(nth - 1)} 0H${x(nth)}V${HIGH}H${x(nth - 1)}z`;
                if (open) { paths.area += `V${TOP}z`; }
                open = false;
                return;
            }
            const [traffic, limit, held] = point;
            paths.line += `${open ? "L" : "M"}${x(nth)} ${y(traffic)}`;
            paths.area += open ? `L${x(nth)} ${y(traffic)}` : `M${x(nth)} ${TOP}V${y(traffic)}`;
            if (limit) { paths.bound += `${open ? "L" : "M"}${x(nth)} ${y(limit)}`; }
            if (limit && traffic > limit) { paths.excess += `M${x(nth - .5)} ${y(traffic)}h${step}V${y(limit)}h${-step}z`; }
            if (held) {
                const high = Math.max(held / most * (HIGH - BASE), 1);
                paths.wait += `M${x(nth)} ${HIGH - high}h${step}v${high}h${-step}z`;
            }
            open = true;
        });
        if (open) { paths.area += `V${TOP}z`; }
        for (const [kind, path] of Object.entries(paths)) {
            attribute(parts.chart.querySelector(".throttle-" + kind), "d", path);
        }
        const seconds = (past.length - 1) * every;
        const peak = count(Math.round(Math.max(0, ...known.map(point => point[0]))));
        const peaks = `peak ${peak}/s` + (most ? `, most held ${count(most)}` : "");
        text(parts.chart.querySelector("title"), `The last ${pecker.coarse(seconds * 1e6)}: ${peaks}`);
        text(parts.from, pecker.coarse(KEPT * every * 1e6) + " ago");
        text(parts.highest, peaks);
    }

    function drawWho(parts, database) {
        parts.who.hidden = !database.workers.length;
        const tenants = database.tenants.length;
        text(parts.summary, plural(database.all_workers, "worker")
            + (tenants ? `, ${plural(database.all_tenants, "tenant")}` : ""));
        fill(parts.workers, database.workers, database.all_workers, worker => [
            [worker.name], [percent(worker.share), worker.share], [count(worker.held)],
            [worker.held ? pecker.span(worker.oldest * 1e6) : ""], [rate(worker.rate)]]);
        parts.tenants.hidden = !tenants;
        fill(parts.tenants, database.tenants, database.all_tenants, tenant => [
            [tenant.name || "(none)"], [count(tenant.held), database.held ? tenant.held / database.held : 0],
            [rate(tenant.rate)]]);
    }

    // A cell is its words, and a part of a whole where a meter stands beside them.
    function fill(table, rows, all, cells) {
        const body = table.tBodies[0];
        rows.forEach((row, nth) => {
            const line = body.children[nth] || body.appendChild(el("tr"));
            const shown = cells(row);
            shown.forEach(([words, part], place) => {
                let cell = line.children[place];
                if (!cell) {
                    cell = line.appendChild(el("td", {class: place ? "throttle-number" : null}));
                    if (part !== undefined) {
                        cell.append(el("span", {class: "throttle-meter", "aria-hidden": "true"}, el("i")));
                        cell.querySelector("i").className = table.getAttribute("aria-label") === "Tenants"
                            ? "throttle-held" : "throttle-gated";
                    }
                    cell.append(el("span"));
                }
                text(cell.lastChild, words);
                if (!place) { attribute(cell, "title", words); }
                if (part !== undefined) { cell.querySelector("i").style.width = Math.min(part, 1) * 100 + "%"; }
            });
        });
        while (body.children.length > rows.length) { body.lastChild.remove(); }
        text(table.tFoot ? table.tFoot.rows[0].cells[0] : table.createTFoot().insertRow().insertCell(),
            all > rows.length ? `and ${count(all - rows.length)} more` : "");
        table.tFoot.hidden = all <= rows.length;
    }

    function show(data) {
        const keep = new Map();
        data.databases.forEach((database, nth) => {
            const parts = panels.get(database.name) || newPanel(database.name);
            drawPanel(parts, database, data.every);
            keep.set(database.name, parts);
            if (place.children[nth] !== parts.panel) { place.insertBefore(parts.panel, place.children[nth] || null); }
        });
        panels = keep;
        while (place.children.length > data.databases.length) { place.lastChild.remove(); }
        document.getElementById("empty").hidden = data.databases.length > 0;
        drawTotals(data.databases);
        drawAway(data);
        text(document.getElementById("source"), `Counted at ${data.where}, computed by the ${data.estimator} estimator`);
    }

    function drawTotals(databases) {
        const hot = databases.filter(one => one.state === "over").map(one => one.name);
        pecker.card("hot", count(hot.length), hot.length ? hot.join(", ") : `of ${plural(databases.length, "database")}`,
            hot.length ? "danger" : "success");
        const held = databases.reduce((sum, one) => sum + one.held, 0);
        const oldest = Math.max(0, ...databases.map(one => one.oldest));
        const waiting = databases.filter(one => one.held).map(one => one.name);
        pecker.card("held", count(held), held ? `for ${waiting.join(", ")}; the oldest for ${pecker.span(oldest * 1e6)}` : "nothing waits", held ? "warning" : "success");
        const rates = databases.map(one => one.rate).filter(one => one !== null);
        const parked = databases.reduce((sum, one) => sum + one.parked, 0);
        pecker.card("admitted", rates.length ? rate(rates.reduce((sum, one) => sum + one, 0)) : "–",
            parked ? `${count(parked)} parked since the workers' start` : "nothing was parked", "active");
        const workers = new Set(databases.flatMap(one => one.workers.map(worker => worker.id)));
        const bare = databases.filter(one => one.state === "unguarded").map(one => one.name);
        pecker.card("workers", count(workers.size), bare.length ? `none for ${bare.join(", ")}` : "reported within the last second",
            workers.size && !bare.length ? "success" : "warning");
        document.title = (hot.length ? `(${hot.length} above) ` : held ? `(${count(held)} held) ` : "") + "Throttle · Flower";
    }

    function drawAway(data) {
        const away = document.getElementById("away");
        away.hidden = !data.away;
        if (!data.away) { return; }
        const policies = [...new Set(Object.values(data.policies))].join(", ");
        text(away, `No answer for ${pecker.coarse(data.since * 1e6)}: ${data.away}. Workers go by the policy of each limit `
            + `(${policies}); what is shown was seen last.`);
        document.getElementById("pecker-dot").className = "status-dot status-dot-error";
        text(document.getElementById("pecker-live"), "No answer");
        pecker.root.classList.add("pecker-stale");
    }

    pecker.watch(() => "", show);
})();
