// Alarms: what rings, what has recovered lately, and where notices go.
(function () {
    "use strict";

    const {el, text, attribute, count, plural, span, time, iso, now} = pecker;
    const pictures = pecker.pictures;
    const byId = id => document.getElementById(id);
    const CELLS = {ringing: "bad", pending: "asked", recovered: "done"};
    let rows = new Map(), targets = new Map();

    function mark(state) {
        return el("span", {class: "pecker-key"}, el("svg:svg", {viewBox: "0 0 1 1", "aria-hidden": "true"},
            ...pictures.cell(CELLS[state] || "none", 0, 0, 1, 1)), state);
    }

    function cells(names, right) {
        return Object.fromEntries(names.map(name => [name, el("td", right.includes(name) ? {class: "text-end"} : {})]));
    }

    function newRow(row) {
        const parts = {state: "", cells: cells(["state", "subject", "what", "since", "times", "waiting"], ["times"])};
        parts.cells.subject.className = "pecker-what";
        parts.cells.subject.append(el("span", {}, pecker.shown(row.subject)), el("small", {}, row.rule));
        parts.row = el("tr", {"data-subject": row.subject}, ...Object.values(parts.cells));
        return parts;
    }

    function drawRow(parts, row) {
        if (parts.state !== row.state) {
            parts.state = row.state;
            parts.cells.state.replaceChildren(mark(row.state));
        }
        text(parts.cells.what, row.detail);
        const ended = row.recovered_at ? ", recovered " + time(row.recovered_at) : "";
        text(parts.cells.since, time(row.since) + ended);
        attribute(parts.cells.since, "title", iso(row.since));
        text(parts.cells.times, count(row.times));
        text(parts.cells.waiting, row.waiting.join(", "));
    }

    function newTarget(row) {
        const parts = {cells: cells(["name", "sent", "last", "waiting", "fails"], ["sent", "waiting"])};
        parts.cells.name.append(pecker.shown(row.target));
        parts.row = el("tr", {"data-target": row.target}, ...Object.values(parts.cells));
        return parts;
    }

    function drawTarget(parts, row) {
        text(parts.cells.sent, count(row.sent));
        text(parts.cells.last, row.sent_at ? time(row.sent_at) : "–");
        text(parts.cells.waiting, count(row.waiting));
        text(parts.cells.fails, row.failing_since
            ? `for ${span(now() - row.failing_since)}, ${plural(row.failures, "time")}: ${row.last_error}` : "");
    }

    function card(name, value, sub, tone) {
        text(byId("total-" + name), value);
        text(byId("sub-" + name), sub);
        attribute(byId("card-" + name), "class", "metric-card metric-card-" + tone);
    }

    function show(data) {
        const ringing = data.rules.reduce((sum, rule) => sum + rule.ringing, 0);
        card("ringing", count(ringing), `by ${plural(data.rules.length, "rule")}`, ringing ? "danger" : "success");
        const oldest = Math.max(0, ...data.rules.map(rule => rule.looked));
        card("looked", data.rules.length ? span(oldest * 1e6) + " ago" : "never",
            data.rules.length ? "or less, by each rule" : "no scheduler looks", oldest > 120 || !data.rules.length ? "danger" : "success");
        const failing = data.targets.filter(one => one.failing_since);
        card("waiting", count(data.rules.length ? data.rules[0].waiting : 0),
            failing.length ? `${plural(failing.length, "target fails", "targets fail")}` : "no target fails", failing.length ? "warning" : "success");
        const keyed = data.alarms.map(one => ({...one, key: one.rule + "\u0000" + one.subject}));
        rows = pecker.rows(document.querySelector("#alarms tbody"), rows, keyed, "key", newRow, drawRow);
        targets = pecker.rows(document.querySelector("#targets tbody"), targets, data.targets, "target", newTarget, drawTarget);
        byId("no-alarms").hidden = data.alarms.length > 0;
        byId("no-targets").hidden = data.targets.length > 0;
    }

    pecker.watch(() => "", show);
})();
