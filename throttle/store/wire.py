"""The form in which processes and the service talk: JSON, version 1.

The version stands in the path (``/v1/``) and in each answer (``"v": 1``). Within it
fields are only added: a reader skips what it does not know, and what is missing is
zero or nothing. An amount is ``[operations, seconds, rows]``, ``null`` where there is
no bound.

Each type has one shape, by which it is both written and read. What a worker reports of
itself has the same shape in Redis.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from throttle.model import (
    NOTHING,
    TICK,
    Amount,
    DatabaseReport,
    Estimator,
    ExchangeAnswer,
    Holder,
    Holding,
    Report,
    Sample,
    Seen,
    View,
)
from throttle.store import fields

VERSION = 1
OLDEST = 1e9
PARTS = 5
"""Of a sample: age, operations, seconds, rows, span."""
KEPT = 10.0
"""Seconds for which a process keeps its samples, and the store what it counted."""
REPORT_SPAN = 300.0
"""Seconds that the samples of a report cover together, at most. Redis spreads each over
buckets of 100 ms and does nothing else meanwhile: 300 s take it some 40 ms."""
DATABASES = 500
"""In a report, at most: each takes Redis 0.15 ms, and a process counts 127 at most."""


def dumped(document: Mapping[str, object]) -> bytes:
    """Return a document's bytes; what UTF-8 has not is a question mark."""
    return json.dumps(
        document, allow_nan=False, ensure_ascii=False, separators=(",", ":")
    ).encode(errors="replace")


# Shapes

Shaped = TypeVar("Shaped")


class Codec(NamedTuple):
    """How a field of a type is read, what it is where it is missing, how written."""

    read: Callable[[str, Any], Any]
    missing: object = None
    """None: it must be there, where `read` does not take None."""
    write: Callable[[Any], object] = lambda value: value


class Shape(Generic[Shaped]):
    """A type as the wire has it: an object with a key for each field."""

    def __init__(self, kind: type[Shaped], **codecs: Codec) -> None:
        self._kind = kind
        self._codecs = codecs

    def written(self, value: Shaped) -> dict[str, object]:
        """Return a value as the wire has it."""
        return {
            name: codec.write(getattr(value, name))
            for name, codec in self._codecs.items()
        }

    def read(self, field: str, value: object) -> Shaped:
        """Return the value that an object is, or raise Malformed."""
        body = fields.mapping(field, value)
        within = f"{field}." if field else ""
        return self._kind(
            **{
                name: codec.read(f"{within}{name}", body.get(name, codec.missing))
                for name, codec in self._codecs.items()
            }
        )

    @property
    def each(self) -> Codec:
        """Return how an object is read and written whose values have this shape."""
        return Codec(
            lambda field, value: fields.each(field, value, self.read),
            write=lambda all_: {name: self.written(one) for name, one in all_.items()},
        )


# What a process tells


def covered(span: float) -> float:
    """Return a sample's part of `REPORT_SPAN`: it costs a bucket at least."""
    return min(max(span, TICK), KEPT)


def _samples(field: str, value: object) -> tuple[Sample, ...]:
    return tuple(_sample(field, one) for one in fields.listed(field, value))


def _sample(field: str, value: object) -> Sample:
    age, operations, seconds, rows, span = fields.listed(field, value, PARTS)
    return Sample(
        fields.number(f"{field} (age)", age, most=OLDEST),
        fields.amount(field, [operations, seconds, rows]),
        fields.number(f"{field} (span)", span, most=OLDEST),
    )


def _pair(field: str, value: object) -> tuple[int, int]:
    held, admitted = fields.listed(field, value, 2)
    return fields.whole(field, held), fields.whole(field, admitted)


def _databases(field: str, value: object) -> dict[str, DatabaseReport]:
    return {
        fields.database(field, name): DATABASE_REPORT.read(f"{field}.{name}", one)
        for name, one in fields.mapping(field, value, most=DATABASES).items()
    }


