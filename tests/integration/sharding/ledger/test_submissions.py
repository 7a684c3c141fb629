"""Calls are stored once, before anybody is told; a key has one leader at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from celery_pecker.testing import eventually
from celery_sharding.errors import (
    InstanceNotFound,
    ItemNotSerializable,
    Misconfigured,
)
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.submissions import (
    ITEMS,
    NewJob,
    Submitted,
)
from celery_sharding.model import Options, Outcome, Stage
from tests.integration.sharding.conftest import Time

Opened = Callable[[], Ledger]
LEASE = 15.0


def call(task_id: str, key: str | None = None, **given: object) -> NewJob:
    """Return a call of one task."""
    return NewJob(
        **{  # type: ignore[arg-type]  # a test's own
            "task_id": task_id,
            "task": "proj.import_rows",
            "args": (),
            "kwargs": {},
            "continuation": {},
            "options": Options(),
            "key": key,
            **given,
        }
    )


def rows(ledger: Ledger, columns: str) -> list[tuple[object, ...]]:
    """Return columns of all jobs, by job."""
    with ledger.database._connected().cursor() as cursor:
        text = f"select {columns} from pecker_jobs order by job"  # noqa: S608
        return cursor.execute(text.encode()).fetchall()


def decide(ledger: Ledger, task_id: str) -> None:
    """The job has an outcome, whoever decided it."""
    with ledger.database._connected().cursor() as cursor:
        cursor.execute(
            b"update pecker_jobs set stage = 'delivering', outcome = 'succeeded'"
            b" where task_id = %s",
            (task_id,),
        )


# Items


def test_items_are_stored_once_and_found(ledger: Ledger) -> None:
    """A caller that stores again, not knowing whether it did, changes nothing."""
    ledger.submissions.store("ref-1", b"j[1, 2]", 2)
    ledger.submissions.store("ref-1", b"other", 1)
    assert ledger.submissions.load("ref-1") == b"j[1, 2]"


def test_items_that_are_not_there_are_named(ledger: Ledger) -> None:
    """The error says which, with its code."""
    with pytest.raises(InstanceNotFound, match=r"k_sc_ec_100004: .*ref-2"):
        ledger.submissions.load("ref-2")


def test_a_call_of_items_that_were_purged_is_refused(ledger: Ledger) -> None:
    """A signature may be older than sharding_retention; nothing is half-created."""
    ledger.submissions.store("ref-1", b"j[1]", 1)
    with pytest.raises(InstanceNotFound, match="ref-2"):
        ledger.submissions.submit(call("a", args=({ITEMS: "ref-2"},)))
    assert rows(ledger, "task_id") == []


def test_a_call_keeps_the_items_that_it_names(ledger: Ledger, time: Time) -> None:
    """A signature that is sent each day stored them once; the purge goes by age."""
    ledger.submissions.store("ref-1", b"j[1]", 1)
    time.step(86_400)
    ledger.submissions.submit(call("a", args=({ITEMS: "ref-1"}, 7)))
    with ledger.database._connected().cursor() as cursor:
        found = cursor.execute(b"select stored_at from pecker_inputs").fetchall()
    assert found == [(time(),)]


# Calls


def test_a_call_is_stored_once_however_often_it_is_submitted(ledger: Ledger) -> None:
    """A caller that got no answer submits again under the same task id."""
    first = ledger.submissions.submit(call("a"))
    again = ledger.submissions.submit(call("a"))
    assert first == Submitted(job=first.job, task_id="a", fresh=True)
    assert again == Submitted(job=first.job, task_id="a", fresh=False)
    assert rows(ledger, "task_id, stage") == [("a", "submitted")]


def test_a_call_brings_its_options_arguments_and_deadline(ledger: Ledger) -> None:
    """What the planner is told is what the caller gave."""
    new = call(
        "a",
        args=(1, {"ref": "x"}),
        kwargs={"tenant": "t"},
        options=Options(size=(5, 50), concurrency=7, deadline=60.0),
    )
    ledger.submissions.submit(new)
    turn = ledger.plans.begin("a", "host:1:a", LEASE)
    assert turn is not None
    assert (turn.args, turn.kwargs) == ((1, {"ref": "x"}), {"tenant": "t"})
    assert (turn.options.size, turn.options.concurrency) == ((5, 50), 7)
    assert turn.deadline_in == pytest.approx(60.0)


@pytest.mark.parametrize("value", [object(), {1: object()}, b"\xff"])
def test_arguments_that_are_no_json_are_refused(ledger: Ledger, value: object) -> None:
    """Nothing is stored, and the error names the task."""
    if isinstance(value, bytes):
        ledger.submissions.submit(call("a", args=(value,)))  # Celery writes bytes
        return
    with pytest.raises(ItemNotSerializable, match=r"an argument of proj\.import_rows"):
        ledger.submissions.submit(call("a", args=(value,)))
    assert rows(ledger, "task_id") == []


@pytest.mark.parametrize(
    "given", [{"key": "nul\0"}, {"continuation": {"chain": ["nul\0"]}}]
)
def test_what_postgresql_cannot_hold_is_refused(
    ledger: Ledger, given: dict[str, object]
) -> None:
    """NUL is JSON and no text of PostgreSQL; nothing is stored."""
    with pytest.raises(ItemNotSerializable, match="cannot be stored"):
        ledger.submissions.submit(call("a", **given))  # type: ignore[arg-type]
    assert rows(ledger, "task_id") == []


def test_options_that_cannot_be_are_refused(ledger: Ledger) -> None:
    """The field is named, and nothing is stored."""
    with pytest.raises(Misconfigured, match="least, most"):
        ledger.submissions.submit(call("a", options=Options(size=(5, 1))))
    assert rows(ledger, "task_id") == []


def test_a_continuation_keeps_times_and_ids(ledger: Ledger) -> None:
    """Celery's messages have them, and its JSON writes them."""
    new = call(
        "a", continuation={"at": datetime(2026, 1, 1, tzinfo=UTC), "id": UUID(int=1)}
    )
    ledger.submissions.submit(new)
    ((stored,),) = rows(ledger, "continuation")
    assert isinstance(stored, dict)
    assert stored["at"]["__type__"] == "datetime"
    assert stored["id"]["__type__"] == "uuid"


