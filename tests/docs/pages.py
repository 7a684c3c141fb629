"""Pages of the documentation as scenarios: their code blocks, in order, for real.

What is to be done with a block stands in a comment on the line before it:

    <!-- file: tasks.py -->        the block is this file
    <!-- run -->                   the block is run, by its language: sh, python, sql
    <!-- background: TEXT -->      it is started, and has said TEXT before we go on
    <!-- stop -->                  (without a block) the background is ended
    <!-- output -->                the last command said these lines; … is anything
    <!-- not run: REASON -->       for the reader only, and why
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_COMMENT = re.compile(r"^<!-- (?P<verb>[a-z ]+?)(?:: (?P<rest>.+?))? -->$")
_FENCE = re.compile(r"^```(?P<language>\w+)$")
TRIED_ELSEWHERE = {
    "docs/tutorial/demo.md",  # tests/smoke
    "docs/maintainers/statements.md",  # test_references
}
VERBS = frozenset({"file", "run", "background", "stop", "output", "not run"})
NEED_A_WORD = frozenset({"file", "background", "not run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One block of a page, and what is to be done with it."""

    line: int
    verb: str
    """One of VERBS; empty where the page does not say."""
    rest: str = ""
    language: str = ""
    text: str = ""


def steps(page: str) -> Iterator[Step]:
    """Give the steps of a page, in its order."""
    lines = page.splitlines()
    said: Step | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        comment = _COMMENT.match(line)
        fence = _FENCE.match(line)
        if comment and comment["verb"] in VERBS:
            said = Step(line=at, verb=comment["verb"], rest=comment["rest"] or "")
            if said.verb == "stop":
                yield said
                said = None
        elif fence:
            end = lines.index("```", at)
            yield Step(
                line=at,
                verb=said.verb if said else "",
                rest=said.rest if said else "",
                language=fence["language"],
                text="\n".join(lines[at:end]) + "\n",
            )
            said, at = None, end + 1
        elif line.strip():
            said = None


def scenarios() -> list[str]:
    """Return the pages whose blocks are run: all but the explanations."""
    docs = ROOT / "docs"
    found = [ROOT / "README.md"]
    for part in ("tutorial", "how-to", "reference"):
        found += docs.glob(f"{part}/**/*.md")
    pages = {
        str(path.relative_to(ROOT)) for path in found if "\n```" in path.read_text()
    }
    return sorted(pages - TRIED_ELSEWHERE)
