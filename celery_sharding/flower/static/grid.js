// The shards of a layer as a grid on a canvas: 10,000 places are drawn in milliseconds.
pecker.grid = (function () {
    "use strict";

    const {el, count} = pecker;
    const LETTERS = "abcdefghij";
    // Of each letter: a colour of pecker.css, how strong, and the mark of a slot where there is room.
    const LOOKS = {
        a: ["--p-done", 1, ""], b: ["--p-idle", .22, ""], c: ["--p-idle", .55, ""],
        d: ["--p-calm", .5, ""], e: ["--p-calm", 1, "running"], f: ["--p-slow", .7, "missed"],
        g: ["--p-slow", 1, "missed"], h: ["--p-refused", 1, "missed"], i: ["--p-bad", 1, "bad"],
        j: ["--bs-body-color", .85, "bad"],
    };
    const DIM = .12;

    // "a500bc3" as a place for each: [0, 0, …, 1, 2, 2, 2].
    function parse(compact) {
        let length = 0;
        const runs = [];
        for (const [, letter, many] of compact.matchAll(/([a-j])(\d*)/g)) {
            const times = many ? Number(many) : 1;
            runs.push([LETTERS.indexOf(letter), times]);
            length += times;
        }
        const places = new Uint8Array(length);
        let at = 0;
        for (const [code, times] of runs) {
            places.fill(code, at, at + times);
            at += times;
        }
        return places;
    }

    // Few shards are large, many are small: all of a layer are seen at once.
    function sizeOf(many) {
        return many <= 300 ? 18 : many <= 1500 ? 12 : many <= 5000 ? 9 : 7;
    }

    function colours(canvas) {
        const style = getComputedStyle(canvas);
        return Object.values(LOOKS).map(([name, strong, kind]) => [style.getPropertyValue(name).trim() || "#888", strong,
            kind && new Path2D(pecker.pictures.KINDS[kind][1])]);
    }

    // A grid; `point(number, letter)` gets what lies under the pointer, `choose(number)` what was clicked.
    function make(label, point, choose) {
        const canvas = el("canvas", {class: "shard-grid", tabindex: "0", role: "application",
            "aria-roledescription": "grid of shards", "aria-describedby": "inspect"});
        let lines = [], places = 0, size = 18, columns = 1, chosen = null, only = null, drawn = "", per = 1, here = 0;

        function show(lists, sharing, picked, kept) {
            const key = JSON.stringify([lists, sharing, picked, kept]);
            if (key === drawn) { return; }
            lines = lists.map(([first, compact]) => ({first, codes: parse(compact)}));
            places = lines.reduce((sum, line) => sum + line.codes.length, 0);
            [drawn, per, chosen, only] = [key, sharing, picked, kept];
            canvas.setAttribute("aria-label", `${label}: ${count(places)} places; arrow keys move, Enter shows one`);
            draw();
        }

        function draw() {
            const wide = canvas.parentElement ? canvas.parentElement.clientWidth : 0;
            if (!wide) { return; }
            size = sizeOf(places);
            columns = Math.max(Math.floor(wide / size), 1);
            const rows = Math.max(Math.ceil(places / columns), 1), ratio = window.devicePixelRatio || 1;
            canvas.width = columns * size * ratio;
            canvas.height = rows * size * ratio;
            canvas.style.width = columns * size + "px";
            canvas.style.height = rows * size + "px";
            const pen = canvas.getContext("2d");
            pen.scale(ratio, ratio);
            const looks = colours(canvas), mark = getComputedStyle(canvas).getPropertyValue("--p-mark").trim();
            // A colour after the other: changing it is what takes time.
            looks.forEach(([colour, strong, shape], code) => {
                pen.fillStyle = colour;
                pen.globalAlpha = only === null || only === code ? strong : strong * DIM;
                let nth = 0;
                for (const line of lines) {
                    for (const one of line.codes) {
                        if (one === code) {
                            const x = nth % columns * size, y = Math.floor(nth / columns) * size;
                            pen.fillRect(x, y, size - 1, size - 1);
                            if (shape && size >= 9) { sign(pen, shape, x, y, size - 1, mark); pen.fillStyle = colour; }
                        }
                        nth += 1;
                    }
                }
            });
            pen.globalAlpha = 1;
            const nth = chosen === null ? -1 : placeOf(chosen);
            if (nth >= 0) {
                pen.strokeStyle = getComputedStyle(canvas).color;
                pen.lineWidth = 2;
                pen.strokeRect(nth % columns * size + .5, Math.floor(nth / columns) * size + .5, size - 2, size - 2);
            }
        }

        function sign(pen, shape, x, y, side, colour) {
            pen.save();
            pen.fillStyle = colour;
            pen.translate(x, y);
            pen.scale(side, side);
            pen.fill(shape);
            pen.restore();
        }

        // The first shard of a place and the letter of it; null where there is none.
        function at(nth) {
            for (const line of lines) {
                if (nth < line.codes.length) { return nth < 0 ? null : [line.first + nth * per, LETTERS[line.codes[nth]]]; }
                nth -= line.codes.length;
            }
            return null;
        }

        function placeOf(number) {
            let before = 0;
            for (const line of lines) {
                const nth = Math.floor((number - line.first) / per);
                if (nth >= 0 && nth < line.codes.length) { return before + nth; }
                before += line.codes.length;
            }
            return -1;
        }

        function under(event) {
            const column = Math.floor(event.offsetX / size);
            return column < columns ? Math.floor(event.offsetY / size) * columns + column : -1;
        }

        canvas.addEventListener("pointermove", event => { here = under(event); point(at(here)); });
        canvas.addEventListener("pointerleave", () => point(null));
        canvas.addEventListener("click", event => { const found = at(under(event)); if (found) { choose(found[0]); } });
        canvas.addEventListener("keydown", event => {
            const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns}[event.key];
            if (by !== undefined) {
                event.preventDefault();
                here = Math.min(Math.max(here + by, 0), places - 1);
                point(at(here));
            } else if (event.key === "Enter" && at(here)) {
                choose(at(here)[0]);
            }
        });
        new ResizeObserver(() => draw()).observe(canvas);
        new MutationObserver(draw).observe(document.documentElement, {attributes: true, attributeFilter: ["data-bs-theme"]});
        window.addEventListener("resize", draw);
        return {canvas, show, draw};
    }

    // A place of a letter, for the legend.
    function swatch(letter) {
        const [colour, strong] = LOOKS[letter];
        const made = el("i", {class: "shard-swatch"});
        made.style.background = `var(${colour})`;
        made.style.opacity = strong;
        return made;
    }

    return {make, swatch, parse, LETTERS};
})();
