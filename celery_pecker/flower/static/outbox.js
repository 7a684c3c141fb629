// The outbox: figures of all, of each task, and the messages themselves.
(function () {
    "use strict";

    const {el, text, attribute, count, plural, span, time, iso} = pecker;
    const tasks = document.querySelector("#tasks tbody");
    const messages = document.querySelector("#messages tbody");
    const parked = document.getElementById("parked");
    const all = document.getElementById("all-tasks");
    const params = new URLSearchParams(location.search);
    const view = {task: params.get("task") || "", parked: params.get("parked") === "1", outbox: params.get("outbox") || ""};
    const place = document.getElementById("place");
    let taskRows = new Map(), messageRows = new Map();

    function query() {
        const search = new URLSearchParams();
        if (view.outbox) { search.set("outbox", view.outbox); }
        if (view.task) { search.set("task", view.task); }
        if (view.parked) { search.set("parked", "1"); }
        return search.toString();
    }

    const seconds = value => value === null ? "–" : span(value * 1e6);
    const rate = value => value >= 10 ? count(Math.round(value)) : String(Math.round(value * 10) / 10);

    const NUMBERS = ["waiting", "held", "later", "parked", "oldest", "rate", "attempt"];

    function newTask(task) {
        const button = el("button", {type: "button", class: "btn btn-link p-0"}, pecker.shown(task.task));
        button.addEventListener("click", () => turn({task: task.task}));
        const cells = Object.fromEntries(NUMBERS.map(name => [name, el("td", {class: "text-end"})]));
        return {row: el("tr", {}, el("td", {class: "pecker-what"}, button), ...Object.values(cells)), cells};
    }

    function drawTask(parts, task) {
        for (const name of NUMBERS) {
            const words = name === "oldest" ? seconds(task.oldest) : name === "rate" ? rate(task.rate) + "/s" : count(task[name]);
            text(parts.cells[name], words);
        }
        parts.cells.parked.classList.toggle("pecker-some", task.parked > 0);
    }

    const STATES = {waiting: ["Waiting", "asked"], held: ["Held", "done"], later: ["Later", "idle"], parked: ["Parked", "bad"]};

    function newMessage(message) {
        const names = ["state", "task", "attempt", "due", "at", "error", "acts"];
        const cells = Object.fromEntries(names.map(name => [name, el("td")]));
        cells.task.className = "pecker-what";
        cells.attempt.className = "text-end";
        cells.acts.className = "pecker-does";
        cells.task.append(el("span", {title: message.task}, pecker.shown(message.task)),
            el("small", {title: message.task_id}, `${message.id} · ${message.task_id}`));
        const why = el("small", {class: "pecker-why"});  // on a phone, where its column is not shown
        cells.task.append(why);
        const parts = {row: el("tr", {"data-id": message.id}, ...Object.values(cells)), cells, why, state: "", armed: -Infinity};
        parts.retry = action("retry", "Retry", message, parts);
        parts.park = action("park", "Park", message, parts);
        parts.drop = action("drop", "Drop", message, parts);
        cells.acts.append(parts.retry, parts.park, parts.drop);
        return parts;
    }

    // What cannot be taken back is pressed twice.
    function action(what, words, message, parts) {
        const made = el("button", {type: "button", class: "pecker-act pecker-wide", "data-act": what}, words);
        attribute(made, "aria-label", `${words} ${message.task} ${message.id}`);
        made.addEventListener("click", async () => {
            if (what === "drop" && performance.now() - parts.armed > 4000) {
                parts.armed = performance.now();
                text(made, "Really?");
                setTimeout(() => text(made, words), 4000);
                return;
            }
            await pecker.act(what, message.id, view.outbox ? "?" + new URLSearchParams({outbox: view.outbox}) : "");
            ask();
        });
        if (pecker.root.dataset.refusal) { made.setAttribute("aria-disabled", "true"); }
        return made;
    }

    function drawMessage(parts, message) {
        if (parts.state !== message.state) {
            parts.state = message.state;
            const [words, shape] = STATES[message.state] || [message.state, "none"];
            parts.cells.state.replaceChildren(el("span", {class: "pecker-key"},
                el("svg:svg", {viewBox: "0 0 1 1", "aria-hidden": "true"}, ...pecker.pictures.cell(shape, 0, 0, 1, 1)), words));
        }
        text(parts.cells.attempt, message.mode === "relay" ? "–" : count(message.attempt));
        text(parts.cells.due, time(message.due_at));
        attribute(parts.cells.due, "title", iso(message.due_at));
        text(parts.cells.at, time(message.created_at));
        attribute(parts.cells.at, "title", iso(message.created_at));
        for (const place of [parts.cells.error, parts.why]) { text(place, message.last_error || ""); }
        parts.retry.hidden = message.state !== "parked";
        parts.park.hidden = message.state === "parked";
    }

    function card(name, value, sub, tone) {
        text(document.getElementById("total-" + name), value);
        text(document.getElementById("sub-" + name), sub);
        attribute(document.getElementById("card-" + name), "class", "metric-card metric-card-" + tone);
    }

    function drawCards(summary) {
        const least = summary.more ? "about " : "";
        card("depth", least + count(summary.depth),
            summary.oldest === null ? "nothing is due" : "the oldest for " + seconds(summary.oldest),
            summary.depth ? "active" : "success");
        const never = summary.drained_in === null;
        card("drain", never ? "never" : summary.depth ? seconds(summary.drained_in) : "now",
            (never && summary.rate ? "a task stands still; " : "") + rate(summary.rate) + " a second" + (summary.later ? ", " + plural(summary.later, "message") + " later" : ""),
            never ? "danger" : "success");
        card("parked", count(summary.parked), summary.parked ? "need attention" : "none", summary.parked ? "warning" : "success");
        const away = summary.relays.filter(one => one.broker !== null);
        card("relays", count(summary.relays.length),
            away.length ? `the broker is away for ${count(away.length)}: ${away[0].broker}` : summary.relays.length ? "all reach the broker" : "no relay runs",
            away.length || !summary.relays.length ? "danger" : "success");
    }

    // The outboxes of the app; most have one.
    function drawPlaces(data) {
        document.getElementById("choice").hidden = data.places.length < 2;
        if (place.options.length !== data.places.length) {
            place.replaceChildren(...data.places.map(name => el("option", {value: name}, name)));
        }
        if (document.activeElement !== place) { place.value = data.place; }
    }

    function show(data) {
        drawPlaces(data);
        drawCards(data.summary);
        taskRows = pecker.rows(tasks, taskRows, data.summary.tasks, "task", newTask, drawTask);
        messageRows = pecker.rows(messages, messageRows, data.rows, "id", newMessage, drawMessage);
        document.getElementById("no-tasks").hidden = data.summary.tasks.length > 0;
        document.getElementById("no-messages").hidden = data.rows.length > 0;
        text(document.getElementById("range"), plural(data.rows.length, "message") + (data.more ? " of more" : ""));
        all.hidden = !view.task;
        text(all, `Only ${view.task}: show all tasks`);
    }

    function turn(change) {
        Object.assign(view, change);
        const search = query();
        history.replaceState(null, "", search ? "?" + search : location.pathname);
        ask();
    }

    parked.checked = view.parked;
    const ask = pecker.watch(query, show);
    place.addEventListener("change", () => {
        location.search = "?" + new URLSearchParams({outbox: place.value});
    });
    parked.addEventListener("change", () => turn({parked: parked.checked}));
    all.addEventListener("click", () => turn({task: ""}));
    document.getElementById("tools").addEventListener("submit", event => event.preventDefault());
})();
