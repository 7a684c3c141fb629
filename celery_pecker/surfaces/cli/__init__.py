"""``celery -A proj pecker …``: the command line.

``context`` is what every command works with. A command is imported when it is called.

    now                  what is wrong, causes first; also without any command
    schedule             entries and stored schedules: list, show, set, pause, run, …
    outbox               what waits in an outbox, and what people do to it
    observer, observe    hosts, what runs where, and commands for observers; run them
    alarm                what rings, and a trial
    job, limit           those of sharding and throttle
    audit, history       who did what; figures of an entry over time
    health, doctor       for probes, and for people whose probes fail
    migrate              the tables
    import, export       from another scheduler, and back
    leave                what is left to do here, and what to take out
    intake               record tasks over HTTP
    flower               Flower with our pages, where it is installed

Every command waits for a server in bounded time. Exit codes: 0 yes or done; 1 no, or
refused; 2 not understood; 3 unknown, because a server gave no answer.
"""

from celery_pecker import worker
from celery_pecker.kernel import hidden_settings
from celery_pecker.schedules.declarations.task_entries import record_duplicates
from celery_pecker.surfaces.console.group import LazyGroup

# The celery command imports this module before it loads the app (entry point
# celery.commands): the one moment at which what only settings ask for can be hooked in.
hidden_settings.hide()
record_duplicates()
worker.connect()

CLI = "celery_pecker.surfaces.cli"
GATE = "celery_pecker.surfaces.console.entry_points:throttle"
SCHEDULE = {
    "history": f"{CLI}.schedules:history",
    "list": f"{CLI}.tasks:tasks",
    "next": f"{CLI}.upcoming:next_",
    "once": f"{CLI}.schedules_edit:once",
    "pause": f"{CLI}.actions:pause",
    "remove": f"{CLI}.schedules_edit:remove",
    "rename": f"{CLI}.schedules_edit:rename",
    "resume": f"{CLI}.actions:resume",
    "run": f"{CLI}.actions:run",
    "set": f"{CLI}.schedules_edit:set_",
    "show": f"{CLI}.explain:explain",
    "stored": f"{CLI}.schedules:schedules",
}
LIMIT = {
    "explain": f"{GATE} explain",
    "list": f"{GATE} top",
    "record": f"{GATE} record",
    "set": f"{GATE} limit",
}
OWN = (
    *("audit", "doctor", "health", "history", "intake"),
    *("leave", "migrate", "now", "observe", "outbox"),
)
"""Commands that stand in a module of their name."""
COMMANDS = {
    **{name: f"{CLI}.{name}:{name}" for name in OWN},
    "alarm": f"{CLI}.alarms:alarms",
    "export": f"{CLI}.import_export:export",
    "flower": "celery_pecker.surfaces.flower.command:flower",
    "import": f"{CLI}.import_export:import_",
    "job": "celery_sharding.cli:sharding",
    "observer": f"{CLI}.observers:observers",
}
FLAT = {
    "alarms": f"{CLI}:pecker alarm",
    "explain": f"{CLI}:pecker schedule show",
    "observers": f"{CLI}:pecker observer",
    "schedules": f"{CLI}.schedules:schedules",
    "tasks": f"{CLI}:pecker schedule list",
    **{
        verb: f"{CLI}:pecker schedule {verb}"
        for verb in SCHEDULE.keys() - {"history", "list", "show", "stored"}
    },
}
"""Names from before there were nouns, which go on."""

pecker = LazyGroup(
    "pecker",
    summary="Schedules that keep their pace whatever dies.",
    commands={**COMMANDS, **FLAT},
    usual="now",
    needs={"flower": "flower"},
    hidden=FLAT,
)
for noun, summary, verbs in (
    ("schedule", "Entries, of code and stored: when they run, and edits.", SCHEDULE),
    ("limit", "Databases behind the gate: what they get, and their limits.", LIMIT),
):
    group = LazyGroup(
        noun, summary=summary, commands=verbs, usual="list", under="pecker"
    )
    pecker.add_command(group)
