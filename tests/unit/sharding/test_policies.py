"""What happens when an item fails, and how options are written down and refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel.errors import Misconfigured
from celery_sharding.model import Cut, Options, Placement
from celery_sharding.policies import (
    FailFast,
    Isolate,
    Policy,
    Retry,
    as_json,
    check,
    from_json,
    policy_of,
)

tolerances = st.one_of(
    st.none(),
    st.integers(0, 10**6),
    st.integers(0, 100).map("{}%".format),
)
policies = st.one_of(
    st.builds(Isolate, max_failed=tolerances),
    st.just(FailFast()),
    st.builds(
        Retry, st.integers(0, 100), backoff=st.floats(0, 600), max_failed=tolerances
    ),
)
seconds = st.none() | st.floats(1, 10**6)
options = st.builds(
    Options,
    size=st.tuples(st.integers(1, 100), st.integers(100, 10**6)),
    cut=st.sampled_from(Cut),
    concurrency=st.integers(1, 10_000),
    lease=seconds,
    deadline=seconds,
    shard_deadline=seconds,
    item_timeout=seconds,
    batch=st.none() | st.integers(1, 100),
    on_error=policies,
    notify_every=st.none() | st.floats(0.001, 1),
    placement=st.sampled_from(Placement),
    database=st.none() | st.text(min_size=1),
    queue=st.none() | st.text(min_size=1),
)


@given(options)
def test_options_come_back_as_they_were_written(given_: Options) -> None:
    """A job runs as it was submitted, whatever the code says by then."""
    assert from_json(as_json(given_)) == given_
    assert check(given_) is given_


def test_options_of_a_newer_version_are_read() -> None:
    """During a deploy, two versions read one table."""
    told = {**as_json(Options()), "unheard_of": 1}
    assert from_json(told) == Options(on_error=Isolate())


def test_every_option_is_written() -> None:
    """One that was left out would be its default in the worker."""
    assert {*as_json(Options())} == {one.name for one in fields(Options)}


@pytest.mark.parametrize(
    ("policy", "total", "allowed"),
    [
        (Isolate(), 1_000, None),
        (Isolate(max_failed=7), 1_000, 7),
        (Isolate(max_failed="1%"), 1_000, 10),
        (Isolate(max_failed="0.1%"), 999, 0),
        (Isolate(max_failed="100%"), 5, 5),
        (FailFast(), 1_000, 0),
        (Retry(3), 1_000, None),
        (Retry(3, max_failed="50%"), 10, 5),
    ],
)
def test_how_many_may_fail(policy: Policy, total: int, allowed: int | None) -> None:
    """A count, or a part of the total, rounded down; None: any number."""
    assert policy.allowed(total) == allowed


def test_a_retry_waits_longer_each_time_up_to_a_bound() -> None:
    """And an item has one attempt more than it has retries."""
    policy = Retry(9, backoff=2.0, most=10.0)
    assert [policy.delay(attempt) for attempt in (1, 2, 3, 4, 90)] == [2, 4, 8, 10, 10]
    assert policy.attempts() == 10
    assert (Isolate().attempts(), FailFast().attempts()) == (1, 1)


def test_nobody_says_anything_and_failures_are_isolated() -> None:
    """The kindest of the policies is the one that nobody asks for."""
    assert policy_of(Options()) == Isolate()


@pytest.mark.parametrize("wrong", [-1, "1", "101%", "-1%", "x%", True, 0.5])
def test_what_is_no_tolerance_is_refused(wrong: Any) -> None:
    """With what is allowed."""
    with pytest.raises(Misconfigured, match=r"max_failed must be .*'1%'"):
        Isolate(max_failed=wrong)
    with pytest.raises(Misconfigured, match="max_failed must be"):
        Retry(1, max_failed=wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size": (0, 10)}, r"size\[0\].* from 1 .* not 0"),
        ({"size": (10, 5)}, r"size must be \(least, most\): 10 is more than 5"),
        ({"size": 10}, r"size must be \(least, most\)"),
        ({"size": (1, 2, 3)}, r"size must be \(least, most\)"),
        ({"size": (1, "2")}, r"size\[1\]"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 .*not 0"),
        ({"concurrency": True}, "concurrency must be a whole number"),
        ({"batch": 0}, "batch must be a whole number from 1"),
        ({"deadline": 0}, "deadline must be a number of seconds above 0, not 0"),
        ({"deadline": -3}, "deadline must be"),
        ({"shard_deadline": "1h"}, "shard_deadline must be .* not '1h'"),
        ({"item_timeout": float("nan")}, "item_timeout must be"),
        ({"lease": 0.5}, "lease must be"),
        ({"notify_every": 0}, "notify_every must be above 0"),
        ({"notify_every": 1.5}, "notify_every must be above 0 and at most 1"),
        ({"on_error": "isolate"}, "on_error must be Isolate"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    """The message names the field, the value and what is allowed."""
    with pytest.raises(Misconfigured, match=said):
        check(Options(**wrong))


@pytest.mark.parametrize("wrong", [-1, 101, 1.5, True])
def test_a_retry_that_never_ends_is_refused(wrong: Any) -> None:
    """So is one that waits a negative time."""
    with pytest.raises(Misconfigured, match="whole number of retries from 0 to 100"):
        Retry(wrong)
    with pytest.raises(Misconfigured, match="0 <= backoff <= most"):
        Retry(1, backoff=-1.0)
    with pytest.raises(Misconfigured, match="0 <= backoff <= most"):
        Retry(1, backoff=3.0, most=2.0)
