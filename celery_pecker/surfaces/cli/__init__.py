"""``celery -A proj pecker …``: the command line.

``context`` is what every command works with. A command is imported when it is called.

    now                  what is wrong, causes first; also without any command
    migrate              the tables
    tasks, next          what there is and when it is due
    explain              why a task did not run
    run, pause, resume   what people do to an entry
    set, once, rename, remove    stored schedules, changed while everything runs
    schedules            which there are, and their changes
    alarms               what rings, and a trial
    audit                who did what
    history              figures of an entry over time
    outbox               what waits in an outbox, and what people do to it
    health, doctor       for probes, and for people whose probes fail
    import, export       from another scheduler, and back
    leave                what is left to do here, and what to take out
    intake               record tasks over HTTP
    observe              run the observers of the app
    observers            hosts, what runs where, and commands for observers
    flower               Flower with our pages, where it is installed

Every command waits for a server in bounded time. Exit codes: 0 yes or done; 1 no, or
refused; 2 not understood; 3 unknown, because a server gave no answer.
"""

from __future__ import annotations

from celery_pecker import worker
from celery_pecker.kernel import hidden_settings
from celery_pecker.schedules.declarations.task_entries import record_duplicates
from celery_pecker.surfaces.console.group import LazyGroup

# The celery command imports this module before it loads the app (entry point
# celery.commands): the one moment at which what only settings ask for can be hooked in.
hidden_settings.hide()
record_duplicates()
worker.connect()

COMMANDS = {
    "alarms": "celery_pecker.surfaces.cli.alarms:alarms",
    "audit": "celery_pecker.surfaces.cli.audit:audit",
    "doctor": "celery_pecker.surfaces.cli.doctor:doctor",
    "explain": "celery_pecker.surfaces.cli.explain:explain",
    "export": "celery_pecker.surfaces.cli.import_export:export",
    "flower": "celery_pecker.surfaces.flower.command:flower",
    "health": "celery_pecker.surfaces.cli.health:health",
    "history": "celery_pecker.surfaces.cli.history:history",
    "intake": "celery_pecker.surfaces.cli.intake:intake",
    "import": "celery_pecker.surfaces.cli.import_export:import_",
    "leave": "celery_pecker.surfaces.cli.leave:leave",
    "migrate": "celery_pecker.surfaces.cli.migrate:migrate",
    "observe": "celery_pecker.surfaces.cli.observe:observe",
    "next": "celery_pecker.surfaces.cli.upcoming:next_",
    "observers": "celery_pecker.surfaces.cli.observers:observers",
    "now": "celery_pecker.surfaces.cli.now:now",
    "once": "celery_pecker.surfaces.cli.schedules_edit:once",
    "outbox": "celery_pecker.surfaces.cli.outbox:outbox",
    "pause": "celery_pecker.surfaces.cli.actions:pause",
    "remove": "celery_pecker.surfaces.cli.schedules_edit:remove",
    "rename": "celery_pecker.surfaces.cli.schedules_edit:rename",
    "resume": "celery_pecker.surfaces.cli.actions:resume",
    "run": "celery_pecker.surfaces.cli.actions:run",
    "schedules": "celery_pecker.surfaces.cli.schedules:schedules",
    "set": "celery_pecker.surfaces.cli.schedules_edit:set_",
    "tasks": "celery_pecker.surfaces.cli.tasks:tasks",
}

pecker = LazyGroup(
    "pecker",
    summary="Schedules that keep their pace whatever dies.",
    commands=COMMANDS,
    usual="now",
    needs={"flower": "flower"},
)
