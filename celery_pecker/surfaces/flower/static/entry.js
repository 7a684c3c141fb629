// The page of one entry.
(function () {
    "use strict";

    const {el, text, attribute, count, span, ago, time, iso, now, card} = pecker;
    const {pictures, view: {byId, tables, hands, newActs}} = pecker;
    const name = new URLSearchParams(location.search).get("name") || "";
    const strip = byId("strip"), inspect = byId("inspect");
    let last = null, places = [], chosen = null, hovered = null;

    function slot(data, fields) {
        const [due, state, late, era, epoch, at, holder] = fields;
        const [life, host] = data.holders[holder] || ["", null];
        const [kind, words] = styleOf(state);
        return {due, state, late, era, epoch, at, life, host, kind, words};
    }

    const styleOf = state => [tables.slots.states[state] || "sent", tables.slots.means[state] || state];

    function exact() {
        return !last.row.period_us || last.row.period_us % 1e6 !== 0;
    }

    function sentence(one) {
        const parts = [time(one.due, true), one.words];
        if (one.late !== null) { parts.push(span(one.late) + " late"); }
        if (one.epoch) { parts.push("epoch " + one.epoch); }
        if (one.era) { parts.push("era " + one.era); }
        if (one.life) { parts.push("by " + (one.host || "a scheduler seen no more") + " " + one.life.slice(0, 8)); }
        return parts.join(" · ");
    }

    // What ended badly, and Flower's own page of that task

    function drawBad(data) {
        const bad = data.bad, place = byId("bad");
        place.hidden = !bad;
        if (!bad) { return; }
        place.classList.toggle("pecker-failing", data.row.outcomes.failing);
        const words = `The slot of ${time(bad.due_us, exact())} ${styleOf(bad.state)[1]}`
            + (bad.host ? ` on ${bad.host}` : "") + `, ${ago(now() - bad.at_us)}`;
        const counts = Object.entries(data.row.outcomes.counts).filter(([ended, runs]) => runs && ended !== "published")
            .map(([ended, runs]) => `${count(runs)} ${ended.replaceAll("_", " ")}`).join(" · ");
        const parts = [el("p", {}, el("b", {}, words))];
        if (bad.error) { parts.push(el("p", {}, el("code", {}, bad.error))); }
        parts.push(el("p", {class: "pecker-muted"}, counts + " · ",
            el("a", {href: pecker.taskUrl(bad.task)}, "The task in Flower, with its traceback")));
        place.replaceChildren(...parts);
    }

    // Figures

    function drawHead(data) {
        const row = data.row;
        pecker.verdict(byId("verdict"), data.verdict, row.name);
        pecker.fill(byId("state"), row.state, () => [pictures.badge(tables.entry, row.state)]);
        text(byId("name"), pecker.shown(row.name));
        const words = row.stored && !row.stored.declared_by_code && row.stored.words || pecker.schedule(row.schedule, row.period_us);
        const parts = [row.task === row.name ? "" : row.task, words];
        if (row.run) {
            parts.push(row.run === "local" ? "runs in the worker that wins it" : "sent to the broker");
            parts.push(row.delivery.replaceAll("_", " "));
        }
        if (row.timeout_us !== null) { parts.push("may use " + span(row.timeout_us)); }
        text(byId("what"), parts.filter(Boolean).join(" · "));
        document.title = row.name + " · Schedules · Flower";
        const calm = row.late_us === null || pictures.tone(row.late_us, row.period_us) === "calm";
        card("late", row.late_us === null ? "–" : span(row.late_us), pictures.describe(row.spark), calm ? "success" : "warning");
        card("missed", count(row.missed), row.missed ? "since it was first seen" : "none yet", row.missed ? "warning" : "success");
        drawTimes();
        drawActs(row);
    }

    function drawTimes() {
        const row = last.row, was = pecker.lastSlot(row), next = pecker.nextSlot(row);
        card("last", was.words, was.sub);
        attribute(byId("total-last"), "title", was.title);
        card("next", next.words, next.sub && row.paused ? "passes without a run: paused" : next.sub || next.title, next.late || !row.declared ? "danger" : "active");
        attribute(byId("total-next"), "title", next.title);
    }

    const edit = el("a", {class: "pecker-act pecker-wide", id: "edit", href: pecker.editUrl(name), hidden: ""}, "Edit");
    const [acts, showActs] = newActs(tables.entry, name, name);
    byId("acts").append(...acts, edit);

    function drawActs(row) {
        showActs(row);
        edit.hidden = !row.stored;
        const why = pecker.root.dataset.refusal || last.why;
        attribute(edit, "title", why || "Change or remove this schedule");
        text(edit, why ? "Look at it" : "Edit");
        byId("problem").hidden = !(row.stored && row.stored.problem);
        text(byId("problem"), row.stored && row.stored.problem || "");
    }

    // The strip: for a grid each row begins at a round instant, so that cells stay where
    // they are while new ones come; a slot without a report is an empty cell.

    function layout(data) {
        const wide = strip.clientWidth - 76;
        const columns = wide > 560 ? 60 : wide > 200 ? 30 : 15;
        const period = data.row.period_us;
        const rows = new Map();
        const slots = data.slots.map(fields => slot(data, fields)).reverse();
        slots.forEach((one, nth) => {
            const index = period ? Math.floor(one.due / period) : nth;
            const row = Math.floor(index / columns);
            const cells = rows.get(row) || rows.set(row, new Map()).get(row);
            const known = cells.get(index % columns);
            cells.set(index % columns, known ? {...known, more: one} : one);
        });
        return {columns, size: wide / columns, rows, period, slots};
    }

    function drawStrip(data) {
        const {columns, size, rows, period, slots} = layout(data);
        const high = Math.min(Math.max(size, 14), 20), gap = 2, line = high + gap + 2;
        const parts = [];
        places = [];
        let y = 0;
        const ordered = [...rows.entries()].sort((one, other) => one[0] - other[0]);
        const [firstDue, lastDue] = slots.length ? [slots[0].due, slots[slots.length - 1].due] : [0, 0];
        let before = null;
        for (const [row, cells] of ordered) {
            if (period && before !== null && row > before + 1) {
                const lost = (row - before - 1) * columns;
                parts.push(label(y + 10, "⋮"), el("svg:text", {class: "pecker-axis", x: 76, y: y + 10},
                    `${count(lost)} slots without a report`));
                y += 16;
            }
            before = row;
            const first = period ? row * columns * period : [...cells.values()][0].due;
            parts.push(label(y + high * .7, time(first, false).slice(-8), iso(first)));
            for (let column = 0; column < columns; column++) {
                const one = cells.get(column);
                if (!one && (!period || column * period + first < firstDue || column * period + first > lastDue)) { continue; }
                const shown = one || {due: first + column * period, late: null, kind: "none", words: "no report of it"};
                parts.push(place(shown, 76 + column * size, y, size - gap, high));
            }
            y += line;
        }
        strip.replaceChildren(slots.length
            ? el("svg:svg", {width: strip.clientWidth, height: y, "aria-hidden": "true"}, ...parts)
            : el("p", {class: "pecker-muted"}, "No reports yet. They are written beside the schedule, some seconds"
                + " after the slots; pecker_history = 0 keeps none."));
        mark();
    }

    function label(y, words, title) {
        const made = el("svg:text", {class: "pecker-axis", x: 66, y, "text-anchor": "end"}, words);
        if (title) { made.append(el("svg:title", {}, title)); }
        return made;
    }

    function place(one, x, y, wide, high) {
        const made = el("svg:g", {class: "pecker-place"}, ...pictures.cell(one.kind, x, y, wide, high),
            el("svg:title", {}, sentence(one) + (one.more ? "\n" + sentence(one.more) : "")));
        if (one.more) { made.append(el("svg:circle", {class: "pecker-more", cx: x + wide - 2, cy: y + 2, r: 3})); }
        made.addEventListener("mouseenter", () => { hovered = one; mark(); });
        places.push({one, made, x, y});
        return made;
    }

    function mark() {
        const one = hovered || (chosen !== null && (places.find(place => place.one.due === chosen) || {}).one);
        for (const place of places) { place.made.classList.toggle("pecker-chosen", Boolean(one) && place.one.due === one.due); }
        text(inspect, one ? sentence(one) : places.length ? "Point at a slot, or walk through the strip with the arrow keys." : "");
        inspect.classList.toggle("pecker-muted", !one);
    }

    strip.addEventListener("mouseleave", () => { hovered = null; mark(); });
    strip.addEventListener("blur", () => { chosen = null; mark(); });
    strip.addEventListener("focus", () => move(null));
    strip.addEventListener("keydown", event => {
        const does = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last"}[event.key];
        if (does === undefined) { return; }
        event.preventDefault();
        move(does);
    });

    function move(by) {
        if (!places.length || (by === null && chosen !== null)) { return; }
        let here = places.findIndex(place => place.one.due === chosen);
        if (here < 0) { here = places.length - 1; }
        const {x, y} = places[here];
        if (by === "first") { here = 0; }
        if (by === "last") { here = places.length - 1; }
        if (typeof by === "number") { here = Math.min(Math.max(here + by, 0), places.length - 1); }
        if (by === "up" || by === "down") {
            const line = places.map((place, nth) => ({nth, dx: Math.abs(place.x - x), dy: (place.y - y) * (by === "up" ? -1 : 1)}))
                .filter(place => place.dy > 0).sort((one, other) => one.dy - other.dy || one.dx - other.dx)[0];
            if (line) { here = line.nth; }
        }
        chosen = places[here].one.due;
        mark();
    }

    function drawLegend(data) {
        const kinds = new Map();
        for (const fields of data.slots) {
            const kind = styleOf(fields[1])[0];
            kinds.set(kind, (kinds.get(kind) || 0) + 1);
        }
        byId("legend").replaceChildren(...Object.keys(pictures.KINDS).filter(kind => kinds.has(kind)).map(kind => {
            const made = pictures.key(kind);
            made.append(el("b", {}, count(kinds.get(kind))));
            return made;
        }));
    }

    // Tables

    function drawFacts(data) {
        const row = data.row, fence = data.fence;
        const facts = [
            ["Holder", row.holder ? `${row.host || "seen no more"} · ${row.holder}` : "none yet",
                data.holder_seen ? "last seen " + ago(now() - data.holder_seen) : ""],
            ["Epoch", row.epoch, "era " + row.era],
            declared(data),
            ...stored(data.stored),
            ["Last run that started", fence ? time(fence.due_us, true) : "–", fence
                ? `${span(fence.started_us - fence.due_us)} after its slot · epoch ${fence.epoch}`
                    + (fence.attempt ? ` · retry ${fence.attempt}` : "")
                : row.timeout_us === null ? "kept for entries with a timeout" : "none yet"],
            ...data.pending.map(one => one.asked
                ? ["Asked for", time(one.due_us, true), `by ${one.asked_by || "an unknown user"}`
                    + (one.claimed_us ? ", taken" : ", waits to be taken")]
                : ["On the way", time(one.due_us, true), `attempt ${one.attempt}, not confirmed yet`]),
        ];
        pecker.facts(byId("facts"), facts);
    }

    function declared({row, stored, declared_until}) {
        if (row.state === "removed") { return ["Removed", "a stored schedule", "its rows go after a day"]; }
        if (stored && !stored.declared_by_code) {
            return ["Stored", `version ${stored.version}`, `by ${stored.changed_by}, ${ago(now() - stored.changed_at)}`];
        }
        return ["Declared by code", row.declared ? "until " + time(declared_until) : "by no live scheduler",
            row.declared ? "renewed by living schedulers; changed in beat_schedule alone" : "its rows are removed after a day"];
    }

    function stored(one) {
        if (!one) { return []; }
        const bounds = [one.start && "from " + time(one.start, false), one.end && "until " + time(one.end, false)];
        const facts = [["Schedule", one.schedule, bounds.filter(Boolean).join(" ")],
            ["Arguments", `${one.args} ${one.kwargs}`, one.options === "{}" ? "" : "options " + one.options]];
        return one.policies === "{}" ? facts : [...facts, ["Policies", one.policies, ""]];
    }

    hands.slots = {
        "slot.due_us"(cell, row) {
            text(cell, time(row["slot.due_us"], exact()));
            attribute(cell, "title", iso(row["slot.due_us"]));
        },
        "slot.state"(cell, row) {
            const [kind, words] = styleOf(row["slot.state"]);
            pecker.fill(cell, words, () => [
                el("svg:svg", {class: "pecker-dot", viewBox: "0 0 1 1", "aria-hidden": "true"}, ...pictures.cell(kind, 0, 0, 1, 1)),
                el("a", {href: pecker.taskUrl(row.task), title: "The task in Flower"}, words)]);
        },
    };

    function show(data) {
        const same = last && JSON.stringify(last.slots) === JSON.stringify(data.slots);
        last = data;
        drawHead(data);
        drawBad(data);
        drawFacts(data);
        byId("changes-card").hidden = !data.rows.changes.length;
        if (same) { return; }
        drawLegend(data);
        drawStrip(data);
    }

    pecker.view.pictures.push(show);
    setInterval(drawTimes, 500);
    new ResizeObserver(() => { if (last) { drawStrip(last); } }).observe(strip);
})();
