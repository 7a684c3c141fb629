"""The form in which processes and the service talk: JSON, version 1.

The version stands in the path (``/v1/``) and in each answer (``"v": 1``). Within it
fields are only added: a reader skips what it does not know, and what is missing is
zero or nothing. An amount is ``[operations, seconds, rows]``, ``null`` where there is
no bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from throttle.model import (
    NOTHING,
    TICK,
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
COUNTS = ("held", "held_bytes", "parked", "admitted", "would_hold", "dropped")
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


# What a process tells


def report_out(report: Report) -> dict[str, object]:
    """Return a report as the wire has it."""
    return {
        "v": VERSION,
        "holder": report.holder,
        "name": report.name[: fields.LONGEST],
        "number": report.number,
        "answered": report.answered,
        "databases": {
            name: {
                "samples": [
                    [sample.age, *sample.amount, sample.span] for sample in part.samples
                ],
                "holding": part.holding and _holding_out(part.holding),
            }
            for name, part in report.databases.items()
        },
    }


def report_in(body: Mapping[str, Any]) -> Report:
    """Return the report that a document is, or raise Malformed."""
    holder = fields.text("holder", body.get("holder"))
    parts = fields.mapping("databases", body.get("databases"), most=DATABASES)
    databases = {
        fields.database("databases", name): _database_report(f"databases.{name}", part)
        for name, part in parts.items()
    }
    samples = [one for part in databases.values() for one in part.samples]
    span = round(sum(covered(one.span) for one in samples), 3)
    if span > REPORT_SPAN:
        most = f"samples of {REPORT_SPAN:g} s together, each {TICK:g} s at least"
        fields.wrong("databases", most, f"{len(samples)} of {span:g} s")
    return Report(
        holder=holder,
        name=fields.text("name", body.get("name", ""), empty=True),
        number=fields.whole("number", body.get("number", 0)),
        answered=body.get("answered", True) is True,
        databases=databases,
    )


def covered(span: float) -> float:
    """Return a sample's part of `REPORT_SPAN`: it costs a bucket at least."""
    return min(max(span, TICK), KEPT)


def _database_report(field: str, value: object) -> DatabaseReport:
    body = fields.mapping(field, value)
    holding = body.get("holding")
    samples = tuple(
        _sample(f"{field}.samples", one)
        for one in fields.listed(f"{field}.samples", body.get("samples", []))
    )
    return DatabaseReport(
        samples=samples,
        holding=None if holding is None else _holding(f"{field}.holding", holding),
    )


def _sample(field: str, value: object) -> Sample:
    age, operations, seconds, rows, span = fields.listed(field, value, PARTS)
    return Sample(
        fields.number(f"{field} (age)", age, most=OLDEST),
        fields.amount(field, [operations, seconds, rows]),
        fields.number(f"{field} (span)", span, most=OLDEST),
    )


def _holding_out(holding: Holding) -> dict[str, object]:
    return {
        "want": holding.want,
        "limit": fields.amount_out(holding.limit),
        "oldest": holding.oldest,
        "turn": holding.turn,
        **{name: getattr(holding, name) for name in COUNTS},
        "tenants": {name: list(counts) for name, counts in holding.tenants.items()},
    }


def _holding(field: str, value: object) -> Holding:
    body = fields.mapping(field, value)
    return Holding(
        want=fields.number(f"{field}.want", body.get("want")),
        limit=fields.bound(f"{field}.limit", body.get("limit")),
        oldest=fields.number(f"{field}.oldest", body.get("oldest", 0)),
        turn=fields.number(f"{field}.turn", body.get("turn", 0)),
        tenants=fields.each(f"{field}.tenants", body.get("tenants", {}), _pair),
        **{name: fields.whole(f"{field}.{name}", body.get(name, 0)) for name in COUNTS},
    )


def _pair(field: str, value: object) -> tuple[int, int]:
    held, admitted = fields.listed(field, value, 2)
    return fields.whole(field, held), fields.whole(field, admitted)


# What it hears


def answer_out(answer: ExchangeAnswer) -> dict[str, object]:
    """Return an answer as the wire has it."""
    return {
        "v": VERSION,
        "at": answer.at,
        "databases": {name: seen_out(one) for name, one in answer.databases.items()},
    }


def answer_in(body: Mapping[str, Any]) -> ExchangeAnswer:
    """Return the answer that a document is, or raise Malformed."""
    _check_version(body)
    return ExchangeAnswer(
        at=fields.number("at", body.get("at")),
        databases=fields.each("databases", body.get("databases"), _seen),
    )


def seen_out(seen: Seen) -> dict[str, object]:
    """Return what is known of a database's traffic as the wire has it."""
    return {
        "traffic": {kind: fields.amount_out(one) for kind, one in seen.traffic.items()},
        "outside": {kind: fields.amount_out(one) for kind, one in seen.outside.items()},
        "share": seen.share,
        "factor": seen.factor,
        "holders": seen.holders,
        "turn": seen.turn,
    }


def _seen(field: str, value: object) -> Seen:
    body = fields.mapping(field, value)
    traffic, outside = (
        {
            Estimator(kind): one
            for kind, one in fields.each(
                f"{field}.{name}", body.get(name), fields.amount
            ).items()
            if kind in list(Estimator)
        }
        for name in ("traffic", "outside")
    )
    nothing = dict.fromkeys(Estimator, NOTHING)
    return Seen(
        traffic=nothing | traffic,
        outside=nothing | outside,
        # no part is more than the whole, whatever a service says
        share=min(fields.number(f"{field}.share", body.get("share", 0)), 1.0),
        factor=fields.number(f"{field}.factor", body.get("factor", 1)),
        holders=fields.whole(f"{field}.holders", body.get("holders", 0)),
        turn=body.get("turn") is True if "turn" in body else None,
    )


# What people see


def view_out(view: View) -> dict[str, object]:
    """Return all that is known of a database as the wire has it."""
    return {
        **seen_out(view.seen),
        "signal": view.signal,
        "workers": {
            key: {
                "name": holder.name,
                "share": holder.share,
                "holding": _holding_out(holder.holding),
            }
            for key, holder in view.holders.items()
        },
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
        seen=_seen(field, body),
        holders=fields.each(f"{field}.workers", body.get("workers", {}), _holder),
        signal=signal,
    )


def _holder(field: str, value: object) -> Holder:
    body = fields.mapping(field, value)
    return Holder(
        name=fields.text(f"{field}.name", body.get("name"), empty=True),
        share=fields.number(f"{field}.share", body.get("share")),
        holding=_holding(f"{field}.holding", body.get("holding")),
    )


def _check_version(body: Mapping[str, Any]) -> None:
    if body.get("v") != VERSION:
        fields.wrong("v", str(VERSION), body.get("v"))
