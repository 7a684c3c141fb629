// Observers: hosts as bars of their capacity, the observers, and the life of one.
(function () {
    "use strict";

    const {el, text, attribute, count, plural, span, time, iso, now} = pecker;
    const pictures = pecker.pictures;
    const byId = id => document.getElementById(id);
    const params = new URLSearchParams(location.search);
    const view = {
        search: params.get("search") || "", place: params.get("place") || "", node: params.get("node") || "",
        name: params.get("name") || "", page: Math.max(parseInt(params.get("page"), 10) || 1, 1),
    };
    let hosts = new Map(), rows = new Map(), drawnLife = "", pages = 1;

    function query() {
        const search = new URLSearchParams();
        for (const key of ["search", "place", "node", "name"]) { if (view[key]) { search.set(key, view[key]); } }
        if (view.page > 1) { search.set("page", view.page); }
        return search.toString();
    }

    function turn(change) {
        Object.assign(view, {page: 1}, change);
        const search = query();
        history.replaceState(null, "", search ? "?" + search : location.pathname);
        ask();
    }

    const button = (what, words, act) => {
        const made = el("button", {type: "button", class: "pecker-act pecker-wide", "data-act": what}, words);
        made.addEventListener("click", act);
        if (pecker.root.dataset.refusal) { made.setAttribute("aria-disabled", "true"); }
        return made;
    };

    // Hosts

    const STATES = {up: "", draining: "drains", lapsed: "its lease is over", dead: "dead"};

    function newHost(host) {
        const parts = {full: el("span", {class: "pecker-full"}), figures: el("small")};
        parts.link = el("button", {type: "button", class: "btn btn-link p-0"}, pecker.shown(host.name));
        parts.link.addEventListener("click", () => turn({node: host.id}));
        parts.bar = el("div", {class: "pecker-bar-of", role: "img"}, parts.full);
        parts.act = button("drain", "Drain", async () => {
            await pecker.act(parts.act.dataset.act, host.id);
            ask();
        });
        parts.row = el("li", {"data-id": host.id}, el("div", {class: "pecker-host"}, parts.link, parts.bar, parts.figures), parts.act);
        return parts;
    }

    function drawHost(parts, host) {
        const part = Math.min(host.load / host.capacity, 1);
        parts.full.style.width = 100 * part + "%";
        attribute(parts.bar, "aria-label", `${host.load} of ${host.capacity} weights`);
        attribute(parts.row, "class", "pecker-host-" + (host.state === "up" && part >= 1 ? "full" : host.state));
        const lease = host.lease > 0 ? "lease " + span(host.lease * 1e6) : "";
        text(parts.figures, [`${count(host.load)} of ${count(host.capacity)}`, plural(host.observers, "observer"), lease,
            STATES[host.state]].filter(Boolean).join(" · "));
        const drained = host.state === "draining";
        attribute(parts.act, "data-act", drained ? "undrain" : "drain");
        attribute(parts.act, "aria-label", `${drained ? "Undrain" : "Drain"} ${host.name}`);
        text(parts.act, drained ? "Undrain" : "Drain");
    }

    // Observers

    const PLACES = {waiting: "asked", running: "done", retrying: "missed", parked: "bad", stopping: "idle"};

    function mark(place) {
        return el("span", {class: "pecker-key"}, el("svg:svg", {viewBox: "0 0 1 1", "aria-hidden": "true"},
            ...pictures.cell(PLACES[place] || "none", 0, 0, 1, 1)), place);
    }

    function newRow(row) {
        const names = ["place", "name", "host", "weight", "moves", "error", "acts"];
        const parts = {cells: Object.fromEntries(names.map(name => [name, el("td")])), place: "", armed: -Infinity};
        parts.cells.name.className = "pecker-what";
        parts.cells.weight.className = parts.cells.moves.className = "text-end";
        parts.cells.acts.className = "pecker-does";
        const link = el("button", {type: "button", class: "btn btn-link p-0"}, pecker.shown(row.name));
        link.addEventListener("click", () => turn({name: row.name, page: view.page}));
        parts.why = el("small", {class: "pecker-why"});  // on a phone, where its column is not shown
        parts.cells.name.append(link, el("small", {}, row.kind), parts.why);
        parts.restart = button("restart", "Restart", async () => { await pecker.act("restart", row.name); ask(); });
        parts.stop = button("stop", "Stop", () => stop(parts, row));
        for (const made of [parts.restart, parts.stop]) {
            attribute(made, "aria-label", `${made.textContent} ${row.name}`);
        }
        parts.cells.acts.append(parts.restart, parts.stop);
        parts.row = el("tr", {"data-name": row.name}, ...Object.values(parts.cells));
        return parts;
    }

    // What cannot be taken back is pressed twice.
    async function stop(parts, row) {
        if (performance.now() - parts.armed > 4000) {
            parts.armed = performance.now();
            text(parts.stop, "Really?");
            setTimeout(() => text(parts.stop, "Stop"), 4000);
            return;
        }
        await pecker.act("stop", row.name);
        ask();
    }

    function drawRow(parts, row) {
        if (parts.place !== row.place) {
            parts.place = row.place;
            parts.cells.place.replaceChildren(mark(row.place));
        }
        text(parts.cells.host, row.node_name || (row.node || "–").slice(0, 8));
        text(parts.cells.weight, count(row.weight));
        text(parts.cells.moves, count(row.moves));
        const error = row.place === "parked" || row.place === "retrying" ? row.last_error || "" : "";
        for (const place of [parts.cells.error, parts.why]) { text(place, error); }
        parts.restart.hidden = row.place === "stopping";
        parts.stop.hidden = row.place === "stopping";
    }

    // The life of one, as a strip: what it was from each event to the next.

    const AFTER = {created: "waiting", started: "running", moved: "running", restarting: "stopping", failed: "retrying",
        parked: "parked", released: "waiting", stopping: "stopping", stopped: null};
    const WIDE = 1000, HIGH = 26, LEAST = 4;

    function strip(life) {
        const picture = el("svg:svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img",
            "aria-label": `${plural(life.events.length, "event")}; now ${life.row.place}`});
        const parts = life.events.map((event, nth) => {
            const next = life.events[nth + 1];
            return {event, place: AFTER[event.event], us: (next ? next.at : now()) - event.at};
        }).filter(part => part.place);
        const all = parts.reduce((sum, part) => sum + Math.max(part.us, 0), 0) || 1;
        const free = Math.max(WIDE - LEAST * parts.length, 0);
        let x = 0;
        for (const {event, place, us} of parts) {
            const wide = Math.min(LEAST + free * Math.max(us, 0) / all, WIDE - x);
            picture.append(el("svg:g", {}, el("svg:title", {}, `${place} for ${span(us)} on ${event.node_name || "no host"}`),
                el("svg:rect", {class: "pecker-cell pecker-" + PLACES[place], x, y: 0, width: Math.max(wide - 1, 1), height: HIGH})));
            x += wide;
        }
        return picture;
    }

    function drawLife(life) {
        byId("life").hidden = !life;
        const key = life && `${life.row.id} ${life.events.length} ${life.row.place}`;
        if (!life || key === drawnLife) { return; }
        drawnLife = key;
        text(byId("life-name"), pecker.shown(life.row.name));
        byId("life-legend").replaceChildren(...Object.keys(PLACES).map(mark));
        byId("life-strip").replaceChildren(strip(life));
        text(byId("life-about"), [`${life.row.status}, ${life.row.place}, epoch ${life.row.epoch}, weight ${life.row.weight}`,
            "arguments " + life.row.args, life.row.state && "cursor " + life.row.state].filter(Boolean).join("; "));
        document.querySelector("#events tbody").replaceChildren(...[...life.events].reverse().map(event => el("tr", {},
            el("td", {class: "pecker-time", title: iso(event.at)}, time(event.at, true)),
            el("td", {}, event.event, el("small", {class: "pecker-why"}, event.error || "")),
            el("td", {}, event.node_name || "–"), el("td", {class: "text-end"}, event.epoch), el("td", {}, event.error || ""))));
    }

    // All of it

    function card(name, value, sub, tone) {
        text(byId("total-" + name), value);
        text(byId("sub-" + name), sub);
        attribute(byId("card-" + name), "class", "metric-card metric-card-" + tone);
    }

    function drawCards({places, oldest_waiting, capacity, free, taking, hosts: there}) {
        card("running", count(places.running), [places.retrying && plural(places.retrying, "is tried again", "are tried again"),
            places.stopping && plural(places.stopping, "stops", "stop")].filter(Boolean).join(", ") || "all well", "success");
        card("waiting", count(places.waiting), oldest_waiting === null ? "none" : "the oldest for " + span(oldest_waiting * 1e6),
            oldest_waiting > 60 ? "danger" : places.waiting ? "active" : "success");
        card("parked", count(places.parked), places.parked ? "need attention" : "none", places.parked ? "warning" : "success");
        card("free", count(free), `of ${count(capacity)}, on ${count(taking)} of ${plural(there, "host")}`, free ? "success" : "danger");
    }

    function drawUnsent({count: unsent, oldest, error}) {
        byId("unsent").hidden = !unsent;
        text(byId("unsent"), unsent ? `${plural(unsent, "signature")} of on_parked and on_moved not sent, the oldest for ${span(oldest * 1e6)}: ${error}` : "");
    }

    function show(data) {
        drawCards(data.summary);
        drawUnsent(data.summary.unsent);
        hosts = pecker.rows(byId("hosts"), hosts, data.hosts, "id", newHost, drawHost);
        rows = pecker.rows(document.querySelector("#observers tbody"), rows, data.rows, "name", newRow, drawRow);
        byId("no-hosts").hidden = data.hosts.length > 0;
        byId("no-observers").hidden = data.rows.length > 0;
        pages = Math.max(Math.ceil(data.total / data.size), 1);
        const first = (view.page - 1) * data.size;
        text(byId("range"), data.rows.length ? `${count(first + 1)}–${count(first + data.rows.length)} of ${count(data.total)}` : "");
        byId("back").disabled = view.page <= 1;
        byId("on").disabled = view.page >= pages;
        const host = data.hosts.find(one => one.id === view.node);
        byId("all-hosts").hidden = !view.node;
        text(byId("all-hosts"), `Only on ${host ? host.name : view.node}: show all`);
        drawLife(data.life);
    }

    const search = byId("search");
    search.value = view.search;
    byId("place").value = view.place;
    const ask = pecker.watch(query, show);
    let typing = 0;
    search.addEventListener("input", () => {
        clearTimeout(typing);
        typing = setTimeout(() => turn({search: search.value.trim()}), 200);
    });
    byId("place").addEventListener("change", event => turn({place: event.target.value}));
    byId("all-hosts").addEventListener("click", () => turn({node: ""}));
    byId("close").addEventListener("click", () => turn({name: "", page: view.page}));
    byId("back").addEventListener("click", () => turn({page: view.page - 1}));
    byId("on").addEventListener("click", () => turn({page: view.page + 1}));
    byId("tools").addEventListener("submit", event => event.preventDefault());
})();
