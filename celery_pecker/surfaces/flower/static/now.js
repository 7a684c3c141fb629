// The page Now: each cause with what follows from it, and what ends it.
(function () {
    "use strict";

    const {el, text, attribute} = pecker, view = pecker.view;
    const place = view.byId("causes"), base = pecker.root.dataset.url.replace(/now$/, "");
    let known = new Map();

    function newCause(row) {
        const mark = el("span"), title = el("h2"), what = el("p"), since = el("small"), advice = el("p", {class: "pecker-advice"});
        const follows = el("ul", {"aria-label": "What follows"}), acts = el("div", {class: "pecker-row"});
        const more = el("a", {class: "pecker-act pecker-wide", hidden: ""}, "Show");
        attribute(more, "aria-label", "Show " + row.check);
        const made = el("li", {class: "pecker-card pecker-cause", "data-key": row.check},
            el("p", {class: "pecker-muted"}, mark, " ", since), title, what, advice, follows, acts);
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