# The message


def test_what_the_message_says_is_laid_over_what_the_caller_knew(
    ledger: Ledger,
) -> None:
    """A caller in a chain does not know what the worker before adds."""
    ledger.submissions.submit(call("a", continuation={"queue": "q", "chain": None}))
    stage = ledger.submissions.reached("a", {"chain": ["next"], "link": []})
    assert stage is Stage.SUBMITTED
    (stored,) = rows(ledger, "continuation")
    assert stored == ({"queue": "q", "chain": ["next"], "link": []},)


def test_a_message_that_comes_late_changes_nothing(ledger: Ledger) -> None:
    """Once somebody plans, what is to follow stays as it is."""
    ledger.submissions.submit(call("a", continuation={"chain": ["next"]}))
    assert ledger.plans.begin("a", "host:1:a", LEASE)
    assert ledger.submissions.reached("a", {"chain": None}) is Stage.PLANNING
    assert rows(ledger, "continuation") == [({"chain": ["next"]},)]


def test_a_message_of_no_row_is_told(ledger: Ledger) -> None:
    """It was sent by a process that did not know the task: the worker submits it."""
    assert ledger.submissions.reached("a", {}) is None


def test_a_sent_message_is_noted_while_nobody_has_begun(ledger: Ledger) -> None:
    """With how long it may lie; afterwards the stage in hand has its own message."""
    ledger.submissions.submit(call("a"))
    ledger.submissions.sent("a", after=30.0)
    assert rows(ledger, "sent_at - submitted_at = interval '30 s'") == [(True,)]
    assert ledger.plans.begin("a", "host:1:a", LEASE)
    ledger.submissions.sent("a")
    assert rows(ledger, "sent_at - submitted_at = interval '30 s'") == [(True,)]


# Keys


def test_a_key_has_one_leader(ledger: Ledger) -> None:
    """A plain second call is given the first's job, and makes no row."""
    first = ledger.submissions.submit(call("a", "upload-1"))
    second = ledger.submissions.submit(call("b", "upload-1"))
    assert second == Submitted(job=first.job, task_id="a", fresh=False, leader="a")
    assert rows(ledger, "task_id") == [("a",)]


def test_other_keys_and_other_tasks_are_jobs_of_their_own(ledger: Ledger) -> None:
    """A key counts within a task; calls without one never meet."""
    calls = [
        call("a", "upload-1"),
        call("b", "upload-2"),
        call("c", "upload-1", task="proj.other"),
        call("d"),
        call("e"),
    ]
    assert all(ledger.submissions.submit(one).fresh for one in calls)


def test_a_call_that_needs_its_own_id_follows(ledger: Ledger) -> None:
    """In a canvas the step's id is awaited: it gets a row, and plans nothing."""
    first = ledger.submissions.submit(call("a", "upload-1"))
    second = ledger.submissions.submit(call("b", "upload-1"), follow=True)
    assert second.fresh
    assert (second.task_id, second.leader) == ("b", "a")
    assert rows(ledger, "task_id, follows") == [("a", None), ("b", first.job)]
    assert ledger.plans.begin("b", "host:1:a", LEASE) is None
    again = ledger.submissions.submit(call("b", "upload-1"), follow=True)
    assert again == Submitted(job=second.job, task_id="b", fresh=False, leader="a")


