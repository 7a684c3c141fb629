// One job: its layers with their shards as grids, and what is to know of it.
(function () {
    "use strict";

    const {el, text, count, plural, time, iso, span} = pecker;
    const {byId, tables, choice, choose, drawMark, newActs, newBar, drawBar} = pecker.view;
    const {make, swatch, LETTERS} = pecker.grid;
    let last = null, only = null, layers = new Map(), drawActs = null;

    function drawHead(row) {
        drawMark(byId("state"), tables.job, row.state);
        text(byId("name"), pecker.shown(row.task));
        text(byId("why"), row.why);
        byId("why").classList.toggle("pecker-bad", row.state === "failed" || row.state === "starved");
        text(byId("what"), (row.key ? `key ${row.key} · ` : "") + row.task_id + (row.leader ? ` · follows ${row.leader}` : ""));
        if (!drawActs) {
            const [buttons, draw] = newActs(tables.job, row.task_id, row.task);
            const asked = new URLSearchParams({of: "job", name: row.task});
            byId("acts").append(...buttons, el("a", {class: "pecker-act pecker-wide", href: pecker.root.dataset.history + "?" + asked}, "How it was"));
            drawActs = draw;
        }
        drawActs(row);
        document.title = `${row.items[0]} ${row.task} · Flower`;
    }

    // A press on a status shows where it is, and dims all others.
    function drawLegend(data) {
        const keys = Object.entries(data.codes).filter(([, fact]) => data.counts[fact[0]])
            .sort(([, one], [, other]) => one[0] - other[0])
            .map(([letter, [code, name, why]]) => {
                const nth = LETTERS.indexOf(letter);
                const made = el("button", {type: "button", class: "shard-key", title: why, "data-code": code,
                    "aria-pressed": String(only === nth)}, swatch(letter), `${name} (${code}) `, el("b", {}, count(data.counts[code])));
                made.addEventListener("click", () => { only = only === nth ? null : nth; show(last); });
                return made;
            });
        if (data.grid.per > 1) { keys.push(el("span", {}, `each place is ${data.grid.per} shards`)); }
        pecker.fill(byId("legend"), JSON.stringify([data.counts, only, data.grid.per]), () => keys);
    }

    function newLayer({layer}) {
        const parts = {name: el("b"), bar: newBar(), many: el("span", {class: "pecker-muted"})};
        parts.grid = make(`Layer ${layer + 1}`, found => point(layer, found), pick);
        parts.row = el("section", {class: "shard-layer", "data-layer": layer},
            el("div", {class: "shard-layer-head"}, parts.name, parts.bar, parts.many),
            el("div", {class: "shard-holder"}, parts.grid.canvas));
        return parts;
    }

    function drawLayer(parts, layer, data) {
        const {done, failed, total, shards, open} = layer, all = data.all_layers;
        parts.row.classList.toggle("shard-runs", layer.layer === data.layer);
        text(parts.name, `Layer ${layer.layer + 1} of ${all}`);
        drawBar(parts.bar, total ? [done / total, failed / total] : [1, 0]);
        // All only where nothing is left.
        const part = total ? (Math.floor((done + failed) / total * 1000) / 10).toFixed(1) + "%" : "–";
        text(parts.many, [`${part} of ${plural(total, "item")}`, open ? `${count(open)} of ${plural(shards, "shard")} open` : plural(shards, "shard"),
            failed ? count(failed) + " failed" : "",
            layer.closed_at && layer.started_at ? "took " + span(layer.closed_at - layer.started_at) : ""].filter(Boolean).join(" · "));
        const lines = data.grid.lines.filter(line => line[0] === layer.layer).map(([, first, compact]) => [first, compact]);
        parts.grid.show(lines, data.grid.per, data.shard ? data.shard.shard : null, only);
    }

    function point(layer, found) {
        if (!found) { text(byId("inspect"), "\u00a0"); return; }
        const [number, letter] = found, [code, name, why] = last.codes[letter];
        const which = last.grid.per > 1 ? `Shards ${count(number)} to ${count(number + last.grid.per - 1)}` : `Shard ${count(number)}`;
        text(byId("inspect"), `${which}, layer ${layer + 1}: ${name} (${code}), ${why}`);
    }

    function pick(number) {
        choose({shard: choice.shard === String(number) ? "" : String(number)}, true);
    }

    const at = us => us ? `${time(us)} (${iso(us)})` : "";

    const known = (place, those) => pecker.facts(place, those.filter(([, words]) => words));

    function drawChosen(data) {
        const one = data.shard;
        byId("chosen").hidden = !one;
        if (!one) { return; }
        const [, name, why] = Object.values(data.codes).find(known => known[0] === one.code);
        known(byId("chosen"), [
            ["Shard", `${count(one.shard)}, layer ${one.layer + 1}` + (one.origin !== one.shard ? `, repeats items of shard ${count(one.origin)}` : "")],
            ["Stands", `${name} (${one.code}): ${why}`],
            ["Items", `${count(one.cursor)} of ${count(one.items)} ended: ${count(one.done)} done, ${count(one.failed)} failed`],
            ["Worker", one.hostname || one.owner],
            ["Claimed", at(one.claimed_at)],
            ["Ended", one.ended_at && `${time(one.ended_at)}, after ${span(one.spent * 1e6)}`],
            ["Not before", one.not_before && time(one.not_before)],
            ["Deaths", one.deaths && `${count(one.deaths)} processes died over it since its cursor moved`],
            ["Attempt", one.attempt && String(one.attempt + 1)],
        ]);
    }

    function show(data) {
        last = data;
        drawHead(data.rows.job[0]);
        drawLegend(data);
        layers = pecker.rows(byId("layers"), layers, data.layers, "layer", newLayer, (parts, layer) => drawLayer(parts, layer, data));
        if (!data.layers.length) { text(byId("inspect"), "No shards yet: they are planned first."); }
        drawChosen(data);
        const {why, traceback, submitted_at, started_at, decided_at, deadline_at, run, options} = data.facts;
        known(byId("facts"), [
            ["Why it failed", why],
            ["Traceback", traceback, "", "pecker-pre"],
            ["Submitted", at(submitted_at)],
            ["First item", started_at && `${time(started_at)}, ${span(started_at - submitted_at)} after it was submitted`],
            ["Decided", at(decided_at)],
            ["Deadline", at(deadline_at)],
            ["Run", run > 1 ? `${run}: some of it was rerun` : ""],
            ["Options", JSON.stringify(options)],
        ]);
    }

    pecker.view.pictures.push(show);
})();
