"""Names that a misspelt one may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Return "; did you mean 'x'?" with at most three known names, or "".

    ``cutoff``: how like they must be; higher where all names begin alike.
    """
    close = get_close_matches(name, {*known}, n=3, cutoff=cutoff)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""
