"""Count the lines of the three packages: without blanks, comments and docstrings.

``make size`` prints a table by room. `--total` prints the totals only. The counts say
how much there is to read; no test holds them to a number.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("celery_pecker", "celery_sharding", "throttle")
BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
BLOCK = re.compile(r"/\*.*?\*/", re.DOTALL)
KINDS = {".js": "//", ".sql": "--", ".css": None, ".html": None, ".lua": "--"}
"""Other languages, with what begins a comment that ends with its line."""


def python_lines(source: str) -> int:
    """Return how many lines of a module hold code."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BLANK:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # A text that stands alone documents what is above it, also below a field.
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                code.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(code)


def other_lines(source: str, comment: str | None) -> int:
    """Return how many lines of another language are neither blank nor a comment."""
    # A statement's label stands in a comment and counts: it names the statement.
    kept = BLOCK.sub(lambda found: "label" if "label" in found[0] else "", source)
    lines = (line.strip() for line in kept.splitlines())
    return sum(
        bool(line) and not (comment and line.startswith(comment)) for line in lines
    )


def main() -> None:
    """Print lines and files of each room, then the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", action="store_true", help="the totals only")
    only_totals = parser.parse_args().total
    say = partial(print, flush=True)
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    rooms: dict[str, list[int]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            kind = path.suffix
            if not path.is_file() or kind not in {".py", *KINDS}:
                continue
            source = path.read_text(encoding="utf-8")
            count = (
                python_lines(source)
                if kind == ".py"
                else other_lines(source, KINDS[kind])
            )
            lines[kind] += count
            files[kind] += 1
            if kind == ".py":
                parts = path.relative_to(ROOT).parts
                room = rooms.setdefault(
                    "/".join(parts[: min(2, len(parts) - 1)]), [0, 0]
                )
                room[0] += count
                room[1] += 1
    if not only_totals:
        for name, (count, modules) in sorted(rooms.items()):
            say(f"{name:<36}{count:>8,}{modules:>6} modules")
        say("")
    for kind in (".py", *KINDS):
        say(f"{kind[1:]:<36}{lines[kind]:>8,}{files[kind]:>6} files")


if __name__ == "__main__":
    main()
