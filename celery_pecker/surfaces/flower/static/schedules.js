// The list of entries: cells and keys that no other table has.
(function () {
    "use strict";

    const {el, text, attribute, span, coarse, ago, ahead, time, iso, now} = pecker;
    const {byId, tables, choice, choose, turn, hands, ask} = pecker.view;
    const pictures = pecker.pictures;
    const search = byId("filter-search"), fresh = byId("new"), body = byId("entries").tBodies[0];
    const none = document.querySelector("[data-table=entries] .pecker-empty"), noEntry = none.textContent;

    // Two lines: what counts, and below it what explains it.
    function lines(cell, words, below, make) {
        if (!cell.firstChild) { cell.append(make ? make() : el("span"), el("small")); }
        text(cell.firstChild, words);
        text(cell.lastChild, below);
        return cell.children;
    }

    function drawLast(cell, entry) {
        cell.again = () => drawLast(cell, entry);
        const never = entry.epoch === "0", seen = ago(now() - entry.last_us);
        const [at] = lines(cell, never ? "–" : time(entry.last_us, exact(entry)), (never ? "seen " : "") + seen);
        attribute(at, "title", (never ? "First seen " : "") + iso(entry.last_us));
    }

    const exact = entry => entry.period_us && entry.period_us < 1e6 ? true : undefined;

    function drawNext(cell, entry) {
        cell.again = () => drawNext(cell, entry);
        if (entry.next_us === null || !entry.declared) {
            const [at] = lines(cell, "–", "");
            attribute(at, "title", !entry.declared ? "No scheduler declares it"
                : entry.stored ? "None is due" : "Only the app's own code can say");
            return;
        }
        const left = entry.next_us - now();
        // What was won since the last answer is no news of being late.
        const late = entry.paused ? 0 : Math.max(-left - 2.5e6, 0);
        const [at, sub] = lines(cell, time(entry.next_us, exact(entry)), late ? coarse(-left) + " overdue" : ahead(Math.max(left, 0)));
        attribute(at, "title", iso(entry.next_us));
        sub.classList.toggle("pecker-bad", late > 2.5e6);
    }

    function newActs(cell, {name}) {
        const does = async what => { if (await pecker.act(what, name)) { ask(); } };
        cell.append(pecker.link("edit", "Edit " + name, pecker.editUrl(name)),
            pecker.button("run", "Run " + name + " now", does), pecker.button("pause", "Pause " + name, does));
    }

    hands.entries = {
        state(cell, entry) {
            const why = entry.state === "failing" ? entry.why : entry.state === "unreadable" ? entry.stored.problem : "";
            if (cell.dataset.drawn === entry.state + why) { return; }
            cell.dataset.drawn = entry.state + why;
            cell.replaceChildren(pictures.badge(tables.entries, entry.state, why));
            cell.parentNode.className = "pecker-row-" + entry.state;
        },
        name(cell, {name, task}) {
            const [, sub] = lines(cell, pecker.shown(name), task === name ? "" : task,
                () => el("a", {href: pecker.entryUrl(name), title: name}));
            attribute(sub, "title", task);
        },
        schedule(cell, entry) {
            const stored = entry.stored, problem = stored && stored.problem, local = entry.run === "local";
            const words = stored && !stored.declared_by_code && stored.words || pecker.schedule(entry.schedule, entry.period_us);
            const [when, sub] = lines(cell, words, [problem, local ? "local" : ""].filter(Boolean).join(" · "));
            cell.classList.add("pecker-when");
            attribute(when, "title", words === entry.schedule ? words : words + "\n" + entry.schedule);
            attribute(sub, "title", problem || (local ? "Runs in the worker that wins it, without a broker" : null));
            sub.classList.toggle("pecker-bad", Boolean(problem));
        },
        last_us: drawLast,
        next_us: drawNext,
        late_us(cell, entry) {
            if (!cell.firstChild) {
                cell.classList.add("pecker-late");
                cell.append(el("div", {}, pictures.spark(), el("span", {class: "pecker-figure"})));
            }
            const [spark, late] = cell.firstChild.children;
            pictures.drawSpark(spark, entry.spark, entry.period_us);
            text(late, entry.late_us === null ? "" : span(entry.late_us));
        },
        host(cell, {host, holder}) {
            lines(cell, host || (holder ? "gone" : "–"), holder ? holder.slice(0, 8) : "");
            cell.classList.add("pecker-who");
            attribute(cell, "title", holder ? `Won the last slot: ${host || "a scheduler seen no more"}, process life ${holder}` : null);
        },
        epoch(cell, {epoch, era}) {
            const code = cell.firstChild || cell.appendChild(el("code"));
            text(code, pecker.short(epoch));
            attribute(code, "title", `Epoch ${epoch}` + (era ? `, era ${era}` : ""));
        },
        acts(cell, entry) {
            if (!cell.firstChild) { newActs(cell, entry); }
            const [edit, run, pause] = cell.children;
            edit.style.visibility = entry.stored ? "" : "hidden";
            for (const button of [run, pause]) { button.style.visibility = entry.state === "removed" ? "hidden" : ""; }
            pecker.relabel(pause, entry.paused ? "resume" : "pause", (entry.paused ? "Resume " : "Pause ") + entry.name);
        },
    };

    // Times go on between two answers.
    setInterval(() => { for (const cell of body.querySelectorAll(".pecker-is-instant")) { cell.again(); } }, 500);

    pecker.view.pictures.push(data => {
        const why = pecker.root.dataset.refusal || data.why, overdue = data.cards.overdue.text;
        attribute(fresh, "aria-disabled", why ? "true" : null);
        attribute(fresh, "title", why || "Add a schedule that is stored in the database");
        document.title = (overdue === "0" ? "" : `(${overdue} overdue) `) + "Schedules · Flower";
        text(none, choice.search ? `No entry has “${choice.search}” in its name or task.`
            : data.total ? "There are no more entries." : noEntry);
    });

    // Keys

    const focused = () => document.activeElement && document.activeElement.closest("#entries tbody tr");

    function step(by) {
        const all = [...body.querySelectorAll(".pecker-what a")], row = focused();
        const here = row ? all.indexOf(row.querySelector(".pecker-what a")) : -1;
        const next = all[Math.min(Math.max(here + by, 0), all.length - 1)];
        if (next) { next.focus(); next.scrollIntoView({block: "nearest"}); }
    }

    pecker.keys(event => {
        if (event.target === search) {
            if (event.key === "Escape") { search.value = ""; choose({search: ""}); search.blur(); }
            if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); step(1); }
            return;
        }
        if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { return; }
        const here = focused(), [edit, run, pause] = here ? here.lastChild.children : [];
        const press = button => button && button.style.visibility !== "hidden" && (() => button.click());
        const does = {
            j: () => step(1), ArrowDown: here && (() => step(1)),
            k: () => step(-1), ArrowUp: here && (() => step(-1)),
            "[": () => turn(-1), "]": () => turn(1),
            // Once for each time that it is pressed, however long it is held.
            p: !event.repeat && press(pause),
            r: !event.repeat && press(run),
            e: press(edit),
            n: () => fresh.click(),
        }[event.key];
        if (does) { event.preventDefault(); does(); }
    });
})();
