"""Who deletes very many rows asks for a vacuum, and not in vain again and again."""

from __future__ import annotations

from celery_pecker.outbox.relay.vacuum import (
    FIRST_WAIT,
    LEAST_DEAD,
    LOOK_EVERY,
    MOST_WAIT,
    VacuumPolicy,
    worth,
)


def test_a_relay_that_delivers_little_does_not_look() -> None:
    """Autovacuum is early enough for it."""
    policy = VacuumPolicy()
    assert not policy.look(LOOK_EVERY - 1, 0.0)
    assert policy.look(LOOK_EVERY, 1.0)
    assert not policy.look(LOOK_EVERY + 1, 2.0)
    assert policy.look(2 * LOOK_EVERY, 3.0)


def test_a_vacuum_is_worth_what_it_frees() -> None:
    """Not for a few rows, and not for few among very many that wait."""
    assert not worth(LEAST_DEAD - 1, 0)
    assert worth(LEAST_DEAD, 0)
    assert not worth(LEAST_DEAD, 5_000_000)
    assert worth(1_000_000, 5_000_000)


def test_a_vacuum_in_vain_is_not_asked_for_at_once() -> None:
    """Somebody holds a snapshot: each time it waits twice as long."""
    policy, sent, now, waits = VacuumPolicy(), 0, 0.0, []
    for _ in range(12):
        sent += LOOK_EVERY
        began = now
        while not policy.look(sent, now):
            now += FIRST_WAIT
        waits.append(now - began)
        policy.vacuumed(before=100_000, after=100_000, monotonic=now)
    assert waits[1] < waits[4] < waits[-1] <= MOST_WAIT
    sent += LOOK_EVERY
    now += MOST_WAIT
    assert policy.look(sent, now)
    policy.vacuumed(before=100_000, after=10, monotonic=now)
    assert policy.look(sent + LOOK_EVERY, now + FIRST_WAIT)
