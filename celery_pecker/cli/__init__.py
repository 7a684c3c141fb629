"""``celery -A proj pecker …``: the command line.

``context`` is what every command works with. A command is imported when it is called.

    migrate              the tables
    tasks, next          what there is and when it is due
    explain              why a task did not run
    run, pause, resume   what people do to an entry
    set, once, rename, remove    stored schedules, changed while everything runs
    schedules            which there are, and their changes
    alarms               what rings, and a trial
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

from celery_pecker import declarations, hidden_settings, worker
from celery_pecker.console.group import LazyGroup

# The celery command imports this module before it loads the app (entry point
# celery.commands): the one moment at which what only settings ask for can be hooked in.
hidden_settings.hide()
declarations.record_duplicates()
worker.connect()

COMMANDS = {
    "alarms": "celery_pecker.cli.alarms:alarms",
    "doctor": "celery_pecker.cli.doctor:doctor",
    "explain": "celery_pecker.cli.explain:explain",
    "export": "celery_pecker.cli.import_export:export",
    "flower": "celery_pecker.flower.command:flower",
    "health": "celery_pecker.cli.health:health",
    "intake": "celery_pecker.cli.intake:intake",
    "import": "celery_pecker.cli.import_export:import_",
    "leave": "celery_pecker.cli.leave:leave",
    "migrate": "celery_pecker.cli.migrate:migrate",
    "observe": "celery_pecker.cli.observe:observe",
    "next": "celery_pecker.cli.upcoming:next_",
    "observers": "celery_pecker.cli.observers_actions:observers",
    "once": "celery_pecker.cli.schedules_edit:once",
    "outbox": "celery_pecker.cli.outbox_load:outbox",
    "pause": "celery_pecker.cli.actions:pause",
    "remove": "celery_pecker.cli.schedules_edit:remove",
    "rename": "celery_pecker.cli.schedules_edit:rename",
    "resume": "celery_pecker.cli.actions:resume",
    "run": "celery_pecker.cli.actions:run",
    "schedules": "celery_pecker.cli.schedules:schedules",
    "set": "celery_pecker.cli.schedules_edit:set_",
    "tasks": "celery_pecker.cli.tasks:tasks",
}

pecker = LazyGroup(
    "pecker",
    summary="Schedules that keep their pace whatever dies.",
    commands=COMMANDS,
    needs={"flower": "flower"},
)
