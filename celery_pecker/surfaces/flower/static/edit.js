// The form of a stored schedule: what was typed is previewed, saved, and never lost to a concurrent edit.
(function () {
    "use strict";

    const {el, text, attribute, time, iso, ahead, ago, now, root} = pecker;
    const byId = pecker.view.byId;
    const form = byId("edit");
    const inputs = new Map([...form.elements].filter(one => one.name).map(one => [one.name, one]));
    const first = JSON.parse(byId("pecker-data").textContent);
    const name = first.name;
    const WAIT = 250;            // milliseconds without a key until the preview is asked for
    let last = first, base = first.texts.version, conflict = null, turn = 0, timer = 0, runs = [];
    const touched = new Set();

    const closed = () => root.dataset.refusal || last.why;

    // Texts

    function typed() {
        const texts = {};
        for (const [key, input] of inputs) {
            texts[key] = input.type === "checkbox" ? (input.checked ? "on" : "") : input.value;
        }
        for (const field of first.fields) {
            if (field.name in texts && !field.kinds.includes(texts.kind)) { texts[field.name] = ""; }
        }
        // A pause is no version: a form in which it was not changed leaves it as it is now.
        if (!touched.has("paused")) { delete texts.paused; }
        return {...texts, version: base};
    }

    function fill(texts) {
        for (const [key, input] of inputs) {
            if (input.type === "checkbox") { input.checked = Boolean(texts[key]); } else { input.value = texts[key] || ""; }
        }
        fit();
    }

    // As high as what stands in it.
    function fit() {
        for (const area of form.querySelectorAll("textarea")) {
            area.style.height = "auto";
            area.style.height = area.scrollHeight + 2 + "px";
        }
    }

    function drawKind() {
        const kind = inputs.get("kind").value;
        const one = first.kinds[kind] || first.kinds.json;
        text(byId("h-value"), one.hint);
        text(form.querySelector("label[for=f-value]"), one.value);
        attribute(inputs.get("value"), "placeholder", one.example);
        for (const field of first.fields) {
            const place = form.querySelector(`[data-field="${field.name}"]`);
            if (place) { place.hidden = !field.kinds.includes(kind); }
        }
    }

    // What is wrong stands at its field.

    function complain(field, words) {
        for (const [key, input] of inputs) {
            const place = byId("e-" + key);
            if (!place) { continue; }
            text(place, key === field ? words : "");
            attribute(input, "aria-invalid", key === field ? "true" : null);
        }
        const input = inputs.get(field);
        if (input && input.closest("details")) { input.closest("details").open = true; }
        return input && byId("e-" + field) ? input : null;
    }

    // Preview

    async function preview() {
        const mine = ++turn;
        try {
            const seen = await pecker.send("preview", name, typed());
            if (mine === turn) { drawPreview(seen); }
        } catch (error) {
            if (mine === turn) { drawPreview({words: "", runs: [], field: null, problem: error.message}); }
        }
    }

    function drawPreview(seen) {
        runs = seen.runs;
        if (!seen.problem) { text(byId("words"), seen.words); }
        // A form that has not been filled in yet is not wrong.
        const known = inputs.has(seen.field) && (touched.has(seen.field) || name);
        complain(known ? seen.field : null, seen.problem);
        text(byId("preview-problem"), !seen.problem || inputs.has(seen.field) ? "" : seen.problem);
        byId("runs").replaceChildren(...runs.map(us => el("li", {title: iso(us)},
            el("span", {}, weekday(us) + " " + time(us, false)), el("small"),
            el("small", {class: "pecker-there"}, there(us)))));
        if (seen.problem) { text(byId("words"), "No preview: the schedule is not complete, or not allowed."); }
        byId("words").classList.toggle("pecker-muted", Boolean(seen.problem));
        if (!runs.length && !seen.problem) { text(byId("words"), (seen.words ? seen.words + ": " : "") + "no run is left."); }
        drawTimes();
    }

    const weekdays = new Intl.DateTimeFormat("en-GB", {timeZone: root.dataset.zone || "UTC", weekday: "short"});
    const weekday = us => weekdays.format(new Date(us / 1000));

    // The same instant where the schedule is at home, if that is elsewhere.
    function there(us) {
        const zone = inputs.get("zone") ? typed().zone.trim() : "";
        if (!zone || zone === root.dataset.zone) { return ""; }
        try {
            return new Intl.DateTimeFormat("en-GB", {timeZone: zone, weekday: "short", hour: "2-digit", minute: "2-digit",
                hourCycle: "h23"}).format(new Date(us / 1000)) + " " + zone;
        } catch {
            return "";
        }
    }

    function drawTimes() {
        [...byId("runs").children].forEach((item, nth) => text(item.querySelector("small"), ahead(Math.max(runs[nth] - now(), 0))));
    }

    function later() {
        clearTimeout(timer);
        timer = setTimeout(preview, WAIT);
    }

    // Saving

    async function save() {
        if (closed()) { pecker.say(closed(), true); return; }
        const button = byId("save");
        if (button.getAttribute("aria-busy")) { return; }
        attribute(button, "aria-busy", "true");
        clearTimeout(timer);
        turn++;
        try {
            const reply = await pecker.send("save", name, typed());
            pecker.say(reply.message);
            location.assign(pecker.entryUrl(reply.name));
        } catch (error) {
            refused(error);
        }
        attribute(button, "aria-busy", null);
    }

    function refused(error) {
        const reply = error.reply || {};
        if (reply.conflict) {
            drawConflict(reply);
            return;
        }
        const input = complain(reply.field, error.message);
        if (input) { input.focus(); } else { pecker.say(error.message, true); }
    }

    // A concurrent edit was saved first: show both versions; what was typed stays in the form.

    function drawConflict(reply) {
        conflict = reply.conflict;
        const stored = conflict.stored, mine = typed();
        text(byId("conflict-words"), reply.error + (stored ? ` Stored ${ago(now() - stored.changed_at)}: ${stored.words}.` : ""));
        text(byId("theirs-head"), stored ? `Version ${stored.version}, by ${stored.changed_by}` : "Removed");
        const other = stored ? stored.texts : {};
        const rows = [...inputs.keys()].filter(key => key !== "version" && key !== "name")
            .filter(key => stored && key in mine && (other[key] || "") !== mine[key])
            .map(key => el("tr", {}, el("th", {scope: "row"}, label(key)),
                el("td", {class: "pecker-code"}, other[key] || "–"), el("td", {class: "pecker-code"}, mine[key] || "–")));
        document.querySelector("#differences tbody").replaceChildren(...rows);
        byId("differences").hidden = !rows.length;
        text(byId("keep"), stored ? "Save mine over it" : "Add it anew");
        byId("take").hidden = !stored;
        byId("newer").hidden = true;
        byId("conflict").hidden = false;
        byId("conflict").focus();
    }

    function label(key) {
        const field = first.fields.find(one => one.name === key);
        return field ? field.label : key;
    }

    byId("keep").addEventListener("click", () => {
        settle();
        save();
    });
    byId("take").addEventListener("click", () => {
        fill(conflict.stored.texts);
        settle();
        drawKind();
        preview();
    });

    function settle() {
        base = conflict.stored ? String(conflict.stored.version) : "0";
        conflict = null;
        byId("conflict").hidden = true;
    }

    for (const button of document.querySelectorAll("#remove")) {
        button.addEventListener("click", async () => {
            if (closed()) { pecker.say(closed(), true); return; }
            if (await pecker.act("remove", name, "", {version: base}, true)) { location.assign(root.dataset.schedules); }
        });
    }

    // Polled: a concurrent edit is shown before the form is saved.

    function drawNotices() {
        const stored = last.stored, words = [];
        if (last.code) {
            words.push(`Declared by code, ${pecker.schedule(last.code.schedule, last.code.period)}: its definition stands in beat_schedule, and is changed there.`);
        } else if (closed()) {
            words.push(closed());
        }
        text(byId("closed"), words.join(" "));
        byId("closed").hidden = !words.length;
        for (const input of form.elements) {
            input.disabled = Boolean(closed());
        }
        byId("bar").hidden = Boolean(closed());
        byId("preview").hidden = Boolean(root.dataset.refusal);
        const newer = base !== "0" && !conflict && (!stored || String(stored.version) !== base);
        byId("newer").hidden = !newer;
        if (newer) {
            text(byId("newer"), stored ? `${stored.changed_by} has changed it ${ago(now() - stored.changed_at)}: it is at version ${stored.version} now, and this form is of version ${base}. Saving shows both.`
                : "Another user has removed it. Saving shows the current state.");
        }
        text(byId("state"), !stored ? (last.code ? "Declared by code" : name ? "Removed" : "Stored in the database: each scheduler follows within a second of saving.")
            : stored.problem || `Version ${stored.version}, by ${stored.changed_by}, ${ago(now() - stored.changed_at)}`);
        byId("state").classList.toggle("pecker-bad", Boolean(stored && stored.problem));
    }

    function show(data) {
        last = data;
        if (!touched.has("paused") && data.stored && inputs.has("paused")) { inputs.get("paused").checked = Boolean(data.texts.paused); }
        drawNotices();
        byId("changes-card").hidden = !data.rows.changes.length;
    }

    form.addEventListener("input", event => {
        touched.add(event.target.name);
        if (event.target.name === "kind") { drawKind(); }
        fit();
        later();
    });
    form.addEventListener("submit", event => {
        event.preventDefault();
        save();
    });
    form.addEventListener("keydown", event => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) {
            event.preventDefault();
            save();
        }
    });

    attribute(byId("save"), "aria-keyshortcuts", "Control+Enter");
    document.title = (name || "New schedule") + " · Schedules · Flower";
    drawKind();
    fit();
    pecker.view.pictures.push(show);
    setInterval(drawTimes, 500);
    if (name && !first.code && !root.dataset.refusal) { preview(); }
    if (!first.code && !closed()) { (name ? inputs.get("value") : inputs.get("name")).focus(); }
})();
