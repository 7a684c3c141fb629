"""Each kind of rule fires on its condition in the tables, and on no other."""
# ruff: noqa: S608 — columns are put into statements by their names

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from celery_pecker.alarms.model import Finding
from celery_pecker.alarms.tables import LEASE
from celery_pecker.kernel.clock import new_id, to_us
from celery_pecker.testing.manual import ManualClock
from tests.integration.alarms.conftest import INTERVAL, Rows, Starter, Watch

Passing = Callable[[float], None]


def ringing(watch: Watch) -> dict[str, str]:
    """Look once; return what began to ring, by its subject."""
    return {one.subject: one.detail for one in watch.turn() if one.event == "ringing"}


def replica(rows: Rows, *, kind: str, seen: float) -> None:
    """Store a scheduler that was seen so many seconds ago."""
    rows.run(
        "insert into pecker_replicas (holder, host, pid, version, entries, kind,"
        " started_at, seen_at) values (%s, 'h', 1, '1', 1, %s, %s, %s)",
        *(new_id(), kind, rows.ago(seen + 3_600.0), rows.ago(seen)),
    )


def test_silent_is_what_is_due_and_not_won(watch: Starter, rows: Rows) -> None:
    """Neither what is paused, nor what is not late enough."""
    one = watch({"silent": {}})
    rows.entry("late", last=121.0)
    rows.entry("not late", last=119.0)
    rows.entry("paused", last=500.0)
    rows.run("update pecker_tasks set paused = true where name = 'paused'")
    assert [*ringing(one)] == ["late"]


def test_silent_is_what_the_last_scheduler_of_its_kind_left(
    watch: Starter, rows: Rows
) -> None:
    """Beat is gone, and workers that run local entries live on and see it."""
    one = watch({"silent": {}}, declares=lambda _: False)
    replica(rows, kind="beat", seen=300.0)
    replica(rows, kind="local", seen=1.0)
    rows.entry("of beat", last=300.0, declared=-150.0)
    rows.entry("local and dropped", last=300.0, declared=-150.0, run="local")
    assert [*ringing(one)] == ["of beat"]


def test_silent_is_not_what_code_has_dropped(watch: Starter, rows: Rows) -> None:
    """Its declaration stands for minutes, and nobody renews it: only code can tell."""
    replica(rows, kind="beat", seen=1.0)
    rows.entry("dropped", last=150.0, declared=60.0)  # renewed 120 s ago
    rows.entry("kept", last=150.0, declared=60.0)
    one = watch({"silent": {}}, declares={"kept"}.__contains__)
    assert [*ringing(one)] == ["kept"]


