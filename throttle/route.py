"""Which database a task's traffic goes to: pure, and never a reason not to run."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from celery_pecker.kernel import user_code
from celery_pecker.kernel.once_a_minute import OnceAMinute
from throttle.errors import Misconfigured
from throttle.model import Target

logger = logging.getLogger("throttle")

RouteFunction = Callable[
    [str, Sequence[Any], Mapping[str, Any], Mapping[str, Any]], object
]
"""``(task, args, kwargs, headers)`` to a database, a pair of database and tenant, or
None: nothing holds the task."""
PARTS = 2
LONGEST_TENANT = 100
"""Characters of a tenant's name; what is longer is cut."""


@dataclass(eq=False, repr=False)
class Route:
    """Asks a task's option `throttle`, then the user's function."""

    function: RouteFunction | None
    databases: Collection[str]
    once: OnceAMinute | None = None

    def __post_init__(self) -> None:
        self.asks = self.function is not None
        """Whether tasks without an option may have a target, too."""
        self._databases = frozenset(self.databases)
        self._once = self.once or OnceAMinute(logger, prefix="throttle: ")
        self.failures = 0
        """Tasks that were let through because the route failed."""

    def target(
        self,
        task: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        headers: Mapping[str, Any],
        *,
        option: object = None,
    ) -> Target | None:
        """Return where the task's traffic goes; None: through, at once."""
        answer = option
        if answer is None:
            if self.function is None:
                return None
            answer = self._once.call(
                f"the route of {task}",
                FAILED,
                self.function,
                task,
                args,
                kwargs,
                headers,
            )
        if answer is None:
            return None
        target = self.read(answer)
        if target is None:
            self.failures += 1
            if answer is not FAILED:
                self._once.warning(
                    f"the route of {task}",
                    "the route of %s answers %s, which is no database with a limit (%s)"
                    " and no pair of such a database and a tenant; the task passes",
                    task,
                    self._shown(answer),
                    ", ".join(sorted(self._databases)),
                )
        return target

    def _shown(self, answer: object) -> str:
        kind = f"a {type(answer).__name__}"
        return self._once.call("a route's answer", kind, repr, answer)[:80]

    def read(self, answer: object) -> Target | None:
        """Return the target that an answer or a task's option means; None: none."""
        if isinstance(answer, str):
            return Target(answer) if answer in self._databases else None
        if (
            isinstance(answer, tuple)
            and len(answer) == PARTS
            and isinstance(answer[0], str)
            and answer[0] in self._databases
            and isinstance(answer[1], (str, int))
        ):
            return _target(*answer)
        return None


FAILED = object()


def _target(database: str, tenant: str | int) -> Target | None:
    # What stands in a message: it must not keep a worker's reports from their way, by
    # its length, or by half of a pair that JSON can say and UTF-8 cannot.
    try:
        name = str(tenant)[:LONGEST_TENANT]
    except ValueError:  # a number of thousands of digits
        return None
    return Target(database, name.encode(errors="replace").decode())


def load(where: str | RouteFunction | None) -> RouteFunction | None:
    """Return the function of a dotted path ``package.module:name`` or ``….name``."""
    if where is None:
        return None
    function: Any = _load(where) if isinstance(where, str) else where
    if not callable(function):
        raise Misconfigured(
            f"throttle_route {where!r} is {function!r}, which cannot be called"
        )
    try:
        signature(function).bind("task", (), {}, {})
    except TypeError as error:
        raise Misconfigured(
            f"throttle_route {where!r} must take (task, args, kwargs, headers): {error}"
        ) from error
    except ValueError:  # a function without a signature, written in C
        pass
    return function  # type: ignore[no-any-return]  # asked above


def _load(where: str) -> object:
    path, colon, name = where.partition(":")
    if not colon:
        path, _, name = where.rpartition(".")
    if not path or not name:
        raise Misconfigured(
            f"throttle_route {where!r} cannot be imported: it must be a dotted path,"
            " 'package.module.function'"
        )
    try:
        loaded: object = user_code.load_module(path)
        for part in name.split("."):
            loaded = getattr(loaded, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise Misconfigured(
            f"throttle_route {where!r} cannot be imported: {error}"
        ) from error
    return loaded
