// The page of a view: cards, tables, filters and acts, as the server describes them.
pecker.view = (function () {
    "use strict";

    const {el, text, attribute, count, plural, span, time, iso} = pecker;
    const byId = id => document.getElementById(id);
    const tables = JSON.parse(byId("pecker-view").textContent);
    const params = new URLSearchParams(location.search);
    const choice = {outbox: params.get("outbox") || "", page: Math.max(parseInt(params.get("page"), 10) || 1, 1)};
    const known = {};   // the rows that are drawn, of each table
    const pictures = [];   // what a page draws by hand, of each answer
    let ask = () => {};

    // What is chosen stands in the address.

    function query() {
        const search = new URLSearchParams();
        for (const [key, value] of Object.entries(choice)) {
            if (value && !(key === "page" && value === 1)) { search.set(key, value); }
        }
        return search.toString();
    }

    function choose(change) {
        Object.assign(choice, {page: 1}, change);
        const search = query();
        history.replaceState(null, "", search ? "?" + search : location.pathname);
        ask();
    }

    // Cells

    const rate = value => (value >= 10 ? count(Math.round(value)) : String(Math.round(value * 10) / 10)) + "/s";
    const WORDS = {
        count: value => value === null ? "–" : count(value),
        duration: value => value === null ? "–" : span(value * 1e6),
        rate: rate,
        instant: value => value === null ? "–" : time(value),
    };

    function mark(spec, state) {
        return el("span", {class: "pecker-key"}, el("svg:svg", {viewBox: "0 0 1 1", "aria-hidden": "true"},
            ...pecker.pictures.cell(spec.states[state] || "none", 0, 0, 1, 1)), state);
    }

    function newCell(column, row, head) {
        const cell = el("td", {class: head.className});
        if (column.kind === "name") { cell.classList.add("pecker-what"); }
        const value = column.kind === "name" ? pecker.shown(String(row[column.key])) : "";
        if (column.chooses) {
            const button = el("button", {type: "button", class: "btn btn-link p-0"}, value);
            button.addEventListener("click", () => choose({[column.chooses]: row[column.key], page: choice.page}));
            cell.append(button);
        } else if (column.kind === "name") {
            cell.append(el("span", {title: value}, value));
        }
        if (column.notes.length) {
            const notes = column.notes.map(name => row[name]).join(" · ");
            cell.append(el("small", {title: notes}, notes));
        }
        return cell;
    }

    function drawCell(spec, column, cell, value) {
        if (column.kind === "state") {
            if (cell.dataset.state !== value) {
                cell.dataset.state = value;
                cell.replaceChildren(mark(spec, value));
            }
        } else if (column.kind !== "name") {
            const words = WORDS[column.kind];
            text(cell, words ? words(value) : String(value ?? ""));
            if (column.kind === "instant") { attribute(cell, "title", value === null ? null : iso(value)); }
            if (column.alert) { cell.classList.toggle("pecker-some", value > 0); }
        }
    }

    // Rows

    function actButton(act, key, words) {
        const made = el("button", {type: "button", class: "pecker-act pecker-wide", "data-act": act.name,
            "aria-label": `${act.label} ${words}`}, act.label);
        made.addEventListener("click", async () => {
            if (act.asks && !pecker.root.dataset.refusal && !await pecker.confirm(`${act.label} ${words}?`, act.asks, act.label)) { return; }
            await pecker.act(act.name, key, choice.outbox ? "?" + new URLSearchParams({outbox: choice.outbox}) : "");
            ask();
        });
        if (pecker.root.dataset.refusal) { made.setAttribute("aria-disabled", "true"); }
        return made;
    }

    function newRow(spec, row, heads) {
        const parts = {cells: spec.columns.map((column, nth) => newCell(column, row, heads[nth])), acts: []};
        const nameAt = spec.columns.findIndex(column => column.kind === "name");
        if (spec.columns.some(column => column.kind === "error")) {   // on a phone its column is not shown
            parts.why = el("small", {class: "pecker-why"});
            parts.cells[nameAt].append(parts.why);
        }
        parts.row = el("tr", {"data-key": row[spec.key]}, ...parts.cells);
        if (spec.acts.length) {
            const words = `${row[spec.columns[nameAt].key]} ${row[spec.key]}`;
            parts.acts = spec.acts.map(act => ({act, button: actButton(act, row[spec.key], words)}));
            parts.row.append(el("td", {class: "pecker-does"}, ...parts.acts.map(one => one.button)));
        }
        return parts;
    }

    function drawRow(spec, parts, row) {
        spec.columns.forEach((column, nth) => {
            drawCell(spec, column, parts.cells[nth], row[column.key]);
            if (column.kind === "error") { text(parts.why, row[column.key] || ""); }
        });
        for (const {act, button} of parts.acts) {
            button.hidden = act.states !== null && !act.states.includes(row[spec.state]);
        }
    }

    function drawTable(name, data) {
        const spec = tables[name], place = byId(name), rows = data.rows[name];
        known[name] = pecker.rows(place.tBodies[0], known[name] || new Map(), rows, spec.key,
            row => newRow(spec, row, place.tHead.rows[0].cells), (parts, row) => drawRow(spec, parts, row));
        byId("no-" + name).hidden = rows.length > 0;
        if (!spec.filters.length) { return; }
        for (const filter of spec.filters.filter(one => one.kind === "chosen")) {
            const undo = byId("only-" + filter.key);
            undo.hidden = !choice[filter.key];
            text(undo, `Only ${filter.label} ${choice[filter.key]}: show all`);
        }
        const first = (choice.page - 1) * data.size;
        text(byId("range"), data.total === null ? plural(rows.length, "row") + (data.more ? " of more" : "")
            : rows.length ? `${count(first + 1)}–${count(first + rows.length)} of ${count(data.total)}` : "");
        byId("pages").hidden = data.total === null;
        byId("back").disabled = choice.page <= 1;
        byId("on").disabled = choice.page >= Math.ceil(data.total / data.size);
    }

    // All of it

    // The databases that the page may be of; most apps have one.
    function drawDatabases(data) {
        const place = byId("outbox");
        byId("outboxes").hidden = !data.places || data.places.length < 2;
        if (!data.places) { return; }
        if (place.options.length !== data.places.length) {
            place.replaceChildren(...data.places.map(name => el("option", {value: name}, name)));
        }
        if (document.activeElement !== place) { place.value = data.place; }
    }

    function show(data) {
        drawDatabases(data);
        for (const [name, card] of Object.entries(data.cards)) {
            pecker.card(name, card.text, card.note, card.tone);
        }
        for (const name of Object.keys(tables)) {
            if (byId(name) instanceof HTMLTableElement) { drawTable(name, data); }
        }
        for (const draw of pictures) { draw(data); }
    }

    function listen(filter) {
        choice[filter.key] = params.get(filter.key) || "";
        const place = byId((filter.kind === "chosen" ? "only-" : "filter-") + filter.key);
        let typing = 0;
        if (filter.kind === "chosen") {
            place.addEventListener("click", () => choose({[filter.key]: ""}));
        } else if (filter.kind === "flag") {
            place.checked = choice[filter.key] === "1";
            place.addEventListener("change", () => choose({[filter.key]: place.checked ? "1" : ""}));
        } else {
            place.value = choice[filter.key];
            place.addEventListener("input", () => {
                clearTimeout(typing);
                typing = setTimeout(() => choose({[filter.key]: place.value.trim()}), filter.kind === "search" ? 200 : 0);
            });
        }
    }

    for (const spec of Object.values(tables)) { spec.filters.forEach(listen); }
    for (const form of document.querySelectorAll(".pecker-tools")) {
        form.addEventListener("submit", event => event.preventDefault());
    }
    byId("outbox").addEventListener("change", event => {
        location.search = "?" + new URLSearchParams({outbox: event.target.value});
    });
    for (const [id, step] of [["back", -1], ["on", 1]]) {
        const button = byId(id);
        if (button) { button.addEventListener("click", () => choose({page: choice.page + step})); }
    }
    // Scripts of the page that come after this one add what they draw by hand.
    document.addEventListener("DOMContentLoaded", () => { ask = pecker.watch(query, show); });

    return {byId, tables, choice, choose, mark, actButton, pictures, params};
})();
