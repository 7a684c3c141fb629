// Pictures of slots, as inline SVG. Each state has a colour and a shape of its own.
pecker.pictures = (function () {
    "use strict";

    const {el, text, attribute, span} = pecker;

    // Entries

    // The shape of each.
    const SHAPES = {
        ok: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.8 4.9-4.6 5.2-3-2.8 1-1 1.9 1.8 3.6-4.1z",
        overdue: "M8 1 .8 14.5h14.4zM7.2 6h1.6v4.2H7.2zm0 5.2h1.6v1.6H7.2z",
        unclaimed: "M8 1 .8 14.5h14.4zM7.2 6h1.6v4.2H7.2zm0 5.2h1.6v1.6H7.2z",
        failing: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM5.4 4.3 8 6.9l2.6-2.6 1.1 1.1L9.1 8l2.6 2.6-1.1 1.1L8 9.1l-2.6 2.6-1.1-1.1L6.9 8 4.3 5.4z",
        unreported: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6zM7.2 4h1.6v5H7.2zm0 6.2h1.6v1.6H7.2z",
        paused: "M3.5 2h3.2v12H3.5zM9.3 2h3.2v12H9.3z",
        undeclared: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6zM4.5 7.2h7v1.6h-7z",
        unreadable: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm-.8 3h1.6v5H7.2zm0 6.2h1.6v1.6H7.2z",
        done: "M13.9 3.1 15 4.2 6 13.2 1 8.2l1.1-1.1L6 11z",
        removed: "M3.3 2.2 8 6.9l4.7-4.7 1.1 1.1L9.1 8l4.7 4.7-1.1 1.1L8 9.1l-4.7 4.7-1.1-1.1L6.9 8 2.2 3.3z",
        new: "M7.2 2h1.6v5.2H14v1.6H8.8V14H7.2V8.8H2V7.2h5.2z",
    };

    function badge(spec, state, why) {
        const path = SHAPES[state] || SHAPES.new, words = state === "ok" ? "On time" : state[0].toUpperCase() + state.slice(1);
        return el("span", {class: "pecker-state pecker-state-" + state, title: why || spec.means[state]},
            el("svg:svg", {viewBox: "0 0 16 16", "aria-hidden": "true"},
                el("svg:path", {d: path, "fill-rule": "evenodd"})),
            el("span", {}, words));
    }

    // Lateness: one logarithmic scale for all entries, 1 ms to 10 s, so that rows compare.

    function height(late) {
        return Math.min(Math.log10(1 + Math.max(late, 0) / 1000) / 4, 1);
    }

    function tone(late, period) {
        const mine = period || 60e6;
        if (late > Math.min(mine, 5e6)) { return "bad"; }
        return late > Math.min(mine / 4, 1e6) ? "slow" : "calm";
    }

    const BARS = 40, WIDE = 120, HIGH = 24;

    function spark() {
        const made = el("svg:svg", {class: "pecker-spark", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img"},
            el("svg:title"),
            el("svg:path", {class: "pecker-base", d: `M0 ${HIGH - .5}H${WIDE}`}));
        for (const kind of ["calm", "slow", "bad"]) {
            made.append(el("svg:path", {class: "pecker-bars-" + kind}));
        }
        return made;
    }

    function drawSpark(picture, late, period) {
        const bars = {calm: "", slow: "", bad: ""};
        late.forEach((us, nth) => {
            const x = WIDE - (late.length - nth) * (WIDE / BARS);
            const high = Math.max(height(us) * (HIGH - 2), 1.5);
            bars[tone(us, period)] += `M${x} ${HIGH - 1 - high}h2v${high}h-2z`;
        });
        for (const [kind, path] of Object.entries(bars)) {
            attribute(picture.querySelector(".pecker-bars-" + kind), "d", path);
        }
        text(picture.querySelector("title"), describe(late));
    }

    function describe(late) {
        if (!late.length) { return "no reports yet"; }
        const sorted = [...late].sort((one, other) => one - other);
        return `median ${span(sorted[Math.floor(sorted.length / 2)])}, worst ${span(sorted[sorted.length - 1])}`
            + ` of the last ${late.length}`;
    }

    // Slots

    const KINDS = {
        done: ["Succeeded", ""],
        sent: ["Sent", ""],
        running: ["Started", "M.35 .22v.56L.8 .5z"],
        missed: ["Missed", "M.15 .42h.7v.16h-.7z"],
        bad: ["Failed", "M.2 .3 .3 .2 .5 .4 .7 .2 .8 .3 .6 .5 .8 .7 .7 .8 .5 .6 .3 .8 .2 .7 .4 .5z"],
        refused: ["Refused", "M.15 .75 .75 .15 .85 .25 .25 .85z"],
        idle: ["Paused or held", "M.3 .25h.13v.5H.3zM.57 .25h.13v.5H.57z"],
        asked: ["Asked for", "M.5 .25 .75 .5 .5 .75 .25 .5z"],
        none: ["No report", ""],
    };
    function key(kind, words) {
        return el("span", {class: "pecker-key"}, el("svg:svg", {viewBox: "0 0 1 1", "aria-hidden": "true"}, ...cell(kind, 0, 0, 1, 1)),
            words || KINDS[kind][0]);
    }

    function cell(kind, x, y, wide, high) {
        const made = [el("svg:rect", {class: "pecker-cell pecker-" + kind, x, y, width: wide, height: high,
            rx: wide * .15})];
        if (KINDS[kind][1]) {
            const size = Math.min(wide, high);
            const left = x + (wide - size) / 2, top = y + (high - size) / 2;
            made.push(el("svg:path", {class: "pecker-mark", d: KINDS[kind][1],
                transform: `translate(${left} ${top}) scale(${size})`}));
        }
        return made;
    }

    return {badge, spark, drawSpark, tone, describe, key, cell, KINDS};
})();
