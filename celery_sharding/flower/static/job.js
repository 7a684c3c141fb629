// One job: its layers with their shards, what runs longest, what failed.
(function () {
    "use strict";

    const {el, text, attribute, count, plural, time, iso, span} = pecker;
    const {drawBadge, bar, drawBar, percent, rate, left, took, part, drawActs} = pecker.sharding;
    const {make, swatch, LETTERS} = pecker.grid;
    const find = id => document.getElementById(id);
    const params = new URLSearchParams(location.search);
    const id = params.get("id") || "";
    const view = {shard: params.get("shard"), errors: null};
    let last = null, only = null, layers = new Map();

    function query() {
        const query = new URLSearchParams({id});
        if (view.shard !== null) { query.set("shard", view.shard); }
        if (view.errors) { query.set("origin", view.errors[0]); query.set("place", view.errors[1]); }
        return query.toString();
    }

    function show(data) {
        last = data;
        drawHead(data);
        drawCards(data.row);
        drawLegend(data);
        drawLayers(data);
        drawChosen(data);
        drawStragglers(data);
        drawErrors(data);
        drawFacts(data);
    }

    function drawHead(data) {
        const row = data.row;
        drawBadge(find("state"), row.state);
        text(find("name"), pecker.shown(row.task));
        text(find("why"), row.why);
        find("why").classList.toggle("pecker-bad", row.state === "failed" || row.state === "starved");
        text(find("what"), (row.key ? `key ${row.key} · ` : "") + row.id + (row.leader ? ` · follows ${row.leader}` : ""));
        drawActs(find("acts"), row, true, () => ask());
        const how = row.ended ? row.state : percent(row.done + row.failed, row.total);
        document.title = `${how} ${row.task} · Flower`;
    }

    function drawCards(row) {
        const ended = row.done + row.failed;
        const put = (name, value, sub, tone) => {
            text(find(name), value);
            text(find("sub-" + name), sub);
            attribute(find("card-" + name), "class", "metric-card metric-card-" + tone);
        };
        put("items", percent(ended, row.total), `${count(ended)} of ${plural(row.total, "item")}`, "active");
        put("rate", rate(row.rate), row.eta !== null ? left(row.eta) + " left"
            : took(row), "active");
        put("held", count(row.held), `at most ${count(row.concurrency)} · ${plural(row.executors, "worker")} live`,
            row.state === "starved" ? "danger" : "success");
        put("failed", count(row.failed), row.failed ? part(row.failed, row.total) + " of all" : "none", row.failed ? "danger" : "success");
    }

    // A press on a status shows where it is, and dims all others.
    function drawLegend(data) {
        const place = find("legend"), shown = JSON.stringify([data.counts, only, data.grid.per]);
        if (place.dataset.shown === shown) { return; }
        place.dataset.shown = shown;
        const keys = Object.entries(data.codes).filter(([, fact]) => data.counts[fact[0]])
            .sort(([, one], [, other]) => one[0] - other[0])
            .map(([letter, [code, name, why]]) => {
                const nth = LETTERS.indexOf(letter);
                const made = el("button", {type: "button", class: "shard-key", title: why, "data-code": code,
                    "aria-pressed": String(only === nth)}, swatch(letter), `${code} ${name} `, el("b", {}, count(data.counts[code])));
                made.addEventListener("click", () => { only = only === nth ? null : nth; show(last); });
                return made;
            });
        if (data.grid.per > 1) { keys.push(el("span", {}, `each place is ${data.grid.per} shards`)); }
        place.replaceChildren(...keys);
    }

    function newLayer(layer) {
        const parts = {head: el("div", {class: "shard-layer-head"}), holder: el("div", {class: "shard-holder"})};
        parts.name = el("b");
        parts.bar = bar();
        parts.many = el("span", {class: "pecker-muted"});
        parts.grid = make(`Layer ${layer.layer + 1}`, found => point(layer.layer, found), choose);
        parts.head.append(parts.name, parts.bar, parts.many);
        parts.holder.append(parts.grid.canvas);
        parts.all = el("section", {class: "shard-layer", "data-layer": layer.layer}, parts.head, parts.holder);
        return parts;
    }

    function drawLayers(data) {
        const place = find("layers"), keep = new Map(), lines = new Map();
        for (const [layer, first, compact] of data.grid.lines) {
            if (!lines.has(layer)) { lines.set(layer, []); }
            lines.get(layer).push([first, compact]);
        }
        data.layers.forEach((layer, nth) => {
            const parts = layers.get(layer.layer) || newLayer(layer);
            keep.set(layer.layer, parts);
            if (place.children[nth] !== parts.all) { place.insertBefore(parts.all, place.children[nth] || null); }
            const runs = layer.layer === data.row.layer && !data.row.ended;
            parts.all.classList.toggle("shard-runs", runs);
            text(parts.name, `Layer ${layer.layer + 1} of ${data.all_layers}`);
            drawBar(parts.bar, layer.done, layer.failed, layer.total);
            text(parts.many, fact(layer));
            parts.grid.show(lines.get(layer.layer) || [], data.grid.per, data.shard ? data.shard.shard : null, only);
        });
        layers = keep;
        while (place.children.length > data.layers.length) { place.lastChild.remove(); }
        if (!data.layers.length) { text(find("inspect"), "No shards yet: they are planned first."); }
    }

    function fact(layer) {
        const ended = layer.done + layer.failed;
        const parts = [`${percent(ended, layer.total)} of ${plural(layer.total, "item")}`,
            layer.open ? `${count(layer.open)} of ${plural(layer.shards, "shard")} open` : plural(layer.shards, "shard")];
        if (layer.failed) { parts.push(`${count(layer.failed)} failed`); }
        if (layer.closed_at && layer.started_at) { parts.push("took " + span(layer.closed_at - layer.started_at)); }
        return parts.join(" · ");
    }

    function point(layer, found) {
        if (!found) { text(find("inspect"), "\u00a0"); return; }
        const [number, letter] = found, [code, name, why] = last.codes[letter];
        const which = last.grid.per > 1 ? `Shards ${count(number)} to ${count(number + last.grid.per - 1)}` : `Shard ${count(number)}`;
        text(find("inspect"), `${which}, layer ${layer + 1}: ${code} ${name}, ${why}`);
    }

    function choose(number) {
        view.shard = view.shard === String(number) ? null : String(number);
        ask();
    }

    function facts(place, pairs) {
        const rows = pairs.filter(([, words]) => words !== null && words !== "");
        const shown = JSON.stringify(rows);
        if (place.dataset.shown === shown) { return; }
        place.dataset.shown = shown;
        place.replaceChildren(...rows.map(([name, words, pre]) => el("div", {class: "detail-row"},
            el("dt", {}, name), el("dd", {}, pre ? el("pre", {class: "shard-trace"}, words) : words))));
    }

    function drawChosen(data) {
        const place = find("chosen"), one = data.shard;
        place.hidden = !one;
        if (!one) { return; }
        const [, name, why] = Object.values(data.codes).find(known => known[0] === one.code);
        facts(place, [
            ["Shard", `${count(one.shard)}, layer ${one.layer + 1}` + (one.origin !== one.shard ? `, repeats items of shard ${count(one.origin)}` : "")],
            ["Stands", `${one.code} ${name}: ${why}`],
            ["Items", `${count(one.cursor)} of ${count(one.items)} ended: ${count(one.done)} done, ${count(one.failed)} failed`],
            ["Worker", one.hostname || one.owner || ""],
            ["Claimed", one.claimed_at ? `${time(one.claimed_at)} (${iso(one.claimed_at)})` : ""],
            ["Ended", one.ended_at ? `${time(one.ended_at)}, after ${span(one.spent * 1e6)}` : ""],
            ["Not before", one.not_before ? time(one.not_before) : ""],
            ["Deaths", one.deaths ? `${count(one.deaths)} processes died over it since its cursor moved` : ""],
            ["Attempt", one.attempt ? String(one.attempt + 1) : ""],
        ]);
    }

    function fill(table, rows) {
        const shown = JSON.stringify(rows.map(row => row.key));
        const body = table.querySelector("tbody");
        if (body.dataset.shown === shown) { return; }
        body.dataset.shown = shown;
        body.replaceChildren(...rows.map(row => el("tr", {}, ...row.cells().map(cell => el("td", {}, cell)))));
    }

    function drawStragglers(data) {
        find("no-stragglers").hidden = data.stragglers.length > 0;
        fill(find("stragglers"), data.stragglers.map(one => ({
            key: [one.shard, one.code, one.cursor, Math.floor(one.spent), one.hostname],
            cells: () => {
                const name = Object.values(data.codes).find(known => known[0] === one.code)[1];
                const link = el("button", {type: "button", class: "shard-link"}, count(one.shard));
                link.addEventListener("click", () => choose(one.shard));
                return [link, pecker.ago(one.spent * 1e6), `${count(one.cursor)} of ${count(one.items)}`, one.hostname || "–",
                    `${one.code} ${name}` + (one.deaths ? `, ${plural(one.deaths, "death")}` : "")];
            },
        })));
    }

    function drawErrors(data) {
        const none = !data.errors.length;
        find("no-errors").hidden = !none;
        text(find("no-errors"), view.errors ? "There are no more." : "No item failed.");
        fill(find("errors"), data.errors.map(one => ({
            key: [one.origin, one.place, one.attempt, one.at],
            cells: () => {
                const item = one.item === null ? el("i", {}, "the shard as a whole") : el("code", {class: "shard-item", title: one.item}, one.item);
                const why = el("div", {class: "shard-why"}, el("b", {}, one.type), " " + one.message);
                const trace = one.traceback ? [el("details", {}, el("summary", {}, "traceback"), el("pre", {class: "shard-trace"}, one.traceback))] : [];
                return [item, el("div", {}, why, ...trace), `${one.code} · ${count(one.shard)}` + (one.attempt > 1 ? ` · attempt ${one.attempt}` : "")];
            },
        })));
        find("error-pages").hidden = !view.errors && !data.more_errors;
        find("errors-first").disabled = !view.errors;
        find("errors-next").disabled = !data.more_errors;
    }

    function drawFacts(data) {
        const row = data.row;
        facts(find("facts"), [
            ["Why it failed", data.error ? data.error.message : ""],
            ["Traceback", data.error ? data.error.traceback : "", true],
            ["Submitted", `${time(row.submitted)} (${iso(row.submitted)})`],
            ["First item", row.started ? `${time(row.started)}, ${span(row.started - row.submitted)} after it was submitted` : ""],
            ["Decided", row.until ? `${time(row.until)} (${iso(row.until)})` : ""],
            ["Deadline", row.deadline ? `${time(row.deadline)} (${iso(row.deadline)})` : ""],
            ["Run", row.run > 1 ? `${row.run}: some of it was rerun` : ""],
            ["Options", JSON.stringify(data.options)],
        ]);
    }

    const ask = pecker.watch(query, show);
    find("errors-next").addEventListener("click", () => {
        const end = last.errors[last.errors.length - 1];
        if (end) { view.errors = [end.origin, end.place]; ask(); }
    });
    find("errors-first").addEventListener("click", () => { view.errors = null; ask(); });
})();
