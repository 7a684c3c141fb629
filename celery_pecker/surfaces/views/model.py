"""What a view is made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import DatabaseUnavailable, InvalidField, PeckerError
from celery_pecker.surfaces.views.phrases import count, plural

Query = Mapping[str, str]
"""What chooses rows: the values of filters by their keys."""


US_DIGITS = 17
DIGITS = 6
"""Of a page's number, at most: Python refuses to read thousands."""
ID_DIGITS = 18
"""Of a number of the database, at most."""
MINUTES = {"m": 1, "h": 60, "d": 1_440}


def number(text: str, digits: int = DIGITS) -> int | None:
    """Return a whole number of an address; None: there is none."""
    sign, plain = ("-", text[1:digits]) if text.startswith("-") else ("", text[:digits])
    return int(sign + plain) if plain.isascii() and plain.isdigit() else None


def pair(text: str, digits: int = ID_DIGITS) -> tuple[int, int] | None:
    """Return two whole numbers of an address, 3.17; None: there are none."""
    match [number(one, digits) for one in text.split(".")]:
        case [int(first), int(second)]:
            return first, second
    return None


def length_of(text: str, name: str = "since") -> timedelta:
    """Return a length of time that is written like 90m, 24h or 30d."""
    digits, unit = text[:-1], MINUTES.get(text[-1:], 0)
    minutes = unit * int(digits[:6]) if digits.isascii() and digits.isdigit() else 0
    if not minutes:
        raise InvalidField(
            f"{name}: {text!r} is no length of time such as 90m, 24h or 30d", field=name
        )
    return timedelta(minutes=minutes)


def until(query: Query, now_us: int) -> datetime | None:
    """Return by when rows must have been there: one that waited is done to no others.

    It is that of all rows that match, whose address had the instant in microseconds,
    and so much earlier as they are to be old.
    """
    us, age = number(query.get("until", ""), US_DIGITS), query.get(AGE.key)
    if age:
        return from_us(us or now_us) - length_of(age, AGE.key)
    return None if us is None else from_us(us)


def skipped(query: Query, rows: int) -> int:
    """Return how many rows come before the page that an address asks for."""
    return (max(number(query.get("page", "")) or 1, 1) - 1) * rows


_Figures = Literal["instant", "duration", "count", "rate", "figure", "part"]
Kind = Literal["text", "name", "state", "error", "folded", _Figures]
"""What a column holds, which says how it is written.

name       what the row is called: it stays on a narrow screen, its `notes` below it
error      on a narrow screen it stands below the row's name
duration   seconds; None: there is none
rate       a second; None: it is not known
figure     words that stand at the right, as numbers do
part       words, and parts of a whole, 0 … 1: what is well, then what is not
folded     a long text, behind a word that opens it
"""
HIDDEN = "hidden (pecker_show_arguments)"
"""Stands where people are not shown what a task or an observer was called with."""
NUMBERS = ("duration", "count", "rate", "figure")
Width = Literal["phone", "tablet", "desk", "wide", "aside"]
"""Which screens show a column: every one, those from 576, 768 or 1,350 px on; aside: a
page has it as a note or hint of others, and a command not at all."""
Tone = Literal["success", "active", "warning", "danger"]
"""How a figure stands: well, busy, it waits for people, badly."""
FEW = 5
"""Rows that are named where there are more."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    key: str
    """The field of the row."""
    label: str
    kind: Kind = "text"
    value: Callable[[Any], Any] | None = None
    """Return what stands there, of a row; None: the field of this name."""
    notes: tuple[str, ...] = ()
    """Fields that a page writes below the value; a command has a column for each."""
    hint: str = ""
    """The field that a page shows when a pointer rests on the value."""
    width: Width = "phone"
    chooses: str = ""
    """The filter that is set to this value by a click on it."""
    opens: str = ""
    """The page of the row: its address behind that of this page, but for the key."""
    link: str = ""
    """The field that has the address of its page, behind that of Flower."""
    alert: bool = False
    """Whether any number but 0 is to be noticed."""
    order: str = ""
    """What its head sorts the rows by."""

    @property
    def number(self) -> bool:
        """Whether values stand at the right of their column."""
        return self.kind in NUMBERS

    def of(self, row: Any) -> Any:
        """Return the value that a row has in this column."""
        return (self.value or attrgetter(self.key))(row)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that people may do to rows: a button, an action, a command."""

    name: str
    label: str
    call: Callable[..., object]
    """Called with what the view reads from (in Django: what stores), the row's key, the
    user and, where it `types`, what was typed; returns the answer that `says` tells.
    Raises what refuses it."""
    says: str | Mapping[Any, str]
    """What was done, to {what}; by the answer, or with {answer} in it."""
    asks: str = ""
    """What a dialog says before it: where it cannot be taken back."""
    undo: bool = False
    """Whether a page has it wait for some seconds, in which it can be taken back; then
    it asks only where it is done to several rows."""
    types: str = ""
    """What is typed into the dialog, as its label; empty: nothing."""
    usual: str = ""
    """What stands there at first."""
    every: Callable[[Any, Query, str], int] | None = None
    """Does it to all rows that filters leave, and returns to how many; None: it is done
    to rows that were chosen one by one."""
    permission: Literal["change", "delete"] = "change"
    """Which right of Django's it needs."""
    states: tuple[str, ...] | None = None
    """Of rows that have it; None: all."""
    when: Callable[[Any], bool] | None = None
    """Whether a row in such a state has it; None: each."""

    def said(self, what: str, answer: object = None) -> str:
        """Return the sentence of what was done."""
        says = self.says if isinstance(self.says, str) else self.says[answer]
        return says.format(what=what, answer=answer)

    def do(
        self,
        source: Any,
        keys: Sequence[str],
        user: str,
        table: Table,
        typed: str = "",
    ) -> Done:
        """Do it to rows by their keys; of several, one that refuses stops no other.

        Raises:
            PeckerError: the only row refuses it, or the database is away.
        """
        answers: dict[object, list[str]] = {}
        refused = []
        for key in keys:
            try:
                more = (typed,) if self.types else ()
                answer = self.call(source, key, user, *more)
            except PeckerError as error:
                if len(keys) == 1 or isinstance(error, DatabaseUnavailable):
                    raise
                refused.append(f"Not done for {table.named([key])}: {error}")
            else:
                answers.setdefault(answer, []).append(key)
        said = [self.said(table.named(done), one) for one, done in answers.items()]
        return Done(said, refused)


