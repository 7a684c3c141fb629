"""Hosts die, freeze, hang and drain while observers are stopped; an oracle judges."""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest

from tests.chaos.observers.app import CALLED, LEASE, OBSERVERS
from tests.chaos.observers.events import KINDS, events
from tests.chaos.observers.oracle import (
    Span,
    Wanted,
    Write,
    dark,
    gaps,
    overtaken,
    without,
)
from tests.chaos.observers.stand import HOSTS, Stand

logger = logging.getLogger(__name__)

EVENTS = int(os.environ.get("PECKER_CHAOS_EVENTS", "50"))
SEED = int(os.environ.get("PECKER_CHAOS_SEED", "13"))
TICK = LEASE / 10
BUSY = 10.0
"""Seconds more that a gap may last: the machine has other work, and all hosts may be
hit within one lease."""


def test_events_are_those_of_their_seed() -> None:
    """Each failure at each moment as often as any other."""
    drawn = [*events(len(KINDS) * 5, hosts=HOSTS, seed=SEED)]
    assert drawn == [*events(len(KINDS) * 5, hosts=HOSTS, seed=SEED)]
    assert dict.fromkeys(KINDS, 5) == {
        kind: sum(1 for one in drawn if (one.failure, one.moment) == kind)
        for kind in KINDS
    }


def test_the_oracle_sees_what_is_wrong() -> None:
    """A life that wrote after the next one, and an observer that nobody ran."""
    good = [Write("a", 1, 1.0), Write("a", 2, 2.0), Write("b", 7, 1.5)]
    assert overtaken(good) == []
    assert overtaken([*good, Write("a", 1, 2.5)]) == [
        (Write("a", 2, 2.0), Write("a", 1, 2.5))
    ]
    wanted = {
        "a": Wanted(0.5, 9.0),
        "b": Wanted(1.0, 2.0),
        "c": Wanted(3.0, 4.0),
    }

    def seconds(*said: Any) -> dict[str, float]:
        return {name: one.seconds for name, one in gaps(*said).items()}

    seen = {"a": [1.0, 2.0], "b": [1.5]}
    assert seconds(seen, wanted) == {"a": 7.0, "b": 0.5, "c": 1.0}
    none = dark([Span(0.0, 3.0), Span(1.0, 2.5), Span(5.0, 9.0)])
    assert none == [(3.0, 5.0)]
    assert seconds(seen, {"a": Wanted(0.5, 9.0)}, none) == {"a": 5.0}
    seen = {"a": [1.0, 6.0, 2.0], "b": [1.5], "c": [3.25]}
    assert seconds(seen, wanted) == {"a": 4.0, "b": 0.5, "c": 0.75}
    assert gaps(seen, wanted)["a"] == (4.0, 2.0, 6.0)
    assert without([Span(0.0, 9.0)], [Span(1.0, 2.0), Span(8.0, 10.0)]) == [
        (0.0, 1.0),
        (2.0, 8.0),
    ]


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(600 + 12 * EVENTS)
def test_who_must_run_runs_and_writes_alone(dsn: str) -> None:
    """Never two lives that both write, nobody missing, no stop forgotten.

    Whole: `PECKER_CHAOS_EVENTS=500 PECKER_CHAOS_OBSERVERS=2000`, with seed 13.
    It fails where `hold_observer` takes a later epoch for its own: tried with seed 13,
    by seven writes of lives that were overtaken.
    """
    stand = Stand(dsn)
    try:
        stand.begin(OBSERVERS)
        for number, event in enumerate(events(EVENTS, hosts=HOSTS, seed=SEED)):
            logger.info("%d: %s", number, event)
            stand.do(event)
        stand.settle()
        record = stand.record
        writes = record.writes()
        longest = gaps(record.seen(), stand.wanted, dark(record.lived()))
        name, most = max(longest.items(), key=lambda one: one[1])
        story = record.story(most.since, most.until)
    except BaseException as error:
        for host in stand.hosts:
            error.add_note(f"{host.name}:\n{host.logs().decode()[-3_000:]}")
        raise
    finally:
        stand.close()
    logger.info("%d writes, longest gap %.1f s, of %s", len(writes), most.seconds, name)
    logger.info("then:\n%s", story)
    assert overtaken(writes) == []
    allowed = LEASE + TICK + CALLED + BUSY
    long = [one for one, gap in longest.items() if gap.seconds > allowed]
    assert not long, f"{len(long)} of {len(longest)}, {name} for {most}:\n{story}"
