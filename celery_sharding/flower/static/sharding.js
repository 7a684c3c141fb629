// What the pages of sharded jobs share: states, bars, and what can be done to a job.
pecker.sharding = (function () {
    "use strict";

    const {el, text, attribute, count} = pecker;
    const places = document.getElementById("sharding").dataset;

    // Each state has a colour and a shape of its own.
    const STATES = {
        submitted: ["Submitted", "calm", "M2 3h12v10H2zm1.6 1.4L8 8.3l4.4-3.9z"],
        planning: ["Planning", "calm", "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zm7 2h5v2H9z"],
        running: ["Running", "done", "M4 2.2v11.6L13.5 8z"],
        waiting: ["Waiting", "slow", "M4 1h8v2L9 8l3 5v2H4v-2l3-5-3-5z"],
        starved: ["No workers", "bad", "M8 1 .8 14.5h14.4zM7.2 6h1.6v4.2H7.2zm0 5.2h1.6v1.6H7.2z"],
        paused: ["Paused", "idle", "M3.5 2h3.2v12H3.5zM9.3 2h3.2v12H9.3z"],
        posting: ["Posting", "done", "M3 2h10v2H3zm0 4h10v2H3zm0 4h6v2H3z"],
        delivering: ["Delivering", "done", "M1.5 7.2h9L7 3.7l1.1-1.1L13.6 8l-5.5 5.4L7 12.3l3.5-3.5h-9z"],
        succeeded: ["Succeeded", "done", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.8 4.9-4.6 5.2-3-2.8 1-1 1.9 1.8 3.6-4.1z"],
        failed: ["Failed", "bad", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.2 9.1-1.1 1.1L8 9.1l-2.1 2.1-1.1-1.1L6.9 8 4.8 5.9l1.1-1.1L8 6.9l2.1-2.1 1.1 1.1L9.1 8z"],
        cancelled: ["Cancelled", "idle", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM4.5 7.2h7v1.6h-7z"],
    };

    function badge(state) {
        const [words, tone, path] = STATES[state] || STATES.submitted;
        return el("span", {class: "pecker-state shard-state shard-" + tone},
            el("svg:svg", {viewBox: "0 0 16 16", "aria-hidden": "true"},
                el("svg:path", {d: path, "fill-rule": "evenodd"})),
            el("span", {}, words));
    }

    function drawBadge(place, state) {
        if (place.dataset.state === state) { return; }
        place.dataset.state = state;
        place.replaceChildren(badge(state));
    }

    // A bar of items: what is done, what failed, what is left.

    function bar() {
        return el("span", {class: "shard-bar", role: "img"},
            el("i", {class: "shard-part shard-part-done"}), el("i", {class: "shard-part shard-part-failed"}));
    }

    function drawBar(made, done, failed, total) {
        const part = many => total ? Math.min(many / total, 1) * 100 + "%" : "0%";
        const [first, second] = made.children;
        first.style.width = total || done ? part(done) : "100%";
        second.style.width = part(failed);
        attribute(made, "aria-label", `${percent(done + failed, total)}: ${count(done)} done, ${count(failed)} failed, of ${count(total)}`);
    }

    // All only where nothing is left.
    function percent(ended, total) {
        if (!total) { return "–"; }
        return (Math.floor(Math.min(ended / total, 1) * 1000) / 10).toFixed(1) + "%";
    }

    function rate(perSecond) {
        return perSecond >= 10 ? count(Math.round(perSecond)) : String(Math.round(perSecond * 10) / 10);
    }

    const left = seconds => seconds === null ? "–" : pecker.coarse(seconds * 1e6);

    // What did not end is read repeatedly: without tenths that flicker.
    function took(row) {
        const us = row.elapsed * 1e6;
        return row.ended ? "took " + pecker.span(us) : "for " + pecker.coarse(us);
    }

    // Of what is few: some are never none.
    function part(some, total) {
        return some * 1000 < total ? "under 0.1%" : percent(some, total);
    }

    function jobUrl(id) {
        return places.job + "?id=" + encodeURIComponent(id);
    }

    // What can be done

    const DOES = {
        pause: ["Pause", "M4 2.5h3v11H4zM9 2.5h3v11H9z"],
        resume: ["Resume", "M4 2.2v11.6L13.5 8z"],
        retry: ["Retry failed items", "M8 2.5a5.5 5.5 0 1 0 5.3 7l-1.6-.4A3.9 3.9 0 1 1 8 4.1c1 0 2 .4 2.7 1.1L8.8 7H14V1.8l-2 2A5.5 5.5 0 0 0 8 2.5z"],
        cancel: ["Cancel", "M4.2 3 8 6.8 11.8 3 13 4.2 9.2 8l3.8 3.8L11.8 13 8 9.2 4.2 13 3 11.8 6.8 8 3 4.2z"],
    };

    // What can be done to a job in this state.
    function offers(row) {
        if (row.ended) { return row.failed && !row.leader ? ["retry"] : []; }
        if (row.leader || row.state === "delivering") { return []; }
        return [row.paused ? "resume" : "pause", "cancel"];
    }

    function button(what, id, wide, done) {
        const [words, path] = DOES[what];
        const label = el("span", wide ? {} : {class: "visually-hidden"}, words);
        const made = el("button", {type: "button", "data-act": what, title: words,
            class: wide ? "pecker-act pecker-wide" : "pecker-act"},
        el("svg:svg", {viewBox: "0 0 16 16", "aria-hidden": "true"}, el("svg:path", {d: path})), label);
        if (pecker.root.dataset.refusal) {
            made.setAttribute("aria-disabled", "true");
            made.title = words + ": " + pecker.root.dataset.refusal;
        }
        made.addEventListener("click", async () => {
            if (made.getAttribute("aria-busy")) { return; }
            const asks = what === "cancel" && !pecker.root.dataset.refusal;
            if (asks && !await pecker.confirm("Cancel the job " + id + "?", "No more of its items begin, and it ends as REVOKED.", "Cancel the job")) { return; }
            made.setAttribute("aria-busy", "true");
            await pecker.act(what, id);
            made.removeAttribute("aria-busy");
            done();
        });
        return made;
    }

    // Buttons stay as they are while they offer the same: one may just be pressed.
    function drawActs(place, row, wide, done) {
        const wanted = offers(row), shown = wanted.join(" ");
        if (place.dataset.acts === shown) { return; }
        place.dataset.acts = shown;
        place.replaceChildren(...wanted.map(what => button(what, row.id, wide, done)));
    }

    return {drawBadge, bar, drawBar, percent, part, rate, left, took, jobUrl, drawActs};
})();
