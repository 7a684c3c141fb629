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
        const parts = pecker.parts("panel");
        attribute(parts.row, "aria-label", name);
        text(parts.name, pecker.shown(name));
        attribute(parts.history, "href", pecker.root.dataset.history + "?" + new URLSearchParams({of: "limit", name, since: "1h"}));
        parts.workers = newTable("workers", {"aria-label": "Workers"});
        parts.tenants = newTable("tenants", {"aria-label": "Tenants"});
        parts.pair.append(parts.workers.all, parts.tenants.all);
        // A panel that a user opened or closed stays so, whatever the state becomes.
        parts.summary.addEventListener("click", () => { parts.chosen = true; });
        return parts;
    }

    function drawPanel(parts, database, {every, charted}) {
        parts.history.hidden = !charted;
        if (parts.badge.dataset.drawn !== database.state) {
            drawMark(parts.badge, tables.databases, database.state);
            parts.row.className = "pecker-card throttle-panel throttle-" + database.state;
            if (!parts.chosen) { parts.who.open = database.state === "over" || database.state === "holding"; }
        }
        parts.shadow.hidden = !database.shadow;
        text(parts.line, database.summary);
        pecker.fill(parts.notes, database.notes.join("\n"), () => database.notes.map(note => el("li", {}, note)));
        drawBar(parts, database);
        drawChart(parts, database.past, every);
        drawWho(parts, database);
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
            (parts, database) => drawPanel(parts, database, data));
        byId("empty").hidden = data.databases.length > 0;
        text(byId("source"), data.where);
        document.title = data.title + "Throttle · Flower";
        byId("away").hidden = !data.away;
        text(byId("away"), data.away);
        if (data.away) { pecker.deaf("No answer"); }
    }

    pecker.view.pictures.push(show);
})();
