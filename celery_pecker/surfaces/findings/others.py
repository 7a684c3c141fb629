"""What other packages find, by their entry points ``celery_pecker.findings``."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, NamedTuple

from celery_pecker.kernel import user_code
from celery_pecker.surfaces.findings.model import Finding
from celery_pecker.surfaces.views.model import Act

if TYPE_CHECKING:
    from celery_pecker.surfaces.findings.project import Project

GROUP = "celery_pecker.findings"


class Finder(NamedTuple):
    """What a package looks at, in bounded time."""

    examine: "Callable[[Project], Iterable[Finding]]"
    """Yields what is wrong."""
    in_tables: bool
    """It asks the project's database: where that gives no answer it is left out, and
    what it raises says so."""
    acts: Sequence[Act] = ()
    """What ends its findings, done to the project."""


@cache
def finders() -> Sequence[Finder]:
    """Return those of installed packages; one that cannot be read is left out."""
    found = [
        user_code.call(f"reading findings {point.value}", None, point.load)
        for point in entry_points(group=GROUP)
    ]
    return [one for one in found if one is not None]


def examine(project: "Project", *, in_tables: bool) -> Iterator[Finding]:
    """Yield what others find in the tables, or elsewhere."""
    for finder in finders():
        if finder.in_tables is in_tables:
            yield from finder.examine(project)
