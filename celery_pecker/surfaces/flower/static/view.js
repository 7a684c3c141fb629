// The page of a view: cards, tables, filters and acts, as the server describes them.
pecker.view = (function () {
    "use strict";

    const {el, text, attribute, fill, count, plural, span, time, iso} = pecker;
    const byId = id => document.getElementById(id);
    const tables = JSON.parse(byId("pecker-view").textContent);
    const params = new URLSearchParams(location.search);
    const usual = {page: 1, order: Object.values(tables).map(spec => spec.order).find(Boolean)};
    const choice = {order: usual.order, ...Object.fromEntries(params), page: Math.max(parseInt(params.get("page"), 10) || 1, 1)};
    const drawn = {};   // what draws the rows of each table
    const pictures = [];   // what a page draws by hand, of each answer
    const hands = {};   // and of each row: cells by the keys of their columns, and `acts`
    const filters = Object.values(tables).flatMap(spec => spec.filters);
    const numbers = !Object.values(tables).some(spec => spec.paged === "behind");
    let last = {}, ask = () => {};

    // What is chosen stands in the address.

    function query() {
        const search = new URLSearchParams();
        for (const [key, value] of Object.entries(choice)) {
            if (value && value !== usual[key]) { search.set(key, value); }
        }
        return search.toString();
    }

    // Of another choice the first page is shown; `here` keeps that which is.
    function choose(change, here) {
        Object.assign(choice, here ? {} : {page: 1, after: "", trail: ""}, change);
        const search = query();
        history.replaceState(null, "", search ? "?" + search : location.pathname);
        drawChoice();
        ask();
    }

    function drawChoice() {
        for (const {key} of filters) {
            const place = byId("filter-" + key);
            place.checked = choice[key] === "1";
            if (place !== document.activeElement && place.checkValidity()) { place.value = choice[key] || ""; }
        }
        for (const head of document.querySelectorAll("th[data-order]")) {
            attribute(head, "aria-sort", head.dataset.order !== choice.order ? null : choice.descending ? "descending" : "ascending");
        }
    }

    // Back from behind the end of a list that became shorter is to its last page. Where a page begins
    // behind a row, the address has those of the pages before, too: each leads back.
    function turn(step) {
        const page = Math.min(choice.page + step, Math.max(Math.ceil(last.total / last.size), 1));
        const trail = (choice.trail || "").split("\n"), way = [...trail, choice.after].filter(Boolean).slice(-30).join("\n");
        if (!numbers) {
            choose(step > 0 ? {after: last.next, trail: way} : {after: trail.pop(), trail: trail.join("\n")}, true);
        } else if (page >= 1 && page !== choice.page) { choose({page}, true); }
    }

    // Cells

    const rate = value => (value >= 10 ? count(Math.round(value)) : String(Math.round(value * 10) / 10)) + "/s";
    const WORDS = {
        count: count,
        duration: value => span(value * 1e6),
        rate: rate,
        instant: value => time(value),
        name: value => pecker.shown(String(value)),
        part: ([words]) => words,
    };

    function words(column, value) {
        if (value === null && (column.number || column.kind === "instant")) { return "–"; }
        return (WORDS[column.kind] || String)(value ?? "");
    }

    const mark = (spec, state) => pecker.pictures.key(spec.states[state] || "none", state);

    const drawMark = (place, spec, state) => fill(place, state, () => [mark(spec, state)]);

    // Parts of a whole: what is well, then what is not.

    const newBar = () => el("span", {class: "pecker-parts", "aria-hidden": "true"}, el("i"), el("i"));

    function drawBar(bar, parts) {
        parts.forEach((part, nth) => { bar.children[nth].style.width = Math.min(part, 1) * 100 + "%"; });
    }

    const classes = column => `pecker-is-${column.kind} pecker-from-${column.width}` + (column.number ? " text-end" : "");

    const hand = (spec, key) => (hands[spec.name] || {})[key];

    function newCell(spec, column, row) {
        const cell = el("td", {class: classes(column) + (column.kind === "name" ? " pecker-what" : "")});
        const byHand = hand(spec, column.key);
        if (byHand) { return {cell, draw: row => byHand(cell, row)}; }
        const main = column.link ? el("a") : column.opens ? el("a", {href: pecker.root.dataset.url + column.opens + encodeURIComponent(row[spec.key])})
            : column.chooses || column.kind === "name" ? el("button", {type: "button", class: "btn btn-link p-0"}) : el("span");
        const bar = column.kind === "part" ? newBar() : "", small = el("small");
        const folded = column.notes.filter(name => spec.folded.includes(name)).map(name => [name,
            el("details", {}, el("summary", {}, name), el("pre"))]);
        const notes = column.notes.filter(name => !spec.folded.includes(name));
        if (column.chooses) {
            main.addEventListener("click", () => choose({[column.chooses]: row[column.key]}, !filters.some(({key}) => key === column.chooses)));
        } else if (main.type) {
            main.addEventListener("click", () => openDetail(spec, row[spec.key]));
        }
        cell.append(bar, main, ...(notes.length ? [small] : []), ...folded.map(([, made]) => made));
        return {cell, draw(row) {
            const value = row[column.key];
            if (column.kind === "state") { drawMark(main, spec, value); } else { text(main, words(column, value)); }
            if (bar) { drawBar(bar, value.slice(1)); }
            if (column.kind === "name") { attribute(main, "title", value); }
            if (column.link) { attribute(main, "href", pecker.root.dataset.base + row[column.link] + (choice.outbox ? "&outbox=" + encodeURIComponent(choice.outbox) : "")); }
            if (column.kind === "instant") { attribute(cell, "title", value === null ? null : iso(value)); }
            if (column.hint) { attribute(cell, "title", row[column.hint]); }
            if (column.alert) { cell.classList.toggle("pecker-some", value > 0); }
            text(small, notes.map(name => row[name]).filter(note => note !== null && note !== "").join(" · "));
            attribute(small, "title", small.textContent);
            for (const [name, made] of folded) {
                made.hidden = !row[name];
                text(made.lastChild, row[name] || "");
            }
        }};
    }

    // Rows

    const refusal = pecker.root.dataset.refusal;

    // Does it, and asks before where `why` says what comes of it, or something is typed with it.
    async function does(act, rows, words, why) {
        const asks = (why || act.types) && !refusal;
        const meant = !asks || await pecker.confirm(`${act.label} ${words}?`, why, act.label, act.types, act.usual);
        if (!meant) { return; }
        await pecker.act(act.name, rows, "?" + query(), act.types ? meant : undefined, act.undo);
    }

    const ICONS = {
        pause: "M4 2.5h3v11H4zM9 2.5h3v11H9z",
        resume: "M4 2.2v11.6L13.5 8z",
        run: "M9.5 1 3 9h4l-1 6 7-8.5H8.8z",
        edit: "M11.3 1.3 14.7 4.7 5.4 14H2v-3.4zM3.6 11.3v1.1h1.1L12.4 4.7l-1.1-1.1z",
    };
    const icon = what => ICONS[what] ? el("svg:svg", {viewBox: "0 0 16 16", "aria-hidden": "true"}, el("svg:path", {d: ICONS[what]})) : "";
    function actButton(act, label, done) {
        const made = el("button", {type: "button", class: "pecker-act pecker-wide", "data-act": act.name, "aria-label": label,
            title: refusal ? `${label}: ${refusal}` : label, "aria-disabled": refusal ? "true" : null}, icon(act.name), el("span", {}, act.label));
        // Not `disabled` meanwhile: a button that was pressed by key would lose the focus. The second
        // click of a double-click may be on the next row by now: it does nothing.
        made.addEventListener("click", async event => {
            if (event.detail > 1 || made.getAttribute("aria-busy")) { return; }
            made.setAttribute("aria-busy", "true");
            await done();
            made.removeAttribute("aria-busy");
        });
        return made;
    }

    // The buttons of a row, and what shows those that it offers.
    function newActs(spec, key, words) {
        const buttons = spec.acts.map(act => actButton(act, `${act.label} ${words}`, () => does(act, key, words, act.undo ? "" : act.asks)));
        return [buttons, row => {
            const focused = buttons.includes(document.activeElement) ? document.activeElement : null;
            const offered = made => row.acts.includes(made.dataset.act), next = buttons.find(made => made.hidden && offered(made));
            for (const made of buttons) { made.hidden = !offered(made); }
            if (focused && focused.hidden && next) { next.focus(); }   // Resume, where Pause was
        }];
    }

    // What is done to several rows: those that are ticked, or all that filters leave.
    function newBulk(spec) {
        const ticked = new Map(), bar = el("div", {class: "pecker-bulk", hidden: ""}), words = el("b", {role: "status"});
        const all = el("input", {type: "checkbox", class: "form-check-input", "aria-label": `Choose all ${spec.nouns[1]} of this page`});
        const every = el("input", {type: "checkbox", class: "form-check-input"}), everyWords = el("span"), label = el("label", {}, every, everyWords);
        const nameOf = spec.columns.find(column => column.kind === "name").key;
        let rows = [];
        const offering = act => every.checked ? [] : rows.filter(row => ticked.has(row[spec.key]) && row.acts.includes(act.name));

        function press(act) {
            const chosen = offering(act), names = chosen.map(row => String(row[nameOf])), few = names.slice(0, 5).join(", ");
            const some = every.checked ? "all " + everyWords.textContent : plural(chosen.length, ...spec.nouns);
            const sample = every.checked ? rows.slice(0, 5).map(row => row[nameOf]).join(", ") + " …" : names.length > 5 ? `${few} and ${count(names.length - 5)} more` : few;
            return does(act, every.checked ? {every: true} : {names: chosen.map(row => row[spec.key])}, some,
                [sample + ".", act.asks].filter(Boolean).join(" ")).then(() => { every.checked = false; ticked.clear(); draw(rows); });
        }

        const buttons = spec.acts.map(act => [act, actButton(act, `${act.label} those chosen`, () => press(act))]);
        bar.append(words, label, ...buttons.map(([, button]) => button));
        every.addEventListener("change", () => draw(rows));
        all.addEventListener("change", () => {
            ticked.clear();
            for (const row of all.checked ? rows : []) { ticked.set(row[spec.key], true); }
            draw(rows);
        });

        function newTick(row) {
            const box = el("input", {type: "checkbox", class: "form-check-input", "aria-label": "Choose " + row[nameOf]});
            box.addEventListener("change", () => {
                if (box.checked) { ticked.set(row[spec.key], true); } else { ticked.delete(row[spec.key]); }
                draw(rows);
            });
            return el("td", {class: "pecker-tick"}, box);
        }

        function draw(shown) {
            rows = shown;
            for (const key of [...ticked.keys()].filter(key => !rows.some(row => row[spec.key] === key))) { ticked.delete(key); }
            for (const box of document.querySelectorAll(`#${spec.name} td.pecker-tick input`)) {
                box.checked = every.checked || ticked.has(box.closest("tr").dataset.key);
            }
            all.checked = rows.length > 0 && ticked.size === rows.length;
            all.indeterminate = ticked.size > 0 && !all.checked;
            bar.hidden = !ticked.size;
            text(words, plural(ticked.size, ...spec.nouns) + " chosen");
            label.hidden = !spec.acts.some(act => act.every) || !(last.total > rows.length || last.more);
            every.checked = every.checked && !label.hidden && ticked.size > 0;
            text(everyWords, `${last.total ? count(last.total) + " " : ""}${spec.nouns[1]} that match`);
            for (const [act, button] of buttons) { button.hidden = every.checked ? !act.every : !offering(act).length; }
        }

        return {bar, head: el("th", {class: "pecker-tick"}, all), newTick, draw};
    }

    function newRow(spec, row, bulk) {
        const cells = spec.columns.map(column => newCell(spec, column, row));
        const nameAt = spec.columns.findIndex(column => column.kind === "name");
        const error = spec.columns.find(column => column.kind === "error"), why = el("small", {class: "pecker-why"});
        if (error) { cells[nameAt].cell.append(why); }   // on a phone its column is not shown
        const called = nameAt < 0 ? "" : row[spec.columns[nameAt].key], key = row[spec.key];
        const [buttons, drawActs] = newActs(spec, key, called === key ? key : `${called} ${key}`);
        const made = el("tr", {"data-key": row[spec.key]}, ...(bulk ? [bulk.newTick(row)] : []), ...cells.map(one => one.cell));
        const acts = el("td", {class: "pecker-does"}, ...buttons), byHand = hand(spec, "acts");
        if (buttons.length) { made.append(acts); }
        return {row: made, draw(row) {
            if (byHand) { byHand(acts, row); }
            for (const one of cells) { one.draw(row); }
            if (error) { text(why, row[error.key] || ""); }
            drawActs(row);
        }};
    }

    // The facts of one row, beside the table, for as long as they are looked at.

    const detail = byId("pecker-detail");
    let opened = null;

    function openDetail(spec, key) {
        opened = {spec, key};
        drawDetail();
        detail.showPopover();
    }

    function drawDetail() {
        const row = opened && (last.rows[opened.spec.name] || []).find(one => one[opened.spec.key] === opened.key);
        if (!row) { return; }   // it is gone by now: what was known of it stays
        pecker.facts(detail.querySelector("dl"), opened.spec.facts.map(column => [column.label,
            words(column, row[column.key]), column.kind === "instant" && row[column.key] !== null ? iso(row[column.key]) : ""]));
    }

    function newHead(column) {
        const head = el("th", {scope: "col", class: classes(column)});
        if (!column.order) { head.append(column.label); return head; }
        const button = head.appendChild(el("button", {type: "button"}, column.label));
        head.dataset.order = column.order;
        button.addEventListener("click", () => {
            // Of numbers the largest come first.
            const descends = choice.order === column.order ? !choice.descending : !["name", "state"].includes(column.kind);
            choose({order: column.order, descending: descends ? "1" : ""});
        });
        return head;
    }

    // A table with its heads; `draw(rows)` keeps what is there as long as it is shown.
    function newTable(name, attributes) {
        const spec = tables[name], body = el("tbody");
        const none = el("p", {class: "pecker-empty"}, spec.empty), note = el("p", {class: "pecker-muted"});
        const bulk = spec.acts.length && !spec.by_hand && !refusal ? newBulk(spec) : null;
        const head = el("tr", {}, ...(bulk ? [bulk.head] : []), ...spec.columns.map(column => newHead(column)));
        if (spec.acts.length) { head.append(el("th", {scope: "col", class: "pecker-does"}, el("span", {class: "visually-hidden"}, "Actions"))); }
        const table = el("table", {class: "table table-hover align-middle mb-0 pecker-table pecker-viewed", ...attributes},
            el("thead", {}, head), body);
        const all = el("div", {}, ...(bulk ? [bulk.bar] : []), el("div", {class: "table-responsive", tabindex: "0"}, table), none, note);
        let known = new Map();
        return {all, draw(rows, said) {
            known = pecker.rows(body, known, rows, spec.key, row => newRow(spec, row, bulk), (parts, row) => parts.draw(row));
            if (bulk) { bulk.draw(rows); }
            none.hidden = rows.length > 0;
            note.hidden = !said;
            text(note, said || "");
        }};
    }

    function drawPages(spec, rows, data) {
        const first = (choice.page - 1) * data.size;
        text(byId("range"), spec.paged !== "numbers" ? plural(rows.length, ...spec.nouns)
            + (data.total > rows.length ? " of " + count(data.total) : data.more ? " of more" : "") + (choice.after ? ", not the first" : "")
            : (rows.length ? `${count(first + 1)}–${count(first + rows.length)} of ` : "") + plural(data.total, ...spec.nouns));
        if (!spec.paged) { return; }
        byId("back").disabled = numbers ? choice.page <= 1 : !choice.after;
        byId("on").disabled = numbers ? choice.page >= Math.ceil(data.total / data.size) : !data.more;
    }

    // All of it

    function show(data) {
        last = data;
        for (const draw of pictures) { draw(data); }
        for (const [name, card] of Object.entries(data.cards)) {
            pecker.card(name, card.text, card.note, card.tone);
        }
        for (const [name, table] of Object.entries(drawn)) {
            table.draw(data.rows[name], data.notes && data.notes[name]);
            if (tables[name].paged || tables[name].filters.length) { drawPages(tables[name], data.rows[name], data); }
        }
        for (const [key, words] of Object.entries(data.known || {})) {
            fill(byId("known-" + key), words.join("\n"), () => words.map(value => el("option", {value})));
        }
        drawDetail();
    }

    function listen({key, kind}) {
        const place = byId("filter-" + key);
        let typing = 0;
        place.addEventListener("input", () => {
            const value = kind !== "flag" ? place.value.trim() : place.checked ? "1" : "";
            clearTimeout(typing);
            if (place.checkValidity()) { typing = setTimeout(() => choose({[key]: value}), place.type === "search" ? 200 : 0); }
        });
        if (kind === "search") {
            pecker.keys(event => {
                if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { return; }
                event.preventDefault();
                place.focus();
                place.select();
            });
        }
    }

    for (const place of document.querySelectorAll("[data-table]")) {
        const name = place.dataset.table;
        drawn[name] = newTable(name, {id: name});
        place.append(drawn[name].all);
    }
    drawChoice();
    filters.forEach(listen);
    for (const button of document.querySelectorAll("[data-leads]")) {
        button.addEventListener("click", () => choose({search: "", order: button.dataset.leads, descending: ""}));
    }
    for (const form of document.querySelectorAll(".pecker-tools")) {
        form.addEventListener("submit", event => event.preventDefault());
    }
    for (const place of document.querySelectorAll("#outbox")) {
        place.addEventListener("change", () => { location.search = "?" + new URLSearchParams({outbox: place.value}); });
    }
    for (const [id, step] of [["back", -1], ["on", 1]]) {
        for (const button of document.querySelectorAll("#" + id)) { button.addEventListener("click", () => turn(step)); }
    }
    // Scripts of the page that come after this one add what they draw by hand.
    document.addEventListener("DOMContentLoaded", () => { ask = pecker.watch(query, show); });

    return {byId, tables, choice, choose, mark, drawMark, icon, newActs, newTable, newBar, drawBar, turn, pictures, hands};
})();
