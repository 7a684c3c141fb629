"""A gate for Pecker's schedules: ``pecker_gate = "throttle.gate.schedules:gate"``.

Pecker's kernel asks before each claim which of the due entries to leave out. Those
whose task goes to a database at its limit, or whose cycle is used up, stay due and
follow their own misfire policy; all others run. Neither package knows the other: what
is shared is the shape of one method.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from throttle.gate import Gate
from throttle.model import Target
from throttle.route import Route, load
from throttle.settings import Settings


@dataclass(eq=False, repr=False)
class ScheduleGate:
    """Leaves out the entries of hot databases. Asked on one thread; never waits."""

    app: Any
    gate: Gate
    route: Route

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the due entries that have to wait.

        In the order of the names: they are due longest first. An entry that passes
        counts as started in this cycle, although another replica may claim it.
        """
        schedule: Mapping[str, Any] = self.app.conf.beat_schedule
        targets = {name: self._target(schedule.get(name)) for name in names}
        return [
            name
            for name, target in targets.items()
            if target is not None and not self.gate.admit(target.database).admitted
        ]

    def shut(self) -> Collection[str]:
        """Return the databases to which nothing may start now; takes nothing.

        For the alarms of the gate's caller.
        """
        return self.gate.shut()

    def _target(self, entry: Any) -> Target | None:
        if entry is None:
            return None
        get = entry.get if isinstance(entry, Mapping) else _attributes(entry)
        task = str(get("task"))
        headers = (get("options") or {}).get("headers") or {}
        return self.route.target(
            task,
            get("args") or (),
            get("kwargs") or {},
            headers,
            option=getattr(self.app.tasks.get(task), "throttle", None),
        )


def _attributes(entry: object) -> Any:
    return lambda name: getattr(entry, name, None)


def gate(app: Any) -> ScheduleGate:
    """Return the gate of an app, for ``pecker_gate``.

    Raises:
        Misconfigured: A setting, a limit or the route is wrong, or Redis is none.
    """
    settings = Settings.read(app.conf)
    route = Route(load(settings.route), settings.limits)
    return ScheduleGate(app, Gate(settings, wait=0.0), route)
