"""What was sent is what is read, whatever it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from throttle.model import (
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
from throttle.store import wire
from throttle.store.fields import Malformed, document

numbers = st.floats(0, 1e9) | st.integers(0, 10**9)
counts = st.integers(0, 10**12)
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    min_size=1,
    max_size=20,
)
names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0{}:"),
    min_size=1,
    max_size=15,
)
amounts = st.builds(Amount, numbers, numbers, numbers)
bounds = st.builds(
    Amount, numbers, st.just(float("inf")) | numbers, st.just(float("inf"))
)
holdings = st.builds(
    Holding,
    want=numbers,
    limit=bounds,
    held=counts,
    held_bytes=counts,
    parked=counts,
    admitted=counts,
    would_hold=counts,
    oldest=numbers,
    tenants=st.dictionaries(texts, st.tuples(counts, counts), max_size=3),
)
told = st.builds(
    DatabaseReport,
    samples=st.lists(st.builds(Sample, numbers, amounts, numbers), max_size=3).map(
        tuple
    ),
    holding=st.none() | holdings,
)
reports = st.builds(
    Report,
    holder=texts,
    name=texts | st.just(""),
    databases=st.dictionaries(names, told, max_size=3),
    number=counts,
    answered=st.booleans(),
)
by_estimator = st.fixed_dictionaries(dict.fromkeys(Estimator, amounts))
seen = st.builds(
    Seen,
    traffic=by_estimator,
    outside=by_estimator,
    share=st.floats(0, 1),
    factor=numbers,
    holders=counts,
)
views = st.builds(
    View,
    seen=seen,
    holders=st.dictionaries(
        texts,
        st.builds(Holder, name=texts, share=numbers, holding=holdings),
        max_size=2,
    ),
    signal=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
answers = st.builds(
    ExchangeAnswer, at=numbers, databases=st.dictionaries(names, seen, max_size=3)
)
documents = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(
            st.sampled_from(
                ["databases", "holder", "samples", "holding", "limit", "want", "main"]
            )
            | st.text(),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(reports)
def test_a_report_arrives_as_it_was(report: Report) -> None:
    """Over JSON and back."""
    sent = wire.dumped(wire.report_out(report))
    assert wire.report_in(document(sent)) == report


@given(answers)
def test_an_answer_arrives_as_it_was(answer: ExchangeAnswer) -> None:
    """Over JSON and back."""
    assert wire.answer_in(document(wire.dumped(wire.answer_out(answer)))) == answer


@given(st.dictionaries(names, views, max_size=3))
def test_views_arrive_as_they_were(known: dict[str, View]) -> None:
    """Over JSON and back."""
    sent = {
        "v": 1,
        "databases": {name: wire.view_out(one) for name, one in known.items()},
    }
    assert wire.views_in(document(wire.dumped(sent))) == known


@given(st.dictionaries(st.text(), documents, max_size=6))
def test_nonsense_is_malformed_and_nothing_else(found: dict[str, object]) -> None:
    """No other error, whatever is in a document."""
    for read in (wire.report_in, wire.answer_in, wire.views_in):
        try:
            read({"v": 1, **found})
        except Malformed:
            continue
