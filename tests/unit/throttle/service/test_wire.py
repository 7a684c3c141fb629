"""What is refused of what comes over the wire, by name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from throttle.model import Amount, DatabaseReport, Estimator, Holding, Report
from throttle.store import fields, wire
from throttle.store.fields import Malformed, document

RIGHT: dict[str, Any] = {
    "holder": "h1",
    "name": "worker@host",
    "number": 3,
    "databases": {
        "main": {
            "samples": [[0.0, 1, 0.5, 2, 0.1]],
            "holding": {
                "want": 0.5,
                "limit": [5000, None, None],
                "tenants": {"acme": [1, 2]},
            },
        }
    },
}


SAMPLES = {"samples": [[0, 1, 0, 0, 0.1]] * 12}
MANY = {str(n): SAMPLES for n in range(500)}


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the right report with one thing in it changed."""
    found = document(wire.dumped(RIGHT))
    at: Any = found
    *way, last = path.split("/")
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[int(last) if isinstance(at, list) else last] = value
    return dict(found)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("holder", "", "holder must be a string"),
        ("holder", 7, "holder must be a string"),
        ("holder", "x" * 201, "holder must be a string"),
        ("holder", "a\0b", "holder must be a string"),
        ("holder", "\ud800", "holder must be a string"),
        ("name", None, "name must be a string"),
        ("number", -1, "number must be a number from 0"),
        ("number", 1.5, "number must be a whole number"),
        ("number", True, "number must be a number from 0"),
        ("databases", [], "databases must be an object"),
        ("databases", {"a{b": {}}, "a database's name"),
        ("databases", {"a:b": {}}, "a database's name"),
        ("databases", {"x" * 61: {}}, "a database's name"),
        ("databases/main", 7, "databases.main must be an object"),
        ("databases/main/samples", {}, "samples must be a list"),
        ("databases", {str(n): {} for n in range(501)}, "at most 500 keys"),
        ("databases/main/samples", [[0, 1, 0, 0, 0]] * 3_001, "samples of 300 s tog"),
        ("databases/main/samples", [[0, 1, 0, 0, 1e9]] * 31, "not '31 of 310 s'"),
        ("databases", MANY, "samples of 300 s together, each 0.1 s at least, not '60"),
        ("databases/main/samples/0", [1, 2], "samples must be a list of 5"),
        ("databases/main/samples/0/0", -1, r"samples \(age\)"),
        ("databases/main/samples/0/1", None, "samples must be a number"),
        ("databases/main/samples/0/1", 1e300, "samples must be a number"),
        ("databases/main/samples/0/4", "long", r"samples \(span\)"),
        ("databases/main/holding", [], "holding must be an object"),
        ("databases/main/holding/want", "all", "holding.want must be a number"),
        ("databases/main/holding/limit", [1], "holding.limit must be a list of 3"),
        (
            "databases/main/holding/tenants/acme",
            [1],
            "tenants.acme must be a list of 2",
        ),
    ],
)
def test_a_wrong_field_is_named(path: str, value: object, said: str) -> None:
    """So that who writes a client in another language finds it."""
    with pytest.raises(Malformed, match=said):
        wire.report_in(changed(path, value))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b"{",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5_000 + b"}",
    ],
)
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    """Whatever it is: nothing else is raised."""
    with pytest.raises(Malformed):
        document(body)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    """JSON can say it, and Python reads it as infinite."""
    with pytest.raises(Malformed, match="a number from 0"):
        fields.number("x", document(b'{"a": 1e999}')["a"])


def test_what_is_not_known_is_skipped_and_what_is_missing_is_nothing() -> None:
    """Fields are only added within a version."""
    told = {"holder": "h", "colour": "red", "databases": {"main": {"size": 3}}}
    assert wire.report_in(told) == Report(
        holder="h", name="", databases={"main": DatabaseReport()}
    )


def test_odd_names_of_a_worker_are_made_such_as_pass() -> None:
    """Half of a pair, which UTF-8 has not, and a name longer than the wire's."""
    report = Report(holder="h", name="\ud800" + "x" * 300, databases={})
    found = wire.report_in(document(wire.dumped(wire.report_out(report))))
    assert found.name == "?" + "x" * 199


def test_an_answer_without_an_estimator_is_one_without_traffic() -> None:
    """Who goes by it finds it: a missing one would end a gate's question."""
    told = {"v": 1, "at": 1.0, "databases": {"main": {"traffic": {}, "outside": {}}}}
    seen = wire.answer_in(told).databases["main"]
    assert seen.traffic == seen.outside == dict.fromkeys(Estimator, Amount())


def test_no_bound_is_null() -> None:
    """JSON has no word for infinite."""
    holding = Holding(want=1.0, limit=Amount(5_000, math.inf, math.inf))
    report = Report(
        holder="h", name="n", databases={"main": DatabaseReport(holding=holding)}
    )
    sent = wire.dumped(wire.report_out(report))
    assert b"[5000,null,null]" in sent
    assert wire.report_in(document(sent)) == report


def test_another_version_is_not_taken_for_this_one() -> None:
    """What its fields mean is not known."""
    with pytest.raises(Malformed, match="v must be 1"):
        wire.answer_in({"v": 2, "at": 0, "databases": {}})


@pytest.mark.parametrize(("share", "taken"), [(0.5, 0.5), (1, 1), (50.0, 1), (1e15, 1)])
def test_a_share_is_never_more_than_the_limit(share: float, taken: float) -> None:
    """A worker let 4,899 operations through at a limit of 100."""
    seen = {"traffic": {}, "outside": {}, "share": share}
    answer = {"v": wire.VERSION, "at": 0, "databases": {"main": seen}}
    assert wire.answer_in(answer).databases["main"].share == taken
    with pytest.raises(Malformed, match="v must be 1"):
        wire.views_in({"databases": {}})