def test_an_entry_that_code_drops_while_it_is_silent_rings_no_more(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Its row stays for a day; schedulers live, and none has renewed what it says."""
    declares = {"dropped", "kept"}
    one = watch({"silent": {}}, declares=declares.__contains__)
    replica(rows, kind="beat", seen=1.0)
    for name in ("dropped", "kept"):
        rows.entry(name, last=150.0, declared=100.0)
    assert {*ringing(one)} == {"dropped", "kept"}
    declares.remove("dropped")
    pass_time(110.0)
    rows.run("update pecker_replicas set seen_at = %s", rows.ago(1.0))
    assert [notice.event for notice in one.turn()] == ["recovered"]
    assert rows.states() == {"dropped": "recovered", "kept": "ringing"}


def test_silent_is_a_crontab_whose_instant_has_passed(
    watch: Starter, rows: Rows
) -> None:
    """Code knows its last instant; the table, whether it was won."""
    instants: dict[str, datetime] = {}
    one = watch({"silent": {}}, instants=lambda _: instants)
    rows.entry("won", last=100.0, period=None)
    rows.entry("not won", last=400.0, period=None)
    instants |= {"won": rows.ago(100.0), "not won": rows.ago(100.0)}
    assert [*ringing(one)] == ["not won"]


def test_silent_is_no_stored_schedule_that_has_ended(
    watch: Starter, rows: Rows
) -> None:
    """Removed, at its end, or a one-off that ran."""
    one = watch({"silent": {}})
    for name, column, value in (
        ("removed", "removed_at", rows.ago(200.0)),
        ("ended", "ends_at", rows.ago(300.0)),
        ("goes on", "ends_at", rows.ago(-300.0)),
    ):
        rows.entry(name, last=250.0)
        rows.run(
            "insert into pecker_schedules (name, task, schedule, version, created_at,"
            f" changed_at, changed_by, {column}) values (%s, 't', '{{}}', 1, now(),"
            " now(), 'x', %s)",
            *(name, value),
        )
    assert [*ringing(one)] == ["goes on"]


def test_failing_is_what_ended_badly_for_long(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """And no more after a good run."""
    one = watch({"failing": {"after": 30.0}})
    rows.entry("sweep", last=1.0)
    rows.run(
        "insert into pecker_outcomes (name, failed, bad_era, bad_due, bad_at,"
        " bad_report, bad_error) values ('sweep', 1, 0, %s, %s, 12, 'KeyError: 7')",
        *(rows.ago(1.0), rows.ago(1.0)),
    )
    assert ringing(one) == {}
    assert rows.states() == {"sweep": "pending"}
    pass_time(INTERVAL)
    assert ringing(one) == {}
    pass_time(20.0)
    found = ringing(one)
    assert list(found) == ["sweep"]
    assert "KeyError: 7" in found["sweep"]
    rows.run(
        "update pecker_outcomes set good_era = 0, good_due = %s, succeeded = 1",
        rows.ago(0.0),
    )
    pass_time(INTERVAL)
    assert [notice.event for notice in one.turn()] == ["recovered"]


def test_unreported_is_what_no_worker_began_in_time(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """And no more once a worker reports of it."""
    one = watch({"unreported": {"after": 0.0}})
    for name in ("sweep", "in time"):
        rows.entry(name, last=1.0)
    rows.run(
        "insert into pecker_outcomes (name, published, sent_era, sent_due, report_by)"
        " values ('sweep', 2, 0, %s, %s), ('in time', 2, 0, %s, %s)",
        *(rows.ago(1.0), rows.ago(150.0), rows.ago(1.0), rows.ago(-150.0)),
    )
    found = ringing(one)
    assert [*found] == ["sweep"]
    assert "should have begun 2 min ago, and no worker" in found["sweep"]
    rows.run(
        "update pecker_outcomes set reported_era = 0, reported_due = %s", rows.ago(0.0)
    )
    pass_time(INTERVAL)
    assert [notice.event for notice in one.turn()] == ["recovered"]


def test_misfires_ring_when_they_are_many_within_the_window(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """What was missed before the first look is no news; few in a window are none."""
    one = watch({"misfire": {"count": 3, "within": 100.0}})
    rows.entry("sweep", last=1.0)
    rows.entry("other", last=1.0)
    rows.run("update pecker_tasks set missed = 70")
    assert ringing(one) == {}

    def miss(name: str, count: int) -> None:
        rows.run(
            "update pecker_tasks set missed = missed + %s where name = %s",
            *(count, name),
        )

    miss("sweep", 2)
    miss("other", 3)
    pass_time(INTERVAL)
    assert list(ringing(one)) == ["other"]
    pass_time(200.0)  # the window is over
    one.turn()
    miss("sweep", 2)
    pass_time(INTERVAL)
    assert ringing(one) == {}
    miss("sweep", 1)
    pass_time(INTERVAL)
    assert ringing(one) == {"sweep": "3 of its slots passed without a run within 100 s"}
    assert rows.states()["other"] == "recovered"
    for _ in range(12):  # still ringing for a window, then well
        pass_time(INTERVAL)
        one.turn()
    assert rows.states()["sweep"] == "recovered"


def test_a_first_look_that_was_not_recorded_is_not_the_first(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Who looked first was killed: what counters said by then is still no news."""
    terms = {"overtaken": {"count": 3, "within": 10_000.0}}
    dead, other = (watch(terms) for _ in "ab")
    rows.entry("sweep", last=1.0)
    rows.run(
        "insert into pecker_outcomes (name, refused_overtaken, bad_era, bad_due,"
        " bad_at, bad_report) values ('sweep', 50, 0, %s, %s, 12)",
        *(rows.ago(1.0), rows.ago(1.0)),
    )
    dead.tables.add(["overtaken"])
    assert len(dead.tables.due_rules(["overtaken"], INTERVAL)[1]) == 1
    pass_time(LEASE)
    assert ringing(other) == {}


def test_what_rises_after_a_window_opens_the_next_one(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """One run overtaken, an hour of quiet, then three at once: the three ring."""
    one = watch({"overtaken": {"count": 3, "within": 100.0}})
    rows.entry("sweep", last=1.0)
    assert ringing(one) == {}

    def overtaken(count: int) -> None:
        rows.run(
            "insert into pecker_outcomes as o (name, refused_overtaken, bad_era,"
            " bad_due, bad_at, bad_report) values ('sweep', %s, 0, %s, %s, 12)"
            " on conflict (name) do update set bad_at = excluded.bad_at,"
            " refused_overtaken = o.refused_overtaken + excluded.refused_overtaken",
            *(count, rows.ago(1.0), rows.ago(0.0)),
        )

    overtaken(1)
    pass_time(INTERVAL)
    assert ringing(one) == {}
    pass_time(3_600.0)
    assert ringing(one) == {}
    overtaken(2)
    pass_time(INTERVAL)
    assert ringing(one) == {}  # the one of an hour ago does not count
    pass_time(3_600.0)
    overtaken(3)
    pass_time(INTERVAL)
    found = ringing(one)
    assert list(found) == ["sweep"]
    assert found["sweep"].startswith("3 of its runs were overtaken")


def test_a_new_entry_counts_from_nothing(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """One that appears after the first look of the rule has its own first look."""
    one = watch({"misfire": {"count": 3}})
    ringing(one)
    rows.entry("new", last=1.0)
    pass_time(INTERVAL)
    assert ringing(one) == {}
    rows.run("update pecker_tasks set missed = 5")
    pass_time(INTERVAL)
    assert list(ringing(one)) == ["new"]


@pytest.mark.parametrize(
    ("kind", "column"),
    [("overrun", "overrun"), ("overtaken", "refused_overtaken")],
)
def test_runs_that_end_so_are_counted(
    watch: Starter, rows: Rows, pass_time: Passing, kind: str, column: str
) -> None:
    """Those of long ago are not."""
    one = watch({kind: {"count": 2}})
    rows.entry("sweep", last=1.0)
    rows.run(
        f"insert into pecker_outcomes (name, {column}, bad_era, bad_due, bad_at)"
        " values ('sweep', 5, 0, %s, %s)",
        *(rows.ago(9_000.0), rows.ago(9_000.0)),
    )
    assert ringing(one) == {}
    for expected in ([], ["sweep"]):
        pass_time(INTERVAL)
        rows.run(
            f"update pecker_outcomes set {column} = {column} + 1, bad_at = %s",
            rows.ago(0.0),
        )
        assert list(ringing(one)) == expected


def test_a_run_in_hand_for_longer_than_its_period_overruns(
    watch: Starter, rows: Rows, clock: ManualClock
) -> None:
    """Without a timeout the period is what it may take."""
    one = watch({"overrun": {}})
    now_us = to_us(clock.now())
    for name, period, timeout in (
        ("long", 60.0, None),
        ("in time", 600.0, None),
        ("over", 600.0, 50.0),
    ):
        rows.entry(name, last=1.0, period=period, timeout=timeout)
    rows.run(
        "insert into pecker_lives (holder, host, seen_at, names, due_us, eras, epochs)"
        " values (%s, 'w', %s, %s, %s, %s, %s)",
        *(new_id(), rows.ago(1.0), ["long", "in time", "over"]),
        *([now_us - 90_000_000] * 3, [0] * 3, [1] * 3),
    )
    assert ringing(one) == {
        "long": "a run of it has been in hand for 90 s",
        "over": "a run of it has been in hand for 90 s",
    }


def test_a_clock_that_steps_back_rings(
    watch: Starter, rows: Rows, clock: ManualClock, pass_time: Passing
) -> None:
    """By the instant of the last look, whoever looked; and when an era rises."""
    one, other = watch({"clock": {}}), watch({"clock": {}})
    rows.entry("sweep", last=1.0)
    assert ringing(one) == {}
    clock.step(-3_600.0)
    found = ringing(other)
    assert found == {"database": "the clock of the database stepped back by 3600.0 s"}
    for _ in range(62):
        pass_time(INTERVAL)
        other.turn()
    assert rows.states() == {"database": "recovered"}
    pass_time(900.0)
    rows.run("update pecker_tasks set era = era + 1")
    assert "an era rose" in ringing(one)["database"]


def test_a_gate_that_is_shut_for_long_rings_whoever_looks(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Since when stands in the table: each look may be another replica's."""
    names = {"main"}
    one, other = (watch({"shut": {"after": 15.0}}, shut=lambda: names) for _ in "ab")
    assert ringing(one) == {}
    pass_time(INTERVAL)
    assert ringing(other) == {}
    pass_time(INTERVAL)
    assert ringing(one) == {"main": "the gate lets nothing through to it"}
    names.clear()
    pass_time(INTERVAL)
    assert [notice.event for notice in other.turn()] == ["recovered"]


def job(rows: Rows, task_id: str, **columns: Any) -> int:
    """Store a job; return its number."""
    values = {
        "task_id": task_id,
        "task": "proj.import",
        "stage": "sharding",
        "concurrency": 2,
        "options": "{}",
        "call": b"",
        "continuation": "{}",
        "submitted_at": rows.ago(500.0),
        "planned_at": rows.ago(500.0),
        **columns,
    }
    [(number,)] = rows.run(
        f"insert into pecker_jobs ({', '.join(values)}) values"
        f" ({', '.join(['%s'] * len(values))}) returning job",
        *values.values(),
    )
    return int(number)


def shard(rows: Rows, number: int, status: int, claimed: float | None) -> None:
    """Store the one shard of a job, and a ticket that is long over."""
    rows.run(
        "insert into pecker_shards (job, shard, layer, status, ticket, epoch, origin,"
        " hi, claimed_at) values (%s, 0, 0, %s, 0, 5, 0, 10, %s)",
        *(number, status, None if claimed is None else rows.ago(claimed)),
    )


def ticket(rows: Rows, number: int, *, left: float) -> None:
    """Store the ticket under which it was claimed, held for so many seconds yet."""
    rows.run(
        "insert into pecker_tickets (job, ticket, seq, state, holder, leased_until)"
        " values (%s, 0, 5, 'held', 'w', %s)",
        *(number, rows.ago(-left)),
    )


def test_jobs_hang_by_their_codes(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """401 nobody claims, 402 not begun, 403 its worker is gone; the others work."""
    one = watch({"job_hangs": {"only": ["proj.imp*"]}})
    shard(rows, job(rows, "untaken"), 100, None)
    stalled = job(rows, "stalled")
    shard(rows, stalled, 201, 200.0)
    ticket(rows, stalled, left=10.0)
    dead = job(rows, "dead")
    shard(rows, dead, 202, 200.0)
    ticket(rows, dead, left=-100.0)
    lapsed = job(rows, "lapsed")
    shard(rows, lapsed, 201, 200.0)
    ticket(rows, lapsed, left=-10.0)
    begun = job(rows, "begun")
    shard(rows, begun, 202, 200.0)
    ticket(rows, begun, left=-10.0)
    works = job(rows, "works")
    shard(rows, works, 202, 200.0)
    ticket(rows, works, left=10.0)
    just = job(rows, "just", submitted_at=rows.ago(5.0), planned_at=rows.ago(5.0))
    shard(rows, just, 100, None)
    shard(rows, job(rows, "paused", paused=True), 100, None)
    shard(rows, job(rows, "other", task="proj.other"), 100, None)
    found = ringing(one)
    assert {subject: text[-5:] for subject, text in found.items()} == {
        "proj.import untaken": "(401)",
        "proj.import stalled": "(402)",
        "proj.import dead": "(403)",
        "proj.import lapsed": "(403)",
    }
    for left in (-1.0, -59.0, -65.0):  # its worker has died: no look finds it well
        pass_time(10.0)
        rows.run(
            "update pecker_tickets set leased_until = %s where job = %s",
            *(rows.ago(-left), stalled),
        )
        assert "recovered" not in {event.event for event in one.turn()}
        [(detail,)] = rows.run(
            "select detail from pecker_alarms where state = 'ringing' and subject = %s",
            "proj.import stalled",
        )
        assert detail.endswith("(403)")


def test_jobs_fail_and_are_late(watch: Starter, rows: Rows, pass_time: Passing) -> None:
    """A failure is news for a while and has no recovery."""
    one = watch({"job_failed": {"within": 100.0}, "job_late": {"after": 400.0}})
    ended = {"stage": "ended", "ended_at": rows.ago(10.0)}
    error = '{"type": "ValueError", "message": "row 7"}'
    job(rows, "failed", **ended, outcome="failed", error=error)
    job(rows, "done", **ended, outcome="succeeded")
    job(rows, "late")
    job(rows, "has time", deadline_at=rows.ago(-10.0))
    job(rows, "past its deadline", deadline_at=rows.ago(410.0))
    found = ringing(one)
    assert found["proj.import failed"] == "the job has failed: ValueError: row 7"
    assert found.keys() == {
        "proj.import failed",
        "proj.import late",
        "proj.import past its deadline",
    }
    pass_time(200.0)
    assert one.turn() == []
    assert rows.states()["proj.import failed"] == "recovered"


def test_what_is_parked_rings(watch: Starter, rows: Rows) -> None:
    """Messages by their task, observers by their name."""
    one = watch({"outbox_parked": {"count": 2}, "observer_parked": {}})
    for task in ("proj.mail", "proj.mail", "proj.once"):
        rows.run(
            "insert into pecker_outbox (task, task_id, exchange, routing_key,"
            " content_type, content_encoding, headers, properties, body, created_at,"
            " parked_at, last_error) values (%s, '1', '', 'q', 'j', 'u', '{}', '{}',"
            " '', %s, %s, 'refused')",
            *(task, rows.ago(9.0), rows.ago(3.0)),
        )
    rows.run(
        "insert into pecker_observers (name, kind, weight, not_before, parked_at,"
        " last_error, created_at, modified_at, failures)"
        " values ('eurusd', 'k', 1, %s, %s, 'KeyError', %s, %s, 4)",
        *[rows.ago(5.0)] * 4,
    )
    assert ringing(one) == {
        "proj.mail": "2 recorded tasks are parked: refused",
        "eurusd": "it is parked after 4 failures: KeyError",
    }


def host(rows: Rows, name: str, state: str, lease: float, left: float | None) -> None:
    """Store a host; seconds ago at which its lease ended, and at which it left."""
    rows.run(
        "insert into pecker_observer_nodes (node, name, pid, capacity, kinds, state,"
        " ttl, since, leased_until, started_at, left_at)"
        " values (%s, %s, 1, 1, '{}', %s, interval '5 s', %s, %s, %s, %s)",
        *(new_id(), name, state, rows.ago(900.0), rows.ago(lease), rows.ago(900.0)),
        None if left is None else rows.ago(left),
    )


def test_hosts_that_did_not_leave_ring(watch: Starter, rows: Rows) -> None:
    """Those that said goodbye do not, nor those that are back."""
    one = watch({"observer_host": {}})
    host(rows, "buried", "dead", 30.0, 29.0)
    host(rows, "lapsed", "up", 30.0, None)
    host(rows, "left", "dead", 30.0, 34.0)
    host(rows, "back", "dead", 30.0, 29.0)
    host(rows, "back", "up", -4.0, None)
    host(rows, "up", "up", -4.0, None)
    assert ringing(one).keys() == {"buried", "lapsed"}


def test_notices_of_observers_that_are_never_sent_ring(
    watch: Starter, rows: Rows
) -> None:
    """After so many tries."""
    one = watch({"observer_notices": {}})
    for name, tries in (("a", 4), ("b", 5)):
        rows.run(
            "insert into pecker_observer_notices (signature, event, held_until, tries,"
            " created_at, last_error) values ('{}', %s, %s, %s, %s, 'no broker')",
            *(f'{{"event": "parked", "name": "{name}"}}', rows.ago(-9.0), tries),
            rows.ago(99.0),
        )
    assert ringing(one) == {
        "parked b #2": "its signature was tried 5 times and not sent: no broker"
    }


def test_what_the_gate_holds_back_is_held_and_not_silent(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """It becomes silent when the gate lets it through and nobody wins it."""
    names = {"held"}
    rules = {"silent": {}, "held": {"after": 90.0}}
    one = watch(rules, held=lambda: names)
    rows.entry("held", last=121.0)
    rows.entry("silent", last=121.0)
    assert [*ringing(one)] == ["silent"]
    pass_time(60.0)
    assert ringing(one) == {
        "held": "the gate holds back a slot of it that was due 2 min ago"
    }
    names.clear()
    pass_time(INTERVAL)
    got = {(notice.rule, notice.event) for notice in one.turn()}
    assert got == {("held", "recovered"), ("silent", "ringing")}


def test_what_any_gate_holds_back_is_held_whoever_looks(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """It stands in the row of who holds it, for as long as that one lives."""
    rules = {"silent": {"cooldown": 0}, "held": {"after": 90.0, "cooldown": 0}}
    one, other = watch(rules, held=lambda: {"held"}), watch(rules)
    replica(rows, kind="local", seen=1.0)
    rows.run("update pecker_replicas set held = '{held}'")
    rows.entry("held", last=200.0)
    got = [(notice.rule, notice.event) for notice in one.turn()]
    for _ in range(3):
        for who in (other, one):
            pass_time(INTERVAL)
            rows.run("update pecker_replicas set seen_at = %s", rows.ago(1.0))
            got += [(notice.rule, notice.event) for notice in who.turn()]
    assert got == [("held", "ringing")]
    pass_time(25.0)  # the holder is gone
    assert {(notice.rule, notice.event) for notice in other.turn()} == {
        ("held", "recovered"),
        ("silent", "ringing"),
    }


def test_other_outboxes_are_asked_and_one_that_is_away_lets_nothing_recover(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Its name stands with the task; patterns are of tasks."""
    found = Finding(
        subject="proj.mail in eu", detail="refused", number=2.0, about="proj.mail"
    )
    answers: list[Any] = [([found], True), ([], False), ([], True)]
    one = watch(
        {"outbox_parked": {"only": ["proj.mail"]}}, parked=lambda: answers.pop(0)
    )
    assert ringing(one) == {"proj.mail in eu": "2 recorded tasks are parked: refused"}
    pass_time(INTERVAL)
    assert one.turn() == []
    pass_time(INTERVAL)
    assert [notice.event for notice in one.turn()] == ["recovered"]
