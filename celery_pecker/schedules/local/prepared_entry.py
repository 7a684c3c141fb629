"""An entry made ready to run here, and one slot of it that is to run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.utils.saferepr import saferepr
from kombu.exceptions import SerializationError
from kombu.serialization import dumps, loads

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.runs import Run, headers
from celery_pecker.schedules.local import tracer

MOST_SHOWN = 1_024
"""Characters of arguments that people are shown, as in Celery."""
IMPOSSIBLE = frozenset(
    {
        *("countdown", "eta", "time_limit", "soft_time_limit"),
        *("link", "link_error", "chain", "chord", "group_id", "task_id"),
    }
)
"""Options of `apply_async` that a local run cannot keep. Others are about the way of a
message: there is none."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An entry, checked, with its arguments as they would be on the wire.

    They are read anew for each run: what a task does to a list in its arguments is not
    there in its next run, and moving the entry to the broker and back changes nothing.
    """

    name: str
    task: Any
    headers: Mapping[str, Any]
    shadow: str | None
    serializer: str
    args: Any
    kwargs: Any
    wire: tuple[str, str, Any] | None
    """Type, encoding and body; None: some arguments are evaluated for each run."""
    argsrepr: str
    kwargsrepr: str

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of one run."""
        kind, encoding, body = self.wire or self._written(
            [_now(value) for value in self.args],
            {key: _now(value) for key, value in self.kwargs.items()},
        )
        args, kwargs = loads(body, kind, encoding, accept={kind})
        return list(args), dict(kwargs)

    def _written(self, args: Any, kwargs: Any) -> tuple[str, str, Any]:
        return dumps((args, kwargs), serializer=self.serializer)


def _now(value: Any) -> Any:
    return value() if isinstance(value, BeatLazyFunc) else value


def make_ready(entry: ScheduleEntry, tasks: Mapping[str, Any]) -> Ready:
    """Return the entry, ready to run.

    Raises:
        Misconfigured: it cannot run here.
    """
    name = str(entry.name)
    where = f"beat_schedule[{name!r}]"
    task = tasks.get(str(entry.task))
    if task is None:
        raise Misconfigured(
            f"{where} runs local, but this worker knows no task {str(entry.task)!r};"
            " allowed is a task that its app registers (see `imports`)"
        )
    options = dict(entry.options or {})
    for key, value in options.items():
        if key in IMPOSSIBLE and value is not None:
            raise Misconfigured(
                f"{where}['options'] has {key!r}, which a run in the worker that won it"
                " cannot keep; use ['pecker']['timeout'] to bound it in time, or"
                " 'run': 'dispatch'"
            )
    args, kwargs = entry.args or (), entry.kwargs or {}
    serializer = options.get("serializer") or task.serializer
    lazy = any(isinstance(value, BeatLazyFunc) for value in (*args, *kwargs.values()))
    try:
        wire = None if lazy else dumps((list(args), dict(kwargs)), serializer)
        if wire is not None:
            loads(wire[2], wire[0], wire[1], accept={wire[0]})
    except (SerializationError, TypeError, ValueError) as error:
        raise Misconfigured(
            f"{where}: its arguments cannot be written as {serializer}: {error}"
        ) from error
    return Ready(
        name=name,
        task=task,
        headers=dict(options.get("headers") or {}),
        shadow=options.get("shadow"),
        serializer=serializer,
        args=args,
        kwargs=kwargs,
        wire=wire,
        argsrepr=saferepr(list(args), MOST_SHOWN),
        kwargsrepr=saferepr(dict(kwargs), MOST_SHOWN),
    )


@dataclass(frozen=True, slots=True)
class SlotOrder:
    """One slot that was won here and is to run here."""

    ready: Ready
    run: Run
    task_id: str
    header: Mapping[str, Any]
    ends: float | None
    """By which monotonic moment the run must have ended."""
    latest: float
    """After which monotonic moment it does not start any more."""
    taken: float
    """When it was taken, by the monotonic clock."""

    @property
    def name(self) -> str:
        """The entry's name."""
        return self.ready.name

    def request(self, hostname: str) -> dict[str, Any]:
        """Return what a worker makes of a message, as if there had been one."""
        none = ("parent_id", "group", "eta", "expires", "callbacks", "errbacks")
        ours = {
            **self.ready.headers,
            **dict.fromkeys((*none, "chain", "chord")),
            "retries": 0,
            "pecker": dict(self.header),
            "lang": "py",
            "task": self.ready.task.name,
            "id": self.task_id,
            "root_id": self.task_id,
            "shadow": self.ready.shadow,
            "timelimit": [None, None],
            "argsrepr": self.ready.argsrepr,
            "kwargsrepr": self.ready.kwargsrepr,
            "origin": hostname,
        }
        return tracer.request_of(ours, self.task_id, hostname)


def order_of(
    ready: Ready, dispatch: Dispatch, taken: float, within: float, *, schema: str
) -> SlotOrder:
    """Return the order for a slot that was handed over at that moment."""
    return SlotOrder(
        ready=ready,
        run=cast("Run", headers.read(dispatch.header, schema=schema)),
        task_id=dispatch.task_id,
        header=dispatch.header,
        ends=dispatch.ends,
        latest=taken + within if dispatch.latest is None else dispatch.latest,
        taken=taken,
    )