class Done(NamedTuple):
    """What came of an act, in sentences."""

    said: Sequence[str]
    refused: Sequence[str]


@dataclass(frozen=True, slots=True)
class Filter:
    """A choice of rows, kept in the address of a page; an option of a command."""

    key: str
    label: str
    kind: Literal["name", "search", "choice", "flag", "age"] = "name"
    """name: the whole of a word, which a click on it chooses; search: part of a text;
    choice: one of `choices`; age: so long at least."""
    choices: tuple[str, ...] = ()
    known: Callable[[Shown], Iterable[str | None]] | None = None
    """Return what is offered to who types."""


def of_rows(table: str, field: str) -> Callable[[Shown], Iterable[str | None]]:
    """Return what offers words of a field of the rows that are shown."""
    return lambda shown: [getattr(row, field) for row in shown.rows[table]]


AGE = Filter("older_than", "Older than: 5m, 2h, 3d", "age")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one class, under columns."""

    name: str
    title: str
    key: str
    """The field that no two rows share."""
    columns: tuple[Column, ...]
    empty: str = ""
    """What stands there when there are no rows."""
    state: str = "state"
    states: Mapping[str, str] = field(default_factory=dict)
    """The shape of each state in pictures, which differ in more than colour."""
    means: Mapping[str, str] = field(default_factory=dict)
    """What a state says, where its name is not all."""
    acts: tuple[Act, ...] = ()
    filters: tuple[Filter, ...] = ()
    paged: Literal["", "numbers", "behind"] = ""
    """How it is read in pages: by their number, or each behind the last row of the one
    before (`Shown.next`), which costs the same however far it is."""
    headed: bool = False
    """Whether a page writes the title above it."""
    by_hand: bool = False
    """Whether a page draws it in its own way."""
    order: str = ""
    """What sorts the rows until a head is clicked."""
    nouns: tuple[str, str] = ("row", "rows")
    """What one row is, and what some are."""

    @property
    def fields(self) -> dict[str, Column]:
        """Return what a page needs of each row, by name."""
        fields = {column.key: column for column in self.columns}
        names = [self.key, *(one.link for one in self.columns if one.link)]
        names += [note for one in self.columns for note in one.notes]
        for name in [*names, self.state] if self.states else names:
            fields.setdefault(name, Column(name, name.replace("_", " ")))
        return fields

    @property
    def shown(self) -> list[Column]:
        """Return the columns that stand for themselves."""
        return [column for column in self.columns if column.width != "aside"]

    def asked(self, query: Query) -> dict[str, Any]:
        """Return what each filter asks for, as a database can be; None: nothing."""
        keys = [one.key for one in self.filters]
        return {key: query.get(key, "").replace("\0", "") or None for key in keys}

    def named(self, keys: Sequence[str]) -> str:
        """Return what rows are called; of many the first."""
        keys = [key.replace("\0", " ") for key in keys]
        if len(keys) == 1:
            return keys[0] if self.key == "name" else f"{self.nouns[0]} {keys[0]}"
        more = f" and {count(len(keys) - FEW)} more" if len(keys) > FEW else ""
        return f"{count(len(keys))} {self.nouns[1]}: {', '.join(keys[:FEW])}{more}"

    def offers(self, row: Any) -> list[str]:
        """Return what may be done to a row, by name."""
        state = self.fields[self.state].of(row) if self.acts and self.states else ""
        return [
            act.name
            for act in self.acts
            if (act.states is None or state in act.states)
            and (act.when is None or act.when(row))
        ]


class Card(NamedTuple):
    """A figure as people read it."""

    text: str
    note: str
    tone: Tone = "success"


def to_mend(number: int) -> Card:
    """Return the figure of what waits for people."""
    if not number:
        return Card("0", "none")
    return Card(count(number), "need attention", "warning")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that sums up: a card of a page."""

    key: str
    label: str
    read: Callable[[Any], Card]
    """Return it of the view's summary."""
    order: str = ""
    """What a click on it sorts all rows by."""


