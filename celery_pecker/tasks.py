"""A task and its schedule in one place.

    pecker = Pecker(app)

    @pecker.task(every=1.0, timeout=0.8)
    def sweep(): ...

    class Report(ScheduledTask):
        name = "proj.report"
        schedule = crontab(hour=7)

        def run(self): ...

    app.register_task(Report())

Both are tasks as any other. Their entry is put into the app's ``beat_schedule`` when
the app is finalized: under the name of the task, or under ``entry``. An entry of that
name that says something else is refused when a scheduler starts. Without policies of
ours it is a plain entry, which Celery's own beat understands as well.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    overload,
)

from celery import Celery, Task, shared_task
from celery._state import connect_on_app_finalize, get_current_app
from celery.schedules import BaseSchedule

from celery_pecker import schedules as stored_schedules
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.declarations.task_entries import add_entry
from celery_pecker.schedules.engine.model import Delivery, Misfire, RunMode

if TYPE_CHECKING:
    from celery_pecker.schedules import Schedules

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Seconds = float | timedelta
POLICIES = ("timeout", "run", "delivery", "misfire", "grace", "catch_up")
PARTS = ("every", "schedule", "args", "kwargs", "options", "entry", *POLICIES)
"""What is the entry's, by the argument of `Pecker.task`; all else is the task's."""
ATTRIBUTES = {
    "run": "run_mode",
    "args": "entry_args",
    "kwargs": "entry_kwargs",
    "options": "entry_options",
}
"""How a class of tasks names what has another meaning on a task."""


class Pecker:
    """Gives an app's tasks their schedule.

    Without an app it is for libraries, as ``shared_task`` is: every app has the task
    and its entry.
    """

    def __init__(self, app: Celery | None = None) -> None:
        self._app = app

    @cached_property
    def schedules(self) -> "Schedules":
        """The stored schedules of the app, which change while everything runs."""
        if self._app is None:
            raise Misconfigured("Pecker() has no app; allowed is Pecker(app).schedules")
        return stored_schedules.Schedules(self._app)

    @overload
    def task(
        self,
        *,
        every: Seconds | None = ...,
        schedule: BaseSchedule | None = ...,
        timeout: Seconds | None = ...,
        run: RunMode | Literal["dispatch", "local"] | None = ...,
        delivery: Delivery | str | None = ...,
        misfire: Misfire | str | None = ...,
        grace: Seconds | None = ...,
        catch_up: int | None = ...,
        entry: str | None = ...,
        args: Iterable[Any] = ...,
        kwargs: Mapping[str, Any] | None = ...,
        options: Mapping[str, Any] | None = ...,
        bind: Literal[True],
        **task_options: Any,
    ) -> Callable[[Callable[Concatenate[T, P], R]], Task[P, R]]: ...

    @overload
    def task(
        self,
        *,
        every: Seconds | None = ...,
        schedule: BaseSchedule | None = ...,
        timeout: Seconds | None = ...,
        run: RunMode | Literal["dispatch", "local"] | None = ...,
        delivery: Delivery | str | None = ...,
        misfire: Misfire | str | None = ...,
        grace: Seconds | None = ...,
        catch_up: int | None = ...,
        entry: str | None = ...,
        args: Iterable[Any] = ...,
        kwargs: Mapping[str, Any] | None = ...,
        options: Mapping[str, Any] | None = ...,
        **task_options: Any,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator: the function is a task that runs by a schedule.

        Exactly one of ``every`` (seconds or timedelta) and ``schedule`` (crontab,
        solar, any of Celery's) is given. ``timeout``, ``run``, ``delivery``,
        ``misfire``, ``grace`` and ``catch_up`` are the entry's policies. ``args`` and
        ``kwargs`` are what the task is called with, ``options`` those of
        ``apply_async``; ``entry`` is the entry's name, by default the task's.
        The rest goes to ``app.task``: ``name``, ``bind``, ``queue`` …
        """
        parts = {key: options.pop(key) for key in PARTS if key in options}
        name_of_entry = parts.pop("entry", None)
        declared = _entry("@pecker.task", parts)

        def decorate(function: Callable[..., Any]) -> Any:
            def enter(app: Any) -> None:
                name = options.get("name") or app.gen_task_name(
                    function.__name__, function.__module__
                )
                entry = name if name_of_entry is None else name_of_entry
                add_entry(app, entry, {"task": name, **declared})

            def at_last(app: Any) -> None:
                if app.finalized:
                    enter(app)
                else:
                    app.on_after_finalize.connect(
                        lambda sender, **_: enter(sender), weak=False
                    )

            if self._app is not None:
                task: Any = self._app.task(**options)(function)
                at_last(self._app)
                return task
            task = shared_task(**options)(function)
            connect_on_app_finalize(at_last)
            app: Any = get_current_app()
            if app.finalized:
                at_last(app)
            return task

        return decorate


class ScheduledTask(Task[..., Any] if TYPE_CHECKING else Task):  # type: ignore[misc]  # generic in the stubs only
    """A task whose class says when it runs.

    ``every`` or ``schedule``, and the policies, are attributes as those of any task. A
    class without either is a plain task: others may be derived from it. With
    ``@app.task(base=ScheduledTask, every=…)`` the entry is wherever the task is: in
    every app of the process, unless it says ``shared=False``.
    """

    abstract = True

    every: Seconds | None = None
    schedule: BaseSchedule | None = None
    timeout: Seconds | None = None
    run_mode: RunMode | str | None = None
    """'dispatch' or 'local'; ``run`` is the task's own method."""
    delivery: Delivery | str | None = None
    misfire: Misfire | str | None = None
    grace: Seconds | None = None
    catch_up: int | None = None
    entry: str | None = None
    """The entry's name; default the task's."""
    entry_args: Iterable[Any] = ()
    entry_kwargs: Mapping[str, Any] | None = None
    entry_options: Mapping[str, Any] | None = None

    @classmethod
    def on_bound(cls, app: Any) -> None:
        """Enter it in the app; Celery calls this with each app that has the task."""
        super().on_bound(app)
        if cls.every is None and cls.schedule is None:
            return
        # A class without a name has it on its instance only.
        name = cls.name or app.gen_task_name(cls.__name__, cls.__module__)
        parts = {key: getattr(cls, ATTRIBUTES.get(key, key)) for key in PARTS}
        declared = _entry(f"task {name}", parts)
        entry = name if cls.entry is None else cls.entry
        add_entry(app, entry, {"task": name, **declared})


def _entry(where: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``beat_schedule`` without its task; say what is missing."""
    every, schedule = parts.get("every"), parts.get("schedule")
    if (every is None) == (schedule is None):
        raise Misconfigured(
            f"{where} has every={every!r} and schedule={schedule!r}; allowed is exactly"
            " one of them"
        )
    declared: dict[str, Any] = {"schedule": schedule if every is None else every}
    for key, empty, kinds, allowed in (
        ("args", (), (list, tuple), "a list or tuple"),
        ("kwargs", None, (Mapping, type(None)), "a dict"),
        ("options", None, (Mapping, type(None)), "a dict"),
    ):
        value: Any = parts.get(key, empty)
        if not isinstance(value, kinds):
            raise Misconfigured(f"{where} has {key}={value!r}; allowed is {allowed}")
        declared[key] = tuple(value or ()) if key == "args" else dict(value or {})
    policies = {key: parts[key] for key in POLICIES if parts.get(key) is not None}
    if policies:
        declared["pecker"] = policies
    return declared
