// Observers: hosts as bars of their capacity, and the life of one as a strip.
(function () {
    "use strict";

    const {el, text, attribute, count, plural, span, now} = pecker;
    const {byId, tables, choose, mark, newActs} = pecker.view;
    let hosts = new Map(), drawnLife = "";

    // Hosts

    const STATES = {up: "", draining: "drains", lapsed: "its lease is over", dead: "dead"};

    function newHost(host) {
        const parts = pecker.parts("host");
        parts.row.dataset.id = host.node;
        const name = `${pecker.shown(host.name)}, process ${host.pid}`;   // two on one machine may have one name
        text(parts.link, name);
        parts.link.addEventListener("click", () => choose({node: host.node}));
        const [buttons, drawActs] = newActs(tables.hosts, host.node, name);
        parts.row.append(...buttons);
        return {...parts, drawActs};
    }

    function drawHost(parts, host) {
        const part = Math.min(host.load / host.capacity, 1);
        parts.full.style.width = 100 * part + "%";
        attribute(parts.bar, "aria-label", `${host.load} of ${host.capacity} weights`);
        attribute(parts.row, "class", "pecker-host-" + (host.state === "up" && part >= 1 ? "full" : host.state));
        const lease = host.lease > 0 ? "lease " + span(host.lease * 1e6) : "";
        text(parts.figures, [`${count(host.load)} of ${count(host.capacity)}`, plural(host.observers, "observer"), lease,
            STATES[host.state]].filter(Boolean).join(" · "));
        parts.drawActs(host);
    }

    // What an observer was from each event to the next.

    const AFTER = {created: "waiting", started: "running", moved: "running", restarting: "stopping", failed: "retrying",
        parked: "parked", released: "waiting", stopping: "stopping", stopped: null};
    const WIDE = 1000, HIGH = 26, LEAST = 4;

    function strip(life, events) {
        const picture = el("svg:svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img",
            "aria-label": `${plural(events.length, "event")}; now ${life.place}`});
        const parts = events.map((event, nth) => {
            const next = events[nth + 1];
            return {event, place: AFTER[event.event], us: (next ? next.at : now()) - event.at};
        }).filter(part => part.place);
        const all = parts.reduce((sum, part) => sum + Math.max(part.us, 0), 0) || 1;
        const free = Math.max(WIDE - LEAST * parts.length, 0);
        let x = 0;
        for (const {event, place, us} of parts) {
            const wide = Math.min(LEAST + free * Math.max(us, 0) / all, WIDE - x);
            picture.append(el("svg:g", {}, el("svg:title", {}, `${place} for ${span(us)} on ${event.host || "no host"}`),
                el("svg:rect", {class: "pecker-cell pecker-" + tables.observers.states[place], x, y: 0, width: Math.max(wide - 1, 1), height: HIGH})));
            x += wide;
        }
        return picture;
    }

    function drawLife(life, events) {
        byId("life").hidden = !life;
        if (life) { pecker.verdict(byId("life-verdict"), life.verdict, life.name); }
        const key = life && `${life.id} ${events.length} ${life.place}`;
        if (!life || key === drawnLife) { return; }
        drawnLife = key;
        text(byId("life-name"), pecker.shown(life.name));
        byId("life-legend").replaceChildren(...Object.keys(tables.observers.states).map(place => mark(tables.observers, place)));
        byId("life-strip").replaceChildren(strip(life, events));
        text(byId("life-about"), life.about.join("; "));
    }

    byId("close").addEventListener("click", () => choose({name: ""}, true));
    pecker.view.pictures.push(data => {
        byId("unsent").hidden = !data.warning;
        text(byId("unsent"), data.warning);
        hosts = pecker.rows(byId("hosts"), hosts, data.rows.hosts, "node", newHost, drawHost);
        byId("no-hosts").hidden = data.rows.hosts.length > 0;
        drawLife(data.life, [...data.rows.events].reverse());
    });
})();
