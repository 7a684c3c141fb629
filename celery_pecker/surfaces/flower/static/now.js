// The page Now: each cause with what follows from it, and what ends it.
(function () {
    "use strict";

    const {el, text, attribute} = pecker, view = pecker.view;
    const place = view.byId("causes"), base = pecker.root.dataset.base;
    let known = new Map();

    function newCause(row) {
        const {row: made, mark, title, what, since, advice, follows, acts} = pecker.parts("cause");
        const more = el("a", {class: "pecker-act pecker-wide", hidden: "", "aria-label": "Show " + row.check}, "Show");
        made.dataset.key = row.check;
        let drawActs = null, about = null;
        return {row: made, draw(one, after) {
            if (about !== one.about) {   // buttons of another session, or entry
                about = one.about;
                const [buttons, draw] = view.newActs(view.tables.causes, about, "of: " + one.title);
                acts.replaceChildren(...buttons, more);
                drawActs = draw;
            }
            drawActs(one);
            view.drawMark(mark, view.tables.causes, one.state);
            text(title, one.title);
            text(what, one.text);
            const length = pecker.now() - one.since_us;
            text(since, one.since_us && length > 1e6 ? `for ${pecker.coarse(length)}, since ${pecker.time(one.since_us)}` : "");
            text(advice, one.advice ? "→ " + one.advice : "");
            more.hidden = !one.opens;
            attribute(more, "href", one.opens ? base + one.opens : null);
            follows.replaceChildren(...after.map(one => el("li", {}, one.text)));
            follows.hidden = !after.length;
            attribute(made, "data-state", one.state);
        }};
    }

    view.pictures.push(data => {
        const rows = data.rows.causes, verdict = view.byId("verdict");
        text(verdict, data.sentence);
        attribute(verdict, "data-wrong", data.rows.checks.length ? data.wrong : null);
        known = pecker.rows(place, known, rows.filter(row => !row.under), "check", newCause,
            (parts, row) => parts.draw(row, rows.filter(one => one.under === row.check)));
        pecker.badge(data.wrong);
    });
})();
