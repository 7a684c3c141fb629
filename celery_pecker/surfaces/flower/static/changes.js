// The changes of a schedule: user, time and fields, on its page and beside its form.
pecker.changes = (function () {
    "use strict";

    const {el, text, attribute, time, iso} = pecker;
    const WORDS = {created: "added it", changed: "changed it", removed: "removed it", returned: "added it anew",
        renamed: "renamed it", paused: "paused it", resumed: "resumed it"};

    function what(change) {
        const other = change.other_name ? (change.gone ? " to " : " from ") + change.other_name : "";
        const words = el("span", {}, (WORDS[change.change] || change.change) + other);
        const fields = change.fields.map(one => el("small", {}, el("b", {}, one.field), " ",
            ...(one.before ? [el("del", {}, one.before), " → "] : []), el("ins", {}, one.after || "–")));
        return el("td", {class: "pecker-changed"}, words, ...fields);
    }

    function make(change) {
        return {row: el("tr", {}, el("td", {class: "pecker-time", title: iso(change.changed_at)}), el("td", {class: "pecker-who"}),
            what(change), el("td", {class: "text-end pecker-from-tablet"}))};
    }

    function draw(parts, change) {
        text(parts.row.children[0], time(change.changed_at));
        text(parts.row.children[1], change.changed_by);
        attribute(parts.row.children[1], "title", change.changed_by);
        text(parts.row.children[3], change.version ? String(change.version) : "–");
    }

    let known = new Map();

    function show(changes) {
        document.getElementById("changes-card").hidden = !changes.length;
        known = pecker.rows(document.querySelector("#changes tbody"), known, changes, "id", make, draw);
    }

    return {show};
})();
