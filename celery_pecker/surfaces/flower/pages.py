"""What a page is, and which pages there are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from celery import Celery

from celery_pecker.kernel import user_code
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured, PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.flower.upcoming import Upcoming
from celery_pecker.surfaces.views.model import Done, View

FOLDER = Path(__file__).parent
HOSTS = "pecker_hosts"
"""Where Flower's settings say which names it has."""
READ_ONLY = "pecker_read_only"
"""Where Flower's settings say whether something can be done on our pages."""


class Unreadable(PeckerError):
    """What a page shows cannot be read; the message says why, and what to mend."""


class Refused(PeckerError):
    """A form was not accepted, and nothing was written; the message says why."""

    def __init__(self, message: str, *, status: int = 422, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status: 422 for a wrong field, 409 after a concurrent edit."""
        self.more = more
        """What the page's script gets beside the message, as JSON."""


def always(app: Celery) -> bool:
    """Return True: each app has the page."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a page reads from, on the thread that it was given."""

    app: Celery
    database: Database
    upcoming: Upcoming
    settings: Settings


PLACE = "outbox"
"""What chooses a database in the address of a page that has several."""
NO_CHOICE = {"after", "descending", "order", "page", "trail"}
"""What an address says of pages, and not of which rows are chosen."""
Query = Mapping[str, str]
"""What stands behind the question mark of an address; the last of each name."""
Read = Callable[[Any, Query], "dict[str, Any] | None"]
"""Given a `Source`, or what the page opens instead."""


class Origin(NamedTuple):
    """What a task of Celery's comes from, or waits for."""

    query: Query
    """What stands in the address of the page that shows it."""
    text: str


Finds = Callable[[Any, str, str], "Origin | None"]
"""Given what the page reads from, and a task's id and name; None: it knows none."""
Names = Sequence[str] | None
"""Keys of rows; None: all that the address leaves."""
Does = Callable[[Any, Names, Query, str, str], Done]
"""Given what the page reads from, rows, what stands in the address, the user, and what
was typed."""
Fields = Mapping[str, str]
"""What was typed into a form, by the names of its fields."""


class Asked(NamedTuple):
    """What is to be done, to what, and by whom."""

    act: str
    names: Names
    query: Query
    by: str
    fields: Fields

    @property
    def subject(self) -> str:
        """Return what it is done to: names, or what has chosen the rows."""
        if self.names is not None:
            return ", ".join(self.names)
        keys = sorted({*self.query} - NO_CHOICE)
        return "all " + ", ".join(f"{key} {self.query[key]}" for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Something that can be done with what was typed into a form of a page."""

    does: Callable[[Source, str, str, Fields], dict[str, Any]]
    """Called with a source, a name, the user and the fields, on a thread. It raises
    `Refused` for what is not accepted."""
    writes: bool = True
    """Whether it changes anything: a preview does not."""
    undo: bool = False
    """Whether it may wait for some seconds, in which it can be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its address, what it shows, what can be done on it."""

    name: str
    """One word for it, that no other page has."""
    title: str
    url: str
    """Where it is: ``/schedules``; its data ``/schedules/data``, its actions
    ``/schedules/act``."""
    template: str
    """A Tornado template in ``templates`` of its folder."""
    read: Read
    """What it shows, as JSON; on a thread. None: there is no such thing (404)."""
    view: View | None = None
    """What it renders, if it is the page of a view."""
    does: Mapping[str, Does] = field(default_factory=dict)
    """What can be done to rows of its view, on a thread."""
    forms: Mapping[str, Form] = field(default_factory=dict)
    """What can be done with fields that were filled in."""
    counts: bool = False
    """Whether its entry in the menu says how much is `wrong`, on each page."""
    under: str = ""
    """The page in whose part of the menu it lies; none: it has its own."""
    folder: Path = FOLDER
    """Where its ``templates`` and ``static`` lie."""
    opens: Callable[[Celery], Any] | None = None
    """What it reads from instead of our tables, made once for an app; its `read` may
    be called by several threads at once."""
    places: Callable[[Celery], Mapping[str, Settings]] | None = None
    """Databases by name, of which ``?outbox=`` in its address chooses one; the first is
    read where it names none."""
    shown: Callable[[Celery], bool] = always
    """Whether the menu of an app's Flower has it. Must not wait for a server."""
    finds: Finds | None = None
    """Whether a task of Celery's comes from something that it shows."""
    figures: Callable[[Celery], Iterable[Any]] | None = None
    """Metrics that it adds to Flower's ``/metrics``; on a thread of its own."""
    unread: str = "The schedules cannot be read"
    """The heading above the reason when it cannot be shown."""
    comfort: str = (
        "This says nothing about the schedules themselves: replicas that reach the"
        " database go on."
    )
    """The text below the reason."""

    def act_name(self, act: str) -> str:
        """Return what the audit calls an act: ``outbox drop``."""
        return f"{self.under or self.name} {act}"

    @property
    def waiting(self) -> set[str]:
        """The acts that may wait for some seconds, in which they can be taken back."""
        acts = self.view.acts if self.view else {}
        of_rows = {name for name, (act, _) in acts.items() if act.undo}
        return of_rows | {name for name, form in self.forms.items() if form.undo}

    def do(self, source: Source, asked: Asked) -> dict[str, Any]:
        """Do something that one of its forms or its view has; return what is said."""
        act, names, query, by, fields = asked
        if (form := self.forms.get(act)) is not None:
            return form.does(source, ", ".join(names or ()), by, fields)
        done = self.does[act](source, names, query, by, fields.get("typed", ""))
        message = " ".join([*done.said, *done.refused])
        return {"message": message, "refused": len(done.refused)}

    @property
    def tornado(self) -> str:
        """Its name for ``reverse_url``."""
        return f"pecker-{self.name}"

    @property
    def files(self) -> str:
        """The name of its static files for ``reverse_url``."""
        return f"pecker-{self.name}-static"

    @property
    def tab(self) -> str:
        """What Flower's navigation bar calls the part that is lit."""
        return f"pecker-{self.under or self.name}"


_pages: dict[str, Page] = {}


def register(page: Page) -> None:
    """Have ``install`` add the page to Flower."""
    known = _pages.get(page.name)
    if known is not None and known != page:
        raise Misconfigured(
            f"two pages are called {page.name!r}: at {known.url} and at {page.url};"
            " each needs a name of its own"
        )
    _pages[page.name] = page


def shown(name: str, app: Celery) -> bool:
    """Return whether the menu of an app's Flower has the page of that name."""
    return user_code.call(f"asking for the page {name}", False, _pages[name].shown, app)


def registered() -> tuple[Page, ...]:
    """Return the pages, in the order of the menu."""
    return tuple(_pages.values())
