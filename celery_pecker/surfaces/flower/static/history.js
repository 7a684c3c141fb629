// Charts of figures over time, with marks: wherever a page has a place [data-charts].
pecker.history = (function () {
    "use strict";

    const {el, text, attribute, count, span, time, iso, view} = pecker;
    const RANGES = [["5m", "5 minutes"], ["1h", "an hour"], ["6h", "6 hours"], ["24h", "a day"], ["7d", "7 days"], ["30d", "30 days"]];
    const LEFT = 64, HIGH = 110, FOOT = 16, LOW = 1e-3, EVERY = 10000;
    const place = document.querySelector("[data-charts]"), own = pecker.root.dataset.url === pecker.root.dataset.history;
    const buttons = RANGES.map(([range, words]) => {
        const made = el("button", {type: "button", class: "pecker-act pecker-wide", "data-range": range}, words);
        made.addEventListener("click", () => { view.choose({since: range, until: ""}, true); press(); ask(); });
        return made;
    });
    const live = el("button", {type: "button", class: "pecker-act pecker-wide", hidden: ""}, "Until now");
    const charts = el("div", {class: "pecker-charts"}), point = el("p", {class: "pecker-inspect", role: "status", "aria-live": "polite"});
    let last = null, at = -1;

    live.addEventListener("click", () => { view.choose({until: ""}, true); press(); ask(); });
    place.append(el("div", {class: "pecker-ranges", role: "group", "aria-label": "Length of time"}, ...buttons, live), charts, point);

    function press() {
        for (const one of buttons) { attribute(one, "aria-pressed", String(one.dataset.range === (view.choice.since || "24h"))); }
        live.hidden = !view.choice.until;
    }

    // What the page is of is asked for where figures are read; the page of figures itself has them.
    function where() {
        const asked = {of: place.dataset.of || "entry", name: view.choice.name || "", since: view.choice.since || "", until: view.choice.until || ""};
        return pecker.root.dataset.history + "/data?" + new URLSearchParams(asked);
    }

    let turn = 0, timer = 0;
    async function ask() {
        if (own) { return; }
        clearTimeout(timer);
        const mine = ++turn;
        try {
            const answer = await pecker.question(where());
            if (mine === turn) { draw(answer.chart); }
        } catch (error) {
            if (mine === turn) { text(point, error.message); }
        }
        if (!document.hidden) { timer = setTimeout(ask, EVERY); }
    }

    // Drawing

    const shown = (panel, value) => value === null ? "none" : panel.kind === "times" ? span(value * 1e6) : count(value);

    function scale(panel) {
        const values = panel.series.flatMap(one => one.values).filter(value => value !== null);
        const most = Math.max(...values, panel.kind === "times" ? 0.1 : 1);
        if (panel.kind !== "times") { return [value => value / most, [0, most]]; }
        const top = 10 ** Math.ceil(Math.log10(most)), decades = Math.log10(top / LOW);
        const ticks = Array.from({length: Math.round(decades) + 1}, (_, nth) => LOW * 10 ** nth);
        return [value => Math.max(Math.log10(Math.max(value, LOW) / LOW) / decades, 0), ticks.filter((_, nth) => nth % Math.ceil(ticks.length / 4) === 0)];
    }

    function drawPanel(panel, data, wide) {
        const x = us => LEFT + (us - data.since) / (data.until - data.since) * (wide - LEFT);
        const [height, ticks] = scale(panel), y = value => 4 + (1 - height(value)) * (HIGH - FOOT - 8);
        const parts = ticks.flatMap(tick => [el("svg:path", {class: "pecker-grid", d: `M${LEFT} ${y(tick)}H${wide}`}),
            el("svg:text", {class: "pecker-axis", x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end"}, panel.kind === "times" ? span(tick * 1e6) : count(tick))]);
        const step = Math.max(data.step / (data.until - data.since) * (wide - LEFT), 1);
        panel.series.forEach((one, nth) => {
            const bars = panel.kind === "counts", bar = step / panel.series.length;
            let path = "", before = null;
            one.values.forEach((value, index) => {
                const us = data.at[index];
                if (value === null || us + data.step < data.since || (bars && !value)) { return; }
                const left = Math.max(x(us), LEFT);
                if (bars) { path += `M${left + nth * bar} ${y(0)}V${y(value)}h${bar * .85}V${y(0)}z`; return; }
                // A minute of which nothing is known is a gap.
                path += `${before !== null && us - before <= 1.5 * data.step ? "L" : "M"}${left} ${y(value)}h${step}`;
                before = us;
            });
            parts.push(el("svg:path", {class: `pecker-${bars ? "counts" : "line"} pecker-tone-${one.tone}`, d: path}));
        });
        for (const mark of data.marks) {
            parts.push(el("svg:path", {class: "pecker-flag pecker-flag-" + mark.kind, d: `M${x(mark.at_us)} 0V${HIGH - FOOT}`},
                el("svg:title", {}, `${mark.kind} ${mark.what}, ${time(mark.at_us, false)}`)));
        }
        for (const [us, anchor] of [[data.since, "start"], [(data.since + data.until) / 2, "middle"], [data.until, "end"]]) {
            parts.push(el("svg:text", {class: "pecker-axis", x: x(us), y: HIGH - 3, "text-anchor": anchor}, time(us)));
        }
        if (at >= 0) { parts.push(el("svg:path", {class: "pecker-cursor", d: `M${x(data.at[at] + data.step / 2)} 0V${HIGH - FOOT}`})); }
        const worst = one => one.values.reduce((most, value) => Math.max(most, value || 0), 0);
        const words = `${panel.label}: ` + panel.series.map(one => `${one.label} at most ${shown(panel, worst(one))}`).join(", ");
        return [el("h2", {}, panel.label, " ", ...panel.series.map(one => el("span", {class: "pecker-key pecker-tone-" + one.tone}, one.label))),
            el("svg:svg", {width: wide, height: HIGH, role: "img", "aria-label": words}, ...parts)];
    }

    function draw(data) {
        if (last && data.since !== last.since && at >= 0) { at = data.at.indexOf(last.at[at]); }
        last = data;
        const wide = charts.clientWidth;
        charts.replaceChildren(...data.panels.flatMap(panel => drawPanel(panel, data, wide)));
        drawPoint();
    }

    function drawPoint() {
        const data = last, us = data.at[at];
        text(point, !data.at.length ? "No figures of that time: they are written once a minute." : at < 0 ? "Point at a chart, or walk through it with the arrow keys."
            : [time(us), ...data.panels.map(panel => `${panel.label}: ` + panel.series.map(one => `${one.label} ${shown(panel, one.values[at])}`).join(", ")),
                ...data.marks.filter(one => one.at_us >= us && one.at_us < us + data.step).map(one => `${one.kind} ${one.what}`)].join(" · "));
        attribute(point, "title", us === undefined ? null : iso(us));
    }

    attribute(charts, "tabindex", 0);
    attribute(charts, "role", "application");
    attribute(charts, "aria-label", "Charts; arrow keys move from one moment to the next");
    charts.addEventListener("keydown", event => {
        const by = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
        if (!by || !last || !last.at.length) { return; }
        event.preventDefault();
        at = Math.min(Math.max((at < 0 ? last.at.length : at) + by, 0), last.at.length - 1);
        draw(last);
    });
    charts.addEventListener("pointermove", event => {
        if (!last || !last.at.length) { return; }
        const part = (event.clientX - charts.getBoundingClientRect().left - LEFT) / (charts.clientWidth - LEFT);
        const us = last.since + part * (last.until - last.since), next = last.at.findLastIndex(one => one <= us);
        if (next !== at) { at = next; draw(last); }
    });
    addEventListener("resize", () => { if (last) { draw(last); } });
    press();
    if (own) {
        view.pictures.push(data => draw(data.chart));
        for (const key of ["of", "name"]) {
            const field = document.getElementById("filter-" + key);
            field.value = view.choice[key] || (key === "of" ? "entry" : "");
            field.addEventListener("change", () => view.choose({[key]: field.value.trim()}, true));
        }
    } else {
        document.addEventListener("visibilitychange", () => { if (!document.hidden) { ask(); } });
        ask();
    }
    return {ask};
})();
