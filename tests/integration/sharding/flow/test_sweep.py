"""Whatever a dead process left is taken up: no message is load-bearing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import psycopg
import pytest
from celery import Celery
from celery.app.trace import build_tracer
from celery.signals import before_task_publish

from celery_pecker import deadline
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.runs import guard as inheritance
from celery_pecker.testing.manual import ManualPecker
from celery_sharding import Sharding, flow, sweeper
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.messages import PURGE, SWEEP, WORK
from celery_sharding.model import Options, Outcome, Placement, Planned, Stage
from tests.integration.sharding.conftest import Planner, Time
from tests.integration.sharding.flow.conftest import Lying
from tests.integration.sharding.shift import LEASE, ended, run_job, run_layer, taken

# redis-py says so of what Celery's backend calls.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")

Tell = Callable[..., None]
Submit = Callable[..., str]


@pytest.fixture(autouse=True)
def by_the_database(time: Time) -> None:
    """All ledgers go by the database's clock: the sweeper has one of its own."""
    time.at = None


def later(tell: Tell, seconds: float = 60.0) -> None:
    """All that stands in the ledger was written so much earlier."""
    moved = {
        "jobs": (
            "leased_until",
            "sent_at",
            "submitted_at",
            "reported_at",
            "deadline_at",
        ),
        "tickets": ("sent_at", "leased_until", "wake_at", "resend_at"),
        "executors": ("seen_at",),
    }
    for table, columns in moved.items():
        sets = ", ".join(f"{one} = {one} - interval '{seconds} s'" for one in columns)
        tell(f"update pecker_{table} set {sets}")  # noqa: S608


# Each stage


def test_a_job_whose_message_was_lost_gets_another(
    app: Celery, submitted: Submit, lying: Lying, tell: Tell
) -> None:
    """At once where nobody wrote that it was sent, else when it was not taken."""
    task_id = submitted()
    sweeper.sweep(app)
    assert [one.id for one in lying()] == [task_id]
    sweeper.sweep(app)
    assert lying() == []
    later(tell)
    sweeper.sweep(app)
    assert [one.id for one in lying()] == [task_id]


def test_a_job_that_may_not_start_yet_is_left_alone(
    app: Celery, ledger: Ledger, submitted: Submit, lying: Lying
) -> None:
    """Its message lies with a worker until then."""
    ledger.submissions.sent(submitted(), after=3_600)
    sweeper.sweep(app)
    assert lying() == []


def test_a_planner_that_died_is_followed_by_another(
    app: Celery, ledger: Ledger, submitted: Submit, lying: Lying, tell: Tell
) -> None:
    """Once its lease is over."""
    task_id = submitted()
    ledger.submissions.sent(task_id)
    assert ledger.plans.begin(task_id, "dead:1:a", LEASE) is not None
    sweeper.sweep(app)
    assert lying() == []
    later(tell)
    sweeper.sweep(app)
    assert [one.id for one in lying()] == [task_id]


