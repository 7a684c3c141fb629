// A panel for each database: traffic against the limit, the last minutes, what waits.
(function () {
    "use strict";

    const {el, text, attribute, count, plural} = pecker;
    const {byId, tables, drawMark, newTable} = pecker.view;
    const HEADROOM = 1.25;         // the bar ends a quarter above the limit
    const WIDE = 300, HIGH = 96, TOP = 62, BASE = 70;   // of the chart: traffic above, held below
    const KEPT = 300;              // looks that the chart has room for
    let panels = new Map();

    const percent = part => Math.round(part * 100) + " %";

    // One panel; kept as long as its database is known, so that what was opened stays.

    function newPanel({name}) {
        const parts = {};
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
        parts.workers = newTable("workers", {"aria-label": "Workers"});
        parts.tenants = newTable("tenants", {"aria-label": "Tenants"});
        parts.who = el("details", {class: "throttle-who"}, parts.summary,
            el("div", {class: "throttle-pair"}, parts.workers.all, parts.tenants.all));
        // A panel that a user opened or closed stays so, whatever the state becomes.
        parts.summary.addEventListener("click", () => { parts.chosen = true; });
        parts.row = el("section", {"aria-label": name},
            el("div", {class: "throttle-title"}, el("h2", {}, pecker.shown(name)), parts.badge, parts.shadow, parts.line),
            parts.notes,
            el("div", {class: "throttle-now"}, parts.bar,
                el("div", {class: "throttle-figures"}, parts.used, parts.amounts, parts.flow)),
            parts.chart, el("div", {class: "throttle-ends"}, parts.from, parts.highest, parts.to), parts.who);
        return parts;
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
        if (parts.badge.dataset.state !== database.state) {
            drawMark(parts.badge, tables.databases, database.state);
            parts.row.className = "pecker-card throttle-panel throttle-" + database.state;
            if (!parts.chosen) { parts.who.open = database.state === "over" || database.state === "holding"; }
        }
        parts.shadow.hidden = !database.shadow;
        text(parts.line, database.summary);
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
        text(parts.used, limited ? percent(database.used) : count(Math.round(database.traffic.operations)) + "/s");
        text(parts.amounts, database.amounts);
        text(parts.flow, database.flow);
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

    const some = (all, shown, one) => plural(all, one) + (all > shown ? `, ${count(shown)} of them below` : "");

    function drawWho(parts, {workers, tenants, all_workers, all_tenants}) {
        parts.who.hidden = !workers.length;
        text(parts.summary, some(all_workers, workers.length, "worker")
            + (tenants.length ? `, ${some(all_tenants, tenants.length, "tenant")}` : ""));
        parts.workers.draw(workers);
        parts.tenants.all.hidden = !tenants.length;
        parts.tenants.draw(tenants);
    }

    function show(data) {
        panels = pecker.rows(byId("databases"), panels, data.databases, "name", newPanel,
            (parts, database) => drawPanel(parts, database, data.every));
        byId("empty").hidden = data.databases.length > 0;
        text(byId("source"), data.where);
        document.title = data.title + "Throttle · Flower";
        byId("away").hidden = !data.away;
        text(byId("away"), data.away);
        if (data.away) { pecker.deaf("No answer"); }
    }

    pecker.view.pictures.push(show);
})();
