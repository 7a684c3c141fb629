// The list of entries: cells and keys that no other table has.
(function () {
    "use strict";

    const {el, text, attribute, span} = pecker;
    const {byId, tables, choice, choose, turn, hands, icon} = pecker.view;
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

    // Drawn again and again: times go on between two answers.
    const drawSlot = slotOf => function again(cell, entry) {
        cell.again = () => again(cell, entry);
        const slot = slotOf(entry), [at, sub] = lines(cell, slot.words, slot.sub);
        attribute(at, "title", slot.title);
        sub.classList.toggle("pecker-bad", Boolean(slot.late));
    };


    hands.entries = {
        state(cell, entry) {
            const why = entry.state === "failing" ? entry.why : entry.state === "unreadable" ? entry.stored.problem : "";
            pecker.fill(cell, entry.state + why, () => [pictures.badge(tables.entries, entry.state, why)]);
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
        last_us: drawSlot(pecker.lastSlot),
        next_us: drawSlot(pecker.nextSlot),
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
            text(code, epoch === "0" ? "–" : "…" + epoch.slice(-6));
            attribute(code, "title", `Epoch ${epoch}` + (era ? `, era ${era}` : ""));
        },
        acts(cell, {name, stored}) {
            if (!cell.querySelector("a")) {
                for (const one of cell.children) { one.classList.remove("pecker-wide"); }
                cell.prepend(el("a", {href: pecker.editUrl(name), class: "pecker-act", "data-act": "edit", title: "Edit " + name, "aria-label": "Edit " + name}, icon("edit")));
            }
            cell.firstChild.hidden = !stored;
        },
    };

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
        const here = focused(), of = what => here && here.querySelector(`[data-act=${what}]:not([hidden])`);
        const press = button => button && (() => button.click());
        const does = {
            j: () => step(1), ArrowDown: here && (() => step(1)),
            k: () => step(-1), ArrowUp: here && (() => step(-1)),
            "[": () => turn(-1), "]": () => turn(1),
            // Once for each time that it is pressed, however long it is held.
            p: !event.repeat && press(of("pause") || of("resume")),
            r: !event.repeat && press(of("run")),
            e: press(of("edit")),
            n: () => fresh.click(),
        }[event.key];
        if (does) { event.preventDefault(); does(); }
    });
})();
