// How much is wrong, in the menu and in the title of the tab, on each page of Flower.
(function () {
    "use strict";

    const badge = document.getElementById("pecker-badge");
    const EVERY = 10000;         // milliseconds between two questions

    let counted = 0;

    // Pages set a title of their own, again and again.
    function head() {
        const plain = document.title.replace(/^\(\d+\) /, ""), whole = counted ? `(${counted}) ${plain}` : plain;
        if (document.title !== whole) { document.title = whole; }
    }

    new MutationObserver(head).observe(document.querySelector("title"), {childList: true});

    function show(wrong) {
        counted = wrong;
        badge.hidden = !wrong;
        badge.textContent = wrong;
        badge.title = wrong === 1 ? "1 cause to mend" : wrong + " causes to mend";
        head();
    }

    // On pages of ours the first cause, which may be that of what they show; the page has it whole.
    function lead(cause) {
        const place = document.getElementById("pecker-cause");
        if (!place) { return; }
        place.hidden = !cause;
        place.textContent = cause ? cause.title + ": " + cause.text : "";
    }

    async function read(url, then) {
        try {
            const answer = await fetch(url, {credentials: "same-origin", redirect: "manual",
                headers: {Accept: "application/json"}, signal: AbortSignal.timeout(EVERY)});
            if (answer.ok) { then(await answer.json()); }
        } catch {
            // Flower is away: the page itself says so
        }
    }

    function ask() {
        if (document.hidden) { return; }
        read(badge.dataset.url, data => {
            show(data.wrong);
            lead(data.wrong && data.rows.causes[0]);
        });
    }

    // On Flower's page of a task: where the task comes from.
    const task = document.querySelector("#task-page #taskid");
    if (task) {
        read(`${badge.dataset.origin}?id=${encodeURIComponent(task.textContent)}`, data => {
            for (const {title, url, text} of data.places) {
                const link = Object.assign(document.createElement("a"), {href: url, textContent: text});
                const line = document.createElement("p");
                line.append(`${title}: `, link);
                task.after(line);
            }
        });
    }

    if (window.pecker && document.getElementById("causes")) {
        pecker.badge = show;     // the page Now asks more often
    } else {
        ask();
        setInterval(ask, EVERY);
        document.addEventListener("visibilitychange", ask);
    }
})();
