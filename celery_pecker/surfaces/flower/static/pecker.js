// What all pages share: time by the database's clock, live data, actions, small words.
window.pecker = (function () {
    "use strict";

    const root = document.getElementById("pecker");
    const EVERY = 2000;          // milliseconds between two questions
    const REQUEST_TIMEOUT = 10000;      // and until one is given up
    const zone = known(root.dataset.zone);
    let serverUs = 0, heardAt = 0, refresh = () => {};

    function known(name) {
        try {
            new Intl.DateTimeFormat("en", {timeZone: name});
            return name;
        } catch {
            return "UTC";
        }
    }

    // Elements. Text only ever goes in as text: a name may be anything, HTML too.

    // Marks in it that turn text around are shown as such, and pecker.css isolates each
    // element: it cannot reorder the words beside it.

    function plain(words) {
        return typeof words === "string" ? words.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd") : words;
    }

    function el(tag, attributes, ...children) {
        const made = tag.startsWith("svg:")
            ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
            : document.createElement(tag);
        for (const [key, value] of Object.entries(attributes || {})) {
            if (value !== null && value !== undefined) { made.setAttribute(key, value); }
        }
        made.append(...children.map(plain));
        return made;
    }

    function text(node, words) {
        const clean = plain(words);
        if (node.textContent !== clean) { node.textContent = clean; }
    }

    function attribute(node, key, value) {
        if (value === null || value === undefined) {
            node.removeAttribute(key);
        } else if (node.getAttribute(key) !== String(value)) {
            node.setAttribute(key, value);
        }
    }

    // Children that stay for as long as `key` does, so that focus and selection stay.
    function fill(place, key, make) {
        if (place.dataset.drawn === key) { return; }
        place.dataset.drawn = key;
        place.replaceChildren(...make());
    }

    // Time: what the database said, and what has passed here since.

    function now() {
        return serverUs + (performance.now() - heardAt) * 1000;
    }

    const clocks = new Intl.DateTimeFormat("en-GB", {
        timeZone: zone, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"});
    const dates = new Intl.DateTimeFormat("en-GB", {timeZone: zone, day: "numeric", month: "short"});
    const minutes = new Intl.DateTimeFormat("en-GB", {
        timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23"});
    const days = new Intl.DateTimeFormat("en-CA", {
        timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit"});

    function time(us, exact) {
        const at = new Date(Math.floor(us / 1000));
        const part = Math.floor(us / 1000) % 1000;
        const fraction = exact && part ? "." + String(part).padStart(3, "0") : "";
        const clock = clocks.format(at) + fraction;
        const today = new Date(now() / 1000);
        if (days.format(at) === days.format(today)) { return clock; }
        // Seconds of another day are shown only where the exact instant is asked for.
        const year = days.format(at).slice(0, 4) === days.format(today).slice(0, 4) ? "" : " " + days.format(at).slice(0, 4);
        return dates.format(at) + year + ", " + (exact === undefined ? minutes.format(at) : clock);
    }

    function iso(us) {
        const whole = new Date(Math.floor(us / 1000)).toISOString().slice(0, 19).replace("T", " ");
        return whole + "." + String(((us % 1e6) + 1e6) % 1e6).padStart(6, "0") + " UTC";
    }

    // As phrases.py has it: below so many seconds, the unit, its name, and below which number a tenth.
    const UNITS = [[.9995, .001, "ms", 9.95], [99.5, 1, "s", 9.95], [5400, 60, "min", 0], [129600, 3600, "h", 0], [Infinity, 86400, "days", 0]];
    function span(us) {
        const s = Math.abs(us) / 1e6, [, unit, name, tenths] = UNITS.find(([below]) => s < below), value = s / unit;
        return (value < tenths ? Math.round(value * 10) / 10 : Math.round(value)) + " " + name;
    }

    function coarse(us) {   // for what is read again and again: no tenths that flicker
        const s = Math.abs(us) / 1e6;
        return s < 99.5 ? Math.floor(s) + " s" : span(us);
    }

    const ago = us => us < 1e6 ? "just now" : coarse(us) + " ago";
    const ahead = us => us < 1e6 ? "within 1 s" : "in " + coarse(us);

    function count(number) {
        return Number(number).toLocaleString("en");
    }

    function plural(number, one, many) {
        return count(number) + " " + (number === 1 ? one : many || one + "s");
    }

    // A schedule in few words; a grid by its period, all else as Celery tells it.
    function schedule(repr, period) {
        if (period) {
            const units = [["day", 86400e6, "days"], ["hour", 3600e6, "h"], ["minute", 60e6, "min"], ["second", 1e6, "s"]];
            const [one, unit, many] = units.find(known => period % known[1] === 0) || ["", 1e6, "s"];
            return period === unit ? "every " + one : `every ${period / unit} ${many}`;
        }
        const cron = /^<crontab: (.+) \(m\/h\/dM\/MY\/d\)>$/.exec(repr);
        if (cron) { return cron[1]; }
        return repr.replace(/^<(.*)>$/, "$1");
    }

    // The last slot of an entry and the next one: words, what explains them, and the exact instant.
    const exact = entry => entry.period_us && entry.period_us < 1e6 ? true : undefined;
    function lastSlot(entry) {
        const never = entry.epoch === "0", seen = ago(now() - entry.last_us);
        return {words: never ? "–" : time(entry.last_us, exact(entry)), sub: (never ? "first seen " : "") + seen,
            title: (never ? "First seen " : "") + iso(entry.last_us)};
    }
    function nextSlot(entry) {
        if (entry.next_us === null || !entry.declared) {
            return {words: "–", sub: "", title: !entry.declared ? entry.state === "removed" ? "It was removed" : "No living scheduler declares it"
                : entry.stored ? "None is due" : "Only the app's own code can say"};
        }
        // What was won since the last answer is no news of being late.
        const left = entry.next_us - now(), late = -left > 5e6 && !entry.paused;
        return {words: time(entry.next_us, exact(entry)), sub: late ? coarse(-left) + " overdue" : ahead(Math.max(left, 0)), title: iso(entry.next_us), late};
    }
    // Live data

    const dot = document.getElementById("pecker-dot");
    const live = document.getElementById("pecker-live");

    function noteAnswer(data) {
        serverUs = data.now;
        heardAt = performance.now();
        dot.className = "status-dot status-dot-live";
        text(live, "Live");
        attribute(live, "title", "As of " + iso(data.now));
        root.classList.remove("pecker-stale");
        waiting = data.waiting || [];
        drawWaiting();
    }

    function deaf(why) {
        dot.className = "status-dot status-dot-error";
        text(live, why);
        attribute(live, "title", null);
        root.classList.add("pecker-stale");
    }

    async function question(url, options) {
        // A redirect leads to a login page, which a user has to open.
        const answer = await fetch(url, {
            credentials: "same-origin", redirect: "manual", headers: {Accept: "application/json"},
            signal: AbortSignal.timeout(REQUEST_TIMEOUT), ...options});
        if (answer.type === "opaqueredirect") { throw new Error("Signed out: reload the page to sign in."); }
        let reply;
        try {
            reply = await answer.json();
        } catch {
            throw new Error("Flower answered " + answer.status);
        }
        if (!answer.ok) { throw Object.assign(new Error(reply.error || "Flower answered " + answer.status), {reply: reply}); }
        return reply;
    }

    // Asks at once and then every two seconds while the page is looked at. `where()`
    // gives the query; an answer to a question that is no longer asked is dropped.
    function watch(where, show) {
        let turn = 0, timer = 0;

        async function ask() {
            clearTimeout(timer);
            const mine = ++turn;
            try {
                const data = await question(root.dataset.url + "/data?" + where());
                if (mine !== turn) { return; }
                noteAnswer(data);
                show(data);
            } catch (error) {
                if (mine !== turn) { return; }
                deaf(error.name === "TimeoutError" || error instanceof TypeError
                    ? "Flower does not answer" : error.message);
            }
            if (!document.hidden) { timer = setTimeout(ask, EVERY); }
        }

        document.addEventListener("visibilitychange", () => { if (!document.hidden) { ask(); } });
        const first = JSON.parse(document.getElementById("pecker-data").textContent);
        if (first) {
            noteAnswer(first);
            show(first);
        }
        timer = setTimeout(ask, EVERY);
        refresh = ask;
        return ask;
    }

    // Actions

    function say(words, bad) {
        const place = document.getElementById("pecker-message");
        const toast = el("div", {class: bad ? "pecker-toast pecker-bad" : "pecker-toast"}, words);
        place.replaceChildren(toast);
        setTimeout(() => toast.remove(), bad ? 10000 : 5000);
    }

    // The reply to something done, with what was typed into a form; a refusal is thrown, with its reply.
    function send(what, rows, fields, where, later) {
        return question(root.dataset.url + "/act" + (where || ""), {
            method: "POST", body: JSON.stringify({act: what, ...(typeof rows === "string" ? {name: rows} : rows), fields, later}),
            headers: {"Content-Type": "application/json", "X-XSRFToken": root.dataset.token}});
    }

    // `rows`: a name, or {names: […]}, or {every: true}.
    async function act(what, rows, where, fields, later) {
        try {
            if (root.dataset.refusal) { throw new Error(root.dataset.refusal); }
            const reply = await send(what, rows, fields, where, later);
            say(reply.message, reply.refused > 0);
            refresh();
            return true;
        } catch (error) {
            say(error.message, true);
            return false;
        }
    }

    // Acts that wait, each with its last seconds and what takes it back; then what came of it.
    let waits = new Map(), waiting = [];

    function newWait({id}) {
        const words = el("span"), undo = el("button", {type: "button", class: "pecker-act pecker-wide"}, "Undo");
        undo.addEventListener("click", () => act("undo", id, location.search));
        return {row: el("li", {"data-id": id}, words, undo), words, undo};
    }

    function drawWaiting() {
        waits = rows(document.getElementById("pecker-waiting"), waits, waiting, "id", newWait, ({words, undo}, one) => {
            const left = one.due_us - now(), state = one.state === "unknown" ? "begun" : one.state;
            text(words, one.words + (state !== "waits" ? `: ${state} ${one.error}` : left < -5e6 ? `: due ${ago(-left)}` : " " + ahead(left)));
            undo.hidden = state !== "waits" || Boolean(root.dataset.refusal);
        });
    }

    setInterval(drawWaiting, 500);

    // Asks before what cannot be taken back, and for what is `typed`, which is the answer with the
    // fields of an act; null: it is not meant. Escape and Cancel say no.
    // The second click of a double-click, which may be on the dialog by then, says nothing.
    const MEANT = 600;           // milliseconds
    let askedAt = 0;

    function confirm(question, consequence, label, typed, usual) {
        const dialog = document.getElementById("pecker-confirm"), field = dialog.querySelector("input");
        text(dialog.querySelector("h2"), question);
        text(dialog.querySelector("label span"), typed || "");
        field.parentNode.hidden = !typed;
        field.value = usual || "";
        text(dialog.querySelector("p"), consequence);
        text(dialog.querySelector("[value=yes]"), label);
        dialog.returnValue = "";
        askedAt = performance.now();
        dialog.showModal();
        if (typed) { field.select(); }
        return new Promise(resolve => {
            dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? {typed: field.value} : null), {once: true});
        });
    }

    document.getElementById("pecker-confirm").addEventListener("click", event => {
        if (event.target.value === "yes" && event.detail && performance.now() - askedAt < MEANT) { event.preventDefault(); }
    });
    document.getElementById("pecker-confirm").addEventListener("keydown", event => {
        if (event.key === "Enter" && event.target.localName === "input") { event.currentTarget.querySelector("[value=yes]").click(); }
    });

    // A figure of a page: its number, what stands below it, and how it stands.
    function card(name, value, sub, tone) {
        text(document.getElementById("total-" + name), value);
        text(document.getElementById("sub-" + name), sub);
        attribute(document.getElementById("sub-" + name), "title", sub);
        attribute(document.getElementById("card-" + name), "class", "metric-card" + (tone ? " metric-card-" + tone : ""));
    }

    // Names with words, and what stands below these; in place, so that a selection that a user is copying stays.
    function facts(list, those) {
        those.forEach(([name, words, sub, style], nth) => {
            const [dt, dd] = (list.children[nth] || list.appendChild(el("div", {class: "detail-row"},
                el("dt"), el("dd", {}, el("span"), el("small"))))).children;
            text(dt, name);
            text(dd.firstChild, words);
            text(dd.lastChild, sub || "");
            dd.className = style || "";
        });
        while (list.children.length > those.length) { list.lastChild.remove(); }
    }

    // Why something runs or does not, as `explain` says it.
    function verdict(place, reply, name) {
        const [why, advice] = place.children;
        attribute(place, "data-wrong", reply.trouble ? 1 : 0);
        text(why, reply.why[0].toUpperCase() + reply.why.slice(1));
        text(advice, [reply.advice ? "→ " + reply.advice.replace("NAME", name) : "", ...(reply.facts || [])].filter(Boolean).join(" · "));
    }

    // A name that is nothing but blanks could neither be seen nor clicked.
    function shown(name) {
        return name.trim() ? name : "“" + name + "”";
    }

    function editUrl(name) {
        return root.dataset.edit + "?name=" + encodeURIComponent(name);
    }

    function entryUrl(name) {
        return root.dataset.entry + "?name=" + encodeURIComponent(name);
    }

    // Flower's own page of a task: its traceback, where Flower has heard of it.
    function taskUrl(id) {
        return root.dataset.task + id;
    }

    // A copy of a page's template: its element as `row`, and what it names by `data-part`.
    function parts(id) {
        const row = document.getElementById(id).content.firstElementChild.cloneNode(true);
        return Object.fromEntries([["row", row], ...[...row.querySelectorAll("[data-part]")].map(one => [one.dataset.part, one])]);
    }
    // Rows stay as long as what they show does, so that focus stays.
    function rows(body, known, those, key, make, draw) {
        const keep = new Map();
        those.forEach((row, nth) => {
            const parts = known.get(row[key]) || make(row);
            draw(parts, row);
            keep.set(row[key], parts);
            if (body.children[nth] !== parts.row) { body.insertBefore(parts.row, body.children[nth] || null); }
        });
        while (body.children.length > those.length) { body.lastChild.remove(); }
        return keep;
    }

    // Keys that need no other key; those of one letter can be switched off, for
    // users who dictate or touch keys by accident. The browser remembers it for all pages.
    function keys(handle) {
        const box = document.getElementById("pecker-letters");
        function choose(on) {
            box.checked = on;
            root.classList.toggle("pecker-no-letters", !on);
        }
        choose(stored("pecker-letters") !== "off");
        box.parentNode.hidden = false;
        box.addEventListener("change", () => {
            choose(box.checked);
            stored("pecker-letters", box.checked ? "on" : "off");
        });
        document.addEventListener("keydown", event => {
            if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) { return; }
            if (box.checked || event.key.length > 1) { handle(event); }
        });
    }

    // A browser may forbid pages to store anything: then it lasts as long as the page.
    function stored(key, value) {
        try {
            return value === undefined ? localStorage.getItem(key) : localStorage.setItem(key, value);
        } catch {
            return null;
        }
    }

    for (const place of document.querySelectorAll(".pecker-zone")) {
        text(place, "Times in " + zone);
    }

    return {root, question, shown, el, text, attribute, fill, now, time, iso, span, coarse, ago, ahead, count, plural,
        schedule, lastSlot, nextSlot, watch, deaf, card, facts, verdict, say, act, send, confirm, entryUrl, editUrl, taskUrl, parts, rows, keys};
})();