def test_a_key_is_free_once_its_leader_has_an_outcome(ledger: Ledger) -> None:
    """The next call is a new job."""
    ledger.submissions.submit(call("a", "upload-1"))
    decide(ledger, "a")
    assert ledger.submissions.submit(call("b", "upload-1")).fresh
    assert rows(ledger, "task_id, follows") == [("a", None), ("b", None)]


def test_who_follows_waits_for_whoever_decides(
    ledger: Ledger, open_ledger: Opened, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its leader is decided without it, and it waits for ever.

    The leader is being decided in an open transaction, after it was found: the call
    waits for that, and is then a job of its own.
    """
    other = open_ledger()
    found, deciding = threading.Event(), threading.Event()

    def meanwhile() -> None:
        found.set()
        deciding.wait(30.0)

    def slow(label: str, **params: object) -> Sequence[tuple[Any, ...]]:
        if label == "follow_job":  # it found a leader, and has not followed it yet
            meanwhile()
        return run(label, **params)

    run = other.database.run
    monkeypatch.setattr(other.submissions, "_run", slow)
    ledger.submissions.submit(call("a", "upload-1"))
    made: list[Submitted] = []
    new = call("b", "upload-1")
    thread = threading.Thread(
        target=lambda: made.append(other.submissions.submit(new, follow=True))
    )
    thread.start()
    assert found.wait(30.0)
    with ledger.database.transaction():
        decide(ledger, "a")
        deciding.set()
        eventually(lambda: made or waiting(dsn))
    thread.join()
    assert made == [Submitted(job=made[0].job, task_id="b", fresh=True)]


def test_whoever_decides_sees_who_followed_before(
    ledger: Ledger, open_ledger: Opened, dsn: str
) -> None:
    """A follower whose row could not be read yet when its leader was decided."""
    other = open_ledger()
    leader = ledger.submissions.submit(call("a", "upload-1"))
    decided: list[bool] = []
    error = {"type": "ValueError", "module": "builtins", "args": [], "message": ""}
    thread = threading.Thread(
        target=lambda: decided.append(
            other.outcomes.decide(leader.job, Outcome.FAILED, error=error)
        )
    )
    with ledger.database.transaction():
        ledger.submissions.submit(call("b", "upload-1"), follow=True)
        thread.start()
        eventually(lambda: decided or waiting(dsn))
    thread.join()
    assert decided == [True]
    assert rows(ledger, "task_id, stage, outcome") == [
        ("a", "delivering", "failed"),
        ("b", "delivering", "failed"),
    ]


def test_of_many_calls_at_once_one_leads(ledger: Ledger, open_ledger: Opened) -> None:
    """The index decides; nobody asks first and writes then."""
    ledgers = [open_ledger() for _ in range(6)]
    gate = threading.Barrier(len(ledgers))
    made: list[Submitted] = []

    def submit(at: int) -> None:
        gate.wait()
        made.append(ledgers[at].submissions.submit(call(f"t{at}", "upload-1")))

    threads = [threading.Thread(target=submit, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.task_id for one in made}) == 1
    assert [one.fresh for one in made].count(True) == 1
    assert len(rows(ledger, "job")) == 1


# Taking back


def test_a_call_whose_message_was_not_sent_is_withdrawn(ledger: Ledger) -> None:
    """The caller got an error: nothing is left half-created, and the key is free."""
    ledger.submissions.submit(call("a", "upload-1"))
    assert ledger.submissions.withdraw("a")
    assert ledger.submissions.withdraw("a")
    assert rows(ledger, "task_id") == []


def test_a_call_that_was_begun_or_is_followed_stays(ledger: Ledger) -> None:
    """Its message did arrive, or another's outcome hangs on it."""
    ledger.submissions.submit(call("a"))
    assert ledger.plans.begin("a", "host:1:a", LEASE)
    assert not ledger.submissions.withdraw("a")
    ledger.submissions.submit(call("b", "upload-1"))
    ledger.submissions.submit(call("c", "upload-1"), follow=True)
    assert not ledger.submissions.withdraw("b")
    assert rows(ledger, "task_id") == [("a",), ("b",), ("c",)]


def waiting(dsn: str) -> bool:
    """Whether a statement of the database waits for a row."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return bool(
            connection.execute(
                "select 1 from pg_stat_activity where datname = current_database()"
                " and wait_event_type = 'Lock'"
            ).fetchall()
        )
