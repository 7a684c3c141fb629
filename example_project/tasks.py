"""The tasks: find what must be checked, check it, and a pulse that needs no broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from celery import Task
from celery.utils.log import get_task_logger

from celery_pecker import deadline, runs
from celery_pecker.kernel.clock import SYSTEM, new_id
from example_project.app import DSN, app
from example_project.ask import ask
from example_project.pace import AGAIN, BATCH, STALE
from example_project.store import Store

log = get_task_logger(__name__)
store = Store(DSN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What the message's `pecker` header says of the slot that it was sent for."""

    name: str
    due_at: str
    era: int
    epoch: int

    @classmethod
    def of(cls, task: Task[Any, Any]) -> Slot | None:
        """Return the slot of the running message; None when nobody claimed one."""
        header = (task.request.headers or {}).get("pecker")
        if not header:
            return None
        return cls(**{field: header[field] for field in cls.__slots__})


@app.task(bind=True, name="example_project.tasks.sweep")
def sweep(self: Task[Any, Any]) -> int:
    """Live calls not checked lately have a check on its way; how many."""
    began = SYSTEM.monotonic()
    run = new_id()
    slot = Slot.of(self)
    if slot is not None:
        store.rows(
            "record_run",
            id=run,
            task_id=self.request.id,
            name=slot.name,
            due_at=slot.due_at,
            era=slot.era,
            epoch=slot.epoch,
            since=SYSTEM.monotonic() - began,
            worker=self.request.hostname,
        )
    taken = store.rows("take_stale_calls", stale=STALE, again=AGAIN, batch=BATCH)
    if taken:
        # A check has time of its own, not what is left of this second.
        with deadline.detached(), app.producer_or_acquire() as producer:
            for (call,) in taken:
                check.apply_async((call,), producer=producer, expires=AGAIN)
    store.rows("close_run", id=run, taken=len(taken))
    return len(taken)


@app.task(bind=True, name="example_project.tasks.check")
def check(self: Task[Any, Any], call: int) -> None:
    """The call's three parts were asked, and what they answered is on record."""
    began = SYSTEM.monotonic()
    found = store.row("addresses_of_call", call=call)
    if found is None:
        return
    agent_at, backend_at, equipment_at = found[0:2], found[2:4], found[4:6]
    # The backend first: it is the one that hangs up on calls nobody asks about.
    backend = ask(backend_at, "backend", call)
    agent = ask(agent_at, "agent", call)
    equipment = ask(equipment_at, "equipment", call)
    store.rows(
        "record_check",
        id=self.request.id,
        call=call,
        agent=agent,
        backend=backend,
        equipment=equipment,
        took=SYSTEM.monotonic() - began,
    )
    log.debug("call %s: agent %s, backend %s", call, agent, backend)


@app.task(bind=True, name="example_project.tasks.pulse")
def pulse(self: Task[Any, Any]) -> None:
    """This second is on record, whatever the broker does."""
    run = runs.current()
    if run is not None:
        store.rows(
            "record_pulse",
            due_at=run.due_at,
            era=run.era,
            epoch=run.epoch,
            worker=self.request.hostname,
        )