def test_shards_of_a_dead_worker_go_on(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """Its ticket is sent anew."""
    ready = planned(((1,),))
    turn = taken(ledger, ready.job)
    ledger.shards.claim(turn.hold, layer=0, most=1)
    assert sweeper.sweep(app)["lapsed"] == 0
    assert lying() == []
    later(tell)
    assert sweeper.sweep(app)["lapsed"] == 1
    assert [one.args for one in lying()] == [[ready.job, 1, turn.hold.seq + 1]]


def test_a_ticket_that_was_lost_is_sent_again(
    app: Celery, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """With the same number: a copy of it that comes late is nobody's."""
    ready = planned(((1,),))
    sweeper.sweep(app)
    first = lying()
    sweeper.sweep(app)
    assert lying() == []
    later(tell)
    sweeper.sweep(app)
    assert [one.args for one in lying()] == [one.args for one in first]
    assert first[0].args == [ready.job, 1, 0]


def test_a_layer_whose_last_worker_died_is_closed(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """It had written its last shard, and said nothing more."""
    ready = planned(((1,), (1,)))
    run_layer(ledger, ready.job)
    sweeper.sweep(app)
    assert ledger.reading.job(ready.task_id).layer == 1
    assert [one.task for one in lying()] == [WORK]
    later(tell)
    run_layer(ledger, ready.job)
    sweeper.sweep(app)
    assert [one.id for one in lying()] == [ready.task_id]


def test_a_post_that_was_left_is_called_for_again(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """And so is an outcome that was not told."""
    ready = planned()
    run_job(ledger, ready.job)
    sweeper.sweep(app)
    assert [one.id for one in lying()] == [ready.task_id]
    assert ledger.outcomes.begin_post(ready.task_id, "dead:1:a", LEASE) is not None
    sweeper.sweep(app)
    assert lying() == []
    later(tell)
    sweeper.sweep(app)
    assert [one.id for one in lying()] == [ready.task_id]
    turn = ledger.outcomes.begin_post(ready.task_id, "dead:2:a", LEASE)
    assert turn is not None
    assert ledger.outcomes.post_done(turn, b"j1", lease=LEASE)
    sweeper.sweep(app)
    assert lying() == []
    later(tell)
    sweeper.sweep(app)
    assert [one.id for one in lying()] == [ready.task_id]


def test_an_ended_or_paused_job_is_left_alone(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """Nothing is to be done."""
    ready = planned()
    run_job(ledger, ready.job)
    ended(ledger, ready.task_id)
    paused = planned()
    ledger.control.pause(paused.task_id)
    later(tell)
    assert sweeper.sweep(app)["moved"] == 0
    assert lying() == []


def test_a_follower_that_was_overlooked_shares_the_outcome(
    app: Celery, ledger: Ledger, submitted: Submit, tell: Tell
) -> None:
    """Its leader was decided while it came."""
    leader = submitted(key="k")
    new = NewJob(
        task_id="follower",
        task="proj.import_rows",
        args=(),
        kwargs={},
        continuation={},
        options=Options(),
        key="k",
    )
    ledger.submissions.submit(new, follow=True)
    ledger.control.cancel(leader)
    tell(
        "update pecker_jobs set stage = 'submitted', outcome = null"
        " where task_id = 'follower'"
    )
    sweeper.sweep(app)
    decided = ledger.outcomes.decided("follower")
    assert decided is not None
    assert (decided.stage, decided.outcome) == (Stage.ENDED, Outcome.CANCELLED)
    assert str(app.AsyncResult("follower").state) == "REVOKED"


# Deadlines


def test_a_job_beyond_its_deadline_has_failed(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """Not before; and not once its items have ended."""
    ready = planned(deadline=30)
    posting = planned(deadline=30)
    run_job(ledger, posting.job)
    sweeper.sweep(app)
    assert ledger.reading.job(ready.task_id).outcome is None
    later(tell)
    assert sweeper.sweep(app)["late"] == 1
    decided = ledger.outcomes.decided(ready.task_id)
    assert decided is not None
    assert decided.error is not None
    assert decided.error["type"] == "JobDeadlineExceeded"
    assert "within 30 s of its submission" in decided.error["message"]
    assert ledger.reading.job(posting.task_id).outcome is None


# Placement


def test_shards_of_a_worker_that_is_gone_are_dealt_to_others(
    app: Celery, ledger: Ledger, submitted: Submit, tell: Tell
) -> None:
    """Only those move, and evenly; to anybody where no worker is left."""
    task_id = submitted(placement=Placement.EVEN)
    turn = ledger.plans.begin(task_id, "planner:1:a", LEASE)
    assert turn is not None
    owners = ["a", "a", "a", "b", "b", "b", "c", "c", "c"]
    shards = [Planned(layer=0, count=1, body=b"j[1]", owner=one) for one in owners]
    ledger.plans.write(turn, shards)

    def dealt() -> list[str | None]:
        rows = ledger.database._connected().execute(
            "select owner from pecker_shards order by shard"
        )
        return [row[0] for row in rows]

    for name in "abc":
        ledger.upkeep.record_worker(
            name, 1, f"{name}.dq", queues=[app.conf.task_default_queue]
        )
    assert sweeper.sweep(app)["dealt"] == 0
    ledger.upkeep.record_worker_end("a")
    assert sweeper.sweep(app)["dealt"] == 3
    assert dealt() == ["b", "b", "c", *owners[3:]]
    ledger.upkeep.record_worker_end("b")
    ledger.upkeep.record_worker_end("c")
    sweeper.sweep(app)
    assert set(dealt()) == {None}


# The sweep itself

VERY_MANY = 300
"""Jobs; more than a sweep takes of one kind."""
OPEN = """
insert into pecker_jobs (task_id, task, stage, concurrency, options, call, continuation,
    layers, total, submitted_at)
select 'open' || nth, task, stage, concurrency, options, call, continuation, layers,
    total, submitted_at
from pecker_jobs, generate_series(1, 300) as nth;
insert into pecker_layers (job, layer, total, shards, open)
select job, 0, 1, 1, 1 from pecker_jobs where stage = 'sharding' and job > %s;
insert into pecker_shards (job, shard, layer, origin, hi)
select job, 0, 0, 0, 1 from pecker_jobs where stage = 'sharding' and job > %s;
insert into pecker_tickets (job, ticket)
select job, 1 from pecker_jobs where stage = 'sharding' and job > %s;
update pecker_jobs set stage = 'ended' where job = %s
"""


@pytest.fixture
def very_many(planned: Planner, tell: Tell) -> list[int]:
    """Give open jobs of a shard each, with tickets that nobody has sent."""
    first = planned(((1,),)).job
    for part in OPEN.split(";\n"):
        tell(part, *[first] * part.count("%s"))
    return [first + nth for nth in range(1, VERY_MANY + 1)]


def sent_for(lying: Lying) -> list[int]:
    """Return the jobs whose tickets were sent."""
    return [one.args[0] for one in lying()]


def test_what_is_lost_is_found_among_very_many_open_jobs(
    app: Celery, very_many: list[int], lying: Lying, tell: Tell
) -> None:
    """By the next sweep: a dead holder, a message that is lost, a closed layer."""
    tell(
        "update pecker_tickets set state = 'sent', sent_at = now(),"
        " resend_at = now() + interval '1 minute'"
    )
    held, sent, closed = very_many[-3:]
    tell(
        "update pecker_tickets set state = 'held', seq = 1, holder = 'dead:1:a',"
        " leased_until = now() where job = %s",
        held,
    )
    tell("update pecker_tickets set resend_at = now() where job = %s", sent)
    tell("update pecker_shards set status = 301 where job = %s", closed)
    tell("update pecker_layers set open = 0 where job = %s", closed)
    swept = sweeper.sweep(app)
    assert (swept["lapsed"], swept["resent"]) == (1, 1)
    tickets = [one.args[0] for one in lying() if one.task == WORK]
    assert sorted(tickets) == [held, sent]
    assert at(app).reading.job(f"open{VERY_MANY}").stage is Stage.POSTING
    assert sweeper.sweep(app)["moved"] == 0


def test_jobs_whose_tickets_rest_take_no_sweep_from_others(
    app: Celery, very_many: list[int], lying: Lying, tell: Tell
) -> None:
    """As where a gate is closed: they are not due before it is asked once more."""
    tell("update pecker_jobs set concurrency = 1")
    tell("update pecker_tickets set wake_at = now() + interval '1 minute'")
    *_, ready = very_many
    tell("update pecker_tickets set wake_at = null where job = %s", ready)
    assert sweeper.sweep(app)["moved"] == 1
    assert sent_for(lying) == [ready]


def test_overdue_tickets_of_a_paused_job_are_laid_down(
    app: Celery, very_many: list[int], lying: Lying, tell: Tell
) -> None:
    """They would stand before all others in each sweep; on resume they are sent."""
    tell(
        "update pecker_tickets set state = 'sent', sent_at = now() - interval '1 h',"
        " resend_at = now() - interval '1 h'"
    )
    paused, *others = very_many
    ledger = at(app)
    ledger.control.pause("open1")
    assert sweeper.sweep(app)["resent"] == len(others)
    assert sorted(sent_for(lying)) == others
    flow.advance_job(app, ledger, ledger.control.resume("open1"))
    assert sent_for(lying) == [paused]


def test_a_job_that_cannot_be_moved_keeps_no_other_waiting(
    app: Celery,
    planned: Planner,
    lying: Lying,
    tell: Tell,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged."""
    broken, well = planned(((1,),)), planned(((1,),))
    tell(
        "update pecker_jobs set options = '{\"size\": null}' where job = %s", broken.job
    )
    with caplog.at_level(logging.ERROR):
        assert sweeper.sweep(app)["moved"] == 1
    assert f"sweeping the sharded job {broken.job} failed" in caplog.text
    assert [one.args[0] for one in lying()] == [well.job]


def test_it_is_said_that_no_worker_is_there(
    app: Celery,
    ledger: Ledger,
    planned: Planner,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once in a minute, as long as jobs wait."""
    quiet = OnceAMinute(
        logging.getLogger("celery_sharding.sweeper"), prefix="sharding: "
    )
    monkeypatch.setattr(sweeper, "_complaints", quiet)
    said = "k_sc_ec_300006: 1 sharded jobs wait for a worker that runs them"
    with caplog.at_level(logging.WARNING):
        sweeper.sweep(app)
        assert said not in caplog.text
        planned()
        sweeper.sweep(app)
        assert said in caplog.text
        caplog.clear()
        sweeper.sweep(app)
        assert said not in caplog.text
        ledger.upkeep.record_worker("a@host", 4)
        sweeper.sweep(app)
        assert said not in caplog.text


def all_go_on(app: Celery) -> None:
    """All jobs go on, under the deadline of who says so."""
    for job in at(app).upkeep.due(resend=10.0).jobs:
        flow.advance_job(app, at(app), job)


@pytest.fixture
def handed_on() -> Iterator[None]:
    """Messages tell of the deadline that they are sent under, as in a worker."""
    inheritance.connect()
    yield
    before_task_publish.disconnect(dispatch_uid=inheritance.UID)


@pytest.mark.parametrize("sent_by", [sweeper.sweep, all_go_on])
def test_what_is_sent_does_not_inherit_the_senders_deadline(
    app: Celery,
    planned: Planner,
    lying: Lying,
    handed_on: None,
    sent_by: Callable[[Celery], object],
) -> None:
    """A ticket would be struck in the middle of its shards."""
    planned(((1,),))
    with deadline.within(0.9):
        sent_by(app)
    [ticket] = lying()
    assert not [name for name in ticket.headers if name.startswith("pecker")]


def test_a_database_that_is_busy_or_away_is_no_error_of_the_sweeper(
    app: Celery, planned: Planner, tell: Tell, caplog: pytest.LogCaptureFixture
) -> None:
    """One line, and the next sweep goes on; it had a traceback for each job."""
    planned(((1,),))
    with caplog.at_level(logging.WARNING):
        tell("alter table pecker_layers rename to pecker_layers_away")
        tell(
            "create function busy() returns bigint language plpgsql as $$ begin"
            " raise sqlstate '57014' using message = 'statement timeout'; end $$"
        )
        tell(
            "create view pecker_layers as select layer.*, busy() as nothing"
            " from pecker_layers_away as layer"
        )
        assert sweeper.sweep(app) == {}
    lines = [one for one in caplog.records if one.name.startswith("celery_")]
    assert {(one.levelname, one.exc_info) for one in lines} == {("WARNING", None)}
    assert "ended early, the next goes on" in caplog.text


@pytest.mark.parametrize(
    "held",
    [
        "lock table pecker_tickets",
        "select 1 from pecker_jobs for update",
    ],
    ids=["before any job", "at a job"],
)
def test_a_sweep_that_is_struck_leaves_no_statement_behind(
    app: Celery,
    planned: Planner,
    dsn: str,
    caplog: pytest.LogCaptureFixture,
    held: str,
) -> None:
    """On gevent its run is ended where it waits: the next sweep failed by that, too."""
    planned(((1,),))
    with caplog.at_level(logging.WARNING), psycopg.connect(dsn) as busy:
        busy.execute(held.encode())
        with deadline.within(0.3), deadline.enforce("prefork"):
            sweeper.sweep(app)
        busy.rollback()
        assert sweeper.sweep(app)
    lines = [one for one in caplog.records if one.name.startswith("celery_")]
    assert {(one.levelname, one.exc_info) for one in lines} == {("WARNING", None)}
    assert sum(": the deadline" in one.getMessage() for one in lines) == 1


# Declaring


@pytest.mark.parametrize("name", [SWEEP, PURGE])
def test_a_sweep_that_went_well_is_no_line_of_the_log(
    app: Celery, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """There is one each second."""
    app.finalize()
    task = app.tasks[name]
    with caplog.at_level(logging.INFO):
        build_tracer(name, task, app=app)("one", [], {}, {"id": "one"})
    assert (f"Task {name}" in caplog.text) is (name == PURGE)


def test_a_scheduler_that_woke_for_the_sweep_only_is_no_line_of_the_log(
    app: Celery, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With another entry it is: that one is somebody's."""
    app.finalize()
    app.conf.beat_schedule["hourly"] = {"task": "t", "schedule": 3_600.0}
    with caplog.at_level(logging.INFO), ManualPecker(app, dsn=dsn) as pecker:
        assert len(pecker.pass_time(10.5)) == 10
        assert "pecker: woke" not in caplog.text
        pecker.clock.advance_us(3_590_000_000)
        pecker.turn()
        assert "pecker: woke" in caplog.text


def test_the_app_has_the_two_schedules(app: Celery) -> None:
    """Sent, where there is a scheduler of its own; on a worker's thread, where not."""
    app.finalize()
    assert app.conf.beat_schedule[SWEEP] == {
        "task": SWEEP,
        "schedule": 1.0,
        "options": {"expires": 1.0},
    }
    assert app.conf.beat_schedule[PURGE]["schedule"] == 3_600.0


def test_workers_that_are_schedulers_sweep_on_a_thread(dsn: str) -> None:
    """And what the app says of such an entry itself stays."""
    made = Celery("own", broker="memory://", set_as_current=False)
    made.conf.update(
        pecker_dsn=dsn,
        pecker_worker={"scheduler"},
        beat_schedule={PURGE: {"task": PURGE, "schedule": 60.0}},
    )
    Sharding(made)
    made.finalize()
    assert made.conf.beat_schedule == {
        PURGE: {"task": PURGE, "schedule": 60.0},
        SWEEP: {"task": SWEEP, "schedule": 1.0, "pecker": {"run": "local"}},
    }
    made.close()


# The purge


def test_jobs_that_ended_long_ago_are_forgotten(
    app: Celery, ledger: Ledger, planned: Planner, tell: Tell
) -> None:
    """With all that hangs on them; others stay."""
    old, young, running = planned(), planned(), planned()
    for ready in (old, young):
        run_job(ledger, ready.job, {(0, 1)})
        ended(ledger, ready.task_id)
    tell(
        "update pecker_jobs set ended_at = ended_at - interval '8 days' where job = %s",
        old.job,
    )
    ledger.submissions.store("old", b"j[]", 0)
    ledger.submissions.store("young", b"j[]", 0)
    tell(
        "update pecker_inputs set stored_at = stored_at - interval '8 days'"
        " where ref = 'old'"
    )
    assert sweeper.purge(app) > 0
    tables = ("jobs", "layers", "shards", "items", "results", "item_errors", "tickets")
    for table in tables:
        rows = ledger.database._connected().execute(
            f"select distinct job from pecker_{table}".encode()  # noqa: S608
        )
        left = {row[0] for row in rows}
        expected = {young.job, running.job}
        if table in {"results", "item_errors"}:
            expected = {young.job}
        assert left == expected, table
    rows = ledger.database._connected().execute("select ref from pecker_inputs")
    assert [row[0] for row in rows] == ["young"]
    assert sweeper.purge(app) == 0


def test_the_purge_takes_small_bites(
    ledger: Ledger, planned: Planner, tell: Tell
) -> None:
    """And the job itself last: nothing is left without a name."""
    ready = planned(((1,) * 25,))
    run_job(ledger, ready.job)
    ended(ledger, ready.task_id)
    tell("update pecker_jobs set ended_at = ended_at - interval '1 day'")
    bites = []
    while gone := ledger.upkeep.purge(60.0, most=10):
        bites.append(gone)
        rows = ledger.database._connected().execute("select job from pecker_shards")
        if rows.fetchone():
            assert ledger.reading.job(ready.task_id).job == ready.job
    assert len(bites) == 3
    assert max(bites) <= 10 * 6 + 1


def test_a_leader_is_kept_for_who_follows_it(
    ledger: Ledger, submitted: Submit, tell: Tell
) -> None:
    """Even where nothing is to be kept."""
    leader = submitted(key="k")
    new = NewJob(
        task_id="follower",
        task="proj.import_rows",
        args=(),
        kwargs={},
        continuation={},
        options=Options(),
        key="k",
    )
    ledger.submissions.submit(new, follow=True)
    ledger.control.cancel(leader)
    tell(
        "update pecker_jobs set stage = 'ended', ended_at = clock_timestamp()"
        " where task_id = %s",
        leader,
    )
    ledger.upkeep.purge(0.0)
    assert ledger.reading.job(leader).task_id == leader


def test_items_of_a_job_that_waits_for_long_are_kept(
    ledger: Ledger, submitted: Submit, tell: Tell
) -> None:
    """It is not planned yet; nor are those of a call that is just being made."""
    ledger.submissions.store("mine", b"j[]", 0)
    ledger.upkeep.purge(0.0)
    submitted()
    tell("update pecker_jobs set submitted_at = submitted_at - interval '8 days'")
    tell("update pecker_inputs set stored_at = stored_at - interval '8 days'")
    ledger.upkeep.purge(86_400.0)
    assert ledger.submissions.load("mine") == b"j[]"
    tell("update pecker_jobs set stage = 'sharding'")
    ledger.upkeep.purge(86_400.0)
    with pytest.raises(LookupError):
        ledger.submissions.load("mine")


# Workers


def test_workers_count_while_they_are_heard(ledger: Ledger, tell: Tell) -> None:
    """For fifteen seconds each time."""
    assert ledger.upkeep.slots() is None
    ledger.upkeep.record_worker("a@host", 4, "a.dq")
    ledger.upkeep.record_worker("b@host", 2)
    ledger.upkeep.record_worker("b@host", 3)
    assert ledger.upkeep.slots() == 7
    assert [
        (one.hostname, one.slots, one.direct_queue)
        for one in ledger.placements.serving(None)
    ] == [
        ("a@host", 4, "a.dq"),
        ("b@host", 3, None),
    ]
    ledger.upkeep.record_worker_end("b@host")
    assert ledger.upkeep.slots() == 4
    later(tell, 16)
    assert ledger.upkeep.slots() is None
    later(tell, 86_400)
    ledger.upkeep.purge(0.0)
    ledger.upkeep.record_worker("a@host", 1)
    assert len(ledger.placements.serving(None)) == 1


def test_the_sweepers_ledger_is_its_own(app: Celery) -> None:
    """The application name tells it from a runner's in pg_stat_activity."""
    name = (
        at(app, role="sweeper")
        .database._connected()
        .execute("select current_setting('application_name')")
    )
    assert name.fetchall() == [("celery_sharding:sweeper",)]
