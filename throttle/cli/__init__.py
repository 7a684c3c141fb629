"""``celery -A proj throttle …``: the command line.

``context`` is what every command works with. A command is imported when it is called.

    top       traffic against the limit, shares and what is held, live
    record    a run: traffic, limit and held over time, as a chart or as JSON
    limit     another limit for a while, for the whole fleet
    explain   which worker holds a task back, and why
    check     what a worker would say of the settings, Redis and the route at its start
    serve     the service before Redis

Every command waits for Redis in bounded time. Exit codes: 0 yes or done; 1 no, or
refused; 2 not understood; 3 unknown, because a server gave no answer.
"""

from celery_pecker.surfaces.console.group import LazyGroup
from throttle import worker

# The celery command imports this module before it loads the app (entry point
# celery.commands): the one moment at which what only settings ask for can be hooked in.
worker.connect()

COMMANDS = {
    "check": "throttle.cli.check:check",
    "explain": "throttle.cli.explain:explain",
    "limit": "throttle.cli.limit:limit",
    "record": "throttle.cli.record:record",
    "serve": "throttle.cli.serve:serve",
    "top": "throttle.cli.top:top",
}

throttle = LazyGroup(
    "throttle",
    summary="A gate before the pool slot: what it sees, and what it holds.",
    commands=COMMANDS,
)