Samples = Iterable[tuple[Sequence[str], float]]
"""Values, each with those of its labels."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric: its samples are read from the view's summary."""

    name: str
    """Without ``celery_pecker_``; of a counter without ``_total``."""
    help: str
    samples: str | Callable[[Any], float | Samples]
    """Return its value (None: 0), or one for each row of labels; a text: the field."""
    labels: tuple[str, ...] = ()
    counter: bool = False

    def of(self, summary: Any) -> Samples:
        """Return each value with its labels."""
        read = self.samples
        value = (attrgetter(read) if isinstance(read, str) else read)(summary)
        return value if isinstance(value, Iterable) else [((), value or 0.0)]


@dataclass(frozen=True, slots=True)
class Each:
    """What makes measures that have a sample for each of some rows of a summary."""

    rows: str | Callable[[Any], Iterable[Any]]
    """The field of the summary that has them, or what gives them."""
    labels: Mapping[str, str]
    """Labels, with the field of a row that each of them shows."""

    def __call__(
        self,
        name: str,
        help_: str,
        value: str | Callable[[Any, Any], float | None],
        *,
        counter: bool = False,
    ) -> Measure:
        """Return the measure of a field, or of what is called with row and summary.

        A row of which that is None has no sample.
        """
        rows_of = attrgetter(self.rows) if isinstance(self.rows, str) else self.rows

        def samples(summary: Any) -> Samples:
            for row in rows_of(summary):
                number = (
                    attrgetter(value)(row)
                    if isinstance(value, str)
                    else value(row, summary)
                )
                if number is not None:
                    fields = self.labels.values()
                    yield [str(getattr(row, field)) for field in fields], number

        return Measure(name, help_, samples, (*self.labels,), counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a view shows at one moment."""

    now_us: int
    summary: Any
    """What figures and measures are made of."""
    rows: Mapping[str, Sequence[Any]]
    """Of each table, by its name."""
    total: int | None = None
    """How many rows the table with filters has on all of its pages; None: unknown."""
    size: int = 0
    """Rows of one page."""
    more: bool = False
    """Whether there are rows behind these."""
    next: str = ""
    """What `after` of an address is for them: the key of the last of these."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What is to say below tables, by their names."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What pictures need beside the rows, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One thing that people look at."""

    name: str
    title: str
    read: Callable[..., Shown | None]
    """Called with what the page reads from (our tables: the database) and what chooses
    rows; None: there is no such thing."""
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    measures: tuple[Measure, ...] = ()

    def table(self, name: str) -> Table:
        """Return a table by its name."""
        return next(one for one in self.tables if one.name == name)

    @property
    def acts(self) -> dict[str, tuple[Act, Table]]:
        """Return what may be done, by name, with the table of its rows."""
        return {act.name: (act, table) for table in self.tables for act in table.acts}

    def said(self, name: str, rows: int | str) -> str:
        """Return the sentence of what was done to a row of this name, or so many."""
        act, table = self.acts[name]
        return act.said(plural(rows, *table.nouns) if isinstance(rows, int) else rows)


class NoSuchRow(PeckerError, LookupError):
    """The row that something is to be done to does not exist any more."""