NUMBER = Codec(fields.number)
COUNT = Codec(fields.whole, 0)
NAME = partial(fields.text, empty=True)
HOLDING = Shape(
    Holding,
    want=NUMBER,
    limit=Codec(fields.bound, write=fields.amount_out),
    oldest=Codec(fields.number, 0),
    turn=Codec(fields.number, 0),
    held=COUNT,
    held_bytes=COUNT,
    parked=COUNT,
    admitted=COUNT,
    would_hold=COUNT,
    dropped=COUNT,
    tenants=Codec(partial(fields.each, read=_pair), {}),
)
DATABASE_REPORT = Shape(
    DatabaseReport,
    samples=Codec(
        _samples,
        [],
        lambda samples: [[one.age, *one.amount, one.span] for one in samples],
    ),
    holding=Codec(
        lambda field, value: None if value is None else HOLDING.read(field, value),
        write=lambda holding: holding and HOLDING.written(holding),
    ),
)
REPORT = Shape(
    Report,
    holder=Codec(fields.text),
    name=Codec(NAME, "", lambda name: name[: fields.LONGEST]),
    number=COUNT,
    answered=Codec(lambda _, value: value is True, True),
    databases=Codec(_databases, write=DATABASE_REPORT.each.write),
)


def report_out(report: Report) -> dict[str, object]:
    """Return a report as the wire has it."""
    return {"v": VERSION, **REPORT.written(report)}


def report_in(body: Mapping[str, Any]) -> Report:
    """Return the report that a document is, or raise Malformed."""
    report = REPORT.read("", body)
    samples = [one for part in report.databases.values() for one in part.samples]
    span = round(sum(covered(one.span) for one in samples), 3)
    if span > REPORT_SPAN:
        most = f"samples of {REPORT_SPAN:g} s together, each {TICK:g} s at least"
        fields.wrong("databases", most, f"{len(samples)} of {span:g} s")
    return report


# What it hears


def _estimates(field: str, value: object) -> dict[Estimator, Amount]:
    known = fields.each(field, value, fields.amount)
    return {kind: known.get(kind, NOTHING) for kind in Estimator}


def _share(field: str, value: object) -> float:
    # no part is more than the whole, whatever a service says
    return min(fields.number(field, value), 1.0)


ESTIMATES = Codec(
    _estimates,
    write=lambda all_: {kind: fields.amount_out(one) for kind, one in all_.items()},
)
SEEN = Shape(
    Seen,
    traffic=ESTIMATES,
    outside=ESTIMATES,
    share=Codec(_share, 0),
    factor=Codec(fields.number, 1),
    holders=COUNT,
    turn=Codec(lambda _, value: None if value is None else value is True),
)
ANSWER = Shape(ExchangeAnswer, at=NUMBER, databases=SEEN.each)


def answer_out(answer: ExchangeAnswer) -> dict[str, object]:
    """Return an answer as the wire has it."""
    return {"v": VERSION, **ANSWER.written(answer)}


def answer_in(body: Mapping[str, Any]) -> ExchangeAnswer:
    """Return the answer that a document is, or raise Malformed."""
    _check_version(body)
    return ANSWER.read("", body)


# What people see

HOLDER = Shape(
    Holder,
    name=Codec(NAME),
    share=NUMBER,
    holding=Codec(HOLDING.read, write=HOLDING.written),
)


def view_out(view: View) -> dict[str, object]:
    """Return all that is known of a database as the wire has it."""
    return {
        **SEEN.written(view.seen),
        "signal": view.signal,
        "workers": HOLDER.each.write(view.holders),
    }


def views_in(body: Mapping[str, Any]) -> dict[str, View]:
    """Return what a document says of all databases, or raise Malformed."""
    _check_version(body)
    return fields.each("databases", body.get("databases"), _view)


def _view(field: str, value: object) -> View:
    body = fields.mapping(field, value)
    signal = body.get("signal", "")
    if not isinstance(signal, str):
        fields.wrong(f"{field}.signal", "a string", signal)
    return View(
        seen=SEEN.read(field, body),
        holders=HOLDER.each.read(f"{field}.workers", body.get("workers", {})),
        signal=signal,
    )


def _check_version(body: Mapping[str, Any]) -> None:
    if body.get("v") != VERSION:
        fields.wrong("v", str(VERSION), body.get("v"))
