"""What happens when an item fails; and a job's options: written down, read, changed."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from celery_pecker.kernel.declared import is_number, is_whole
from celery_sharding.errors import Misconfigured
from celery_sharding.model import Cut, Options, Placement

LONGEST = 1e9
"""Seconds: thirty years. No deadline is as far."""


def _check_tolerance(value: object) -> None:
    """Refuse what is not None, a count, or a percentage as text."""
    percent = -1.0
    if isinstance(value, str) and value.endswith("%"):
        with suppress(ValueError):
            percent = float(value[:-1])
    if value is None or is_whole(value, 0) or is_number(percent, 0, 100):
        return
    raise Misconfigured(
        f"max_failed must be None, a count from 0, or a percentage such as '1%',"
        f" not {value!r}"
    )


class _Once:
    """An item that failed is not tried again."""

    __slots__ = ()
    ends_job: ClassVar[bool] = False
    """Whether the first item that fails for good ends the job."""

    def attempts(self) -> int:
        """Return how often an item is tried, at most."""
        return 1

    def delay(self, attempt: int) -> float:
        """Return the seconds until the attempt after that one (counted from 1)."""
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate(_Once):
    """A failed item is recorded, and its shard goes on."""

    max_failed: int | str | None = None
    """Failed items that the job bears: a count, or a part of its total ("1%"); with one
    more it fails. None: any number."""

    def __post_init__(self) -> None:
        """Refuse what is no number of items."""
        _check_tolerance(self.max_failed)

    def allowed(self, total: int) -> int | None:
        """Return how many items of that many may fail; None: all."""
        if isinstance(self.max_failed, str):
            return int(float(self.max_failed[:-1]) * total / 100)
        return self.max_failed


@dataclass(frozen=True, slots=True, kw_only=True)
class FailFast(_Once):
    """The first failed item ends the job."""

    ends_job: ClassVar[bool] = True

    def allowed(self, total: int) -> int | None:
        """Return how many items of that many may fail."""
        return 0


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed item is tried again, later and apart from its shard; then it failed."""

    retries: Any
    """Attempts after the first: a whole number."""
    backoff: float = 1.0
    """Seconds until the second attempt; twice as long until each further one."""
    most: float = 600.0
    """Seconds between two attempts, at most."""
    max_failed: int | str | None = None
    """As in `Isolate`, for those that failed in the end."""
    ends_job: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse what could never end, or never wait."""
        _check_tolerance(self.max_failed)
        if not is_whole(self.retries, 0, 100):
            raise Misconfigured(
                f"Retry needs a whole number of retries from 0 to 100,"
                f" not {self.retries!r}"
            )
        if not 0 <= self.backoff <= self.most:
            raise Misconfigured(
                f"Retry needs 0 <= backoff <= most, in seconds, not {self.backoff!r}"
                f" and {self.most!r}"
            )

    def attempts(self) -> int:
        """Return how often an item is tried, at most."""
        return 1 + int(self.retries)

    def delay(self, attempt: int) -> float:
        """Return the seconds until the attempt after that one (counted from 1)."""
        return min(self.backoff * float(2 ** min(attempt - 1, 32)), self.most)

    def allowed(self, total: int) -> int | None:
        """Return how many items of that many may fail in the end; None: all."""
        return Isolate(max_failed=self.max_failed).allowed(total)


Policy = Isolate | FailFast | Retry
KINDS: Mapping[str, type[Policy]] = {
    "isolate": Isolate,
    "fail_fast": FailFast,
    "retry": Retry,
}


def policy_of(options: Options) -> Policy:
    """Return what holds when an item fails."""
    policy: Policy | None = options.on_error
    return policy if policy is not None else Isolate()


def as_json(options: Options) -> dict[str, Any]:
    """Return options as JSON has them."""
    values = {
        one.name: getattr(options, one.name)
        for one in fields(Options)
        if one.name != "on_error"
    }
    policy = policy_of(options)
    kind = next(name for name, known in KINDS.items() if isinstance(policy, known))
    return {
        **values,
        "size": [*options.size],
        "on_error": {"kind": kind, **asdict(policy)},
    }


def from_json(document: Mapping[str, Any]) -> Options:
    """Return options as `as_json` wrote them; those of a newer version are ignored."""
    known = {key: _read(key, it) for key, it in document.items() if key in NAMES}
    least, most = known["size"]
    return Options(**{**known, "size": (least, most)})


def check(options: Options) -> Options:
    """Return the options; raise Misconfigured that names the field that is wrong."""
    most = _size(options.size)[1]
    _whole("concurrency", options.concurrency, 1, 10_000)
    if options.batch is not None:
        _whole("batch", options.batch, 1, most)
    for name in ("deadline", "shard_deadline", "item_timeout"):
        _seconds(name, getattr(options, name), above=0.0)
    _seconds("lease", options.lease, above=0.99)
    for name in ("queue", "database"):
        text = getattr(options, name)
        if text is not None and (not isinstance(text, str) or not text):
            raise Misconfigured(f"{name} must be a name, not {text!r}")
    every = options.notify_every
    if every is not None and not 0 < every <= 1:
        raise Misconfigured(
            f"notify_every must be above 0 and at most 1, not {every!r}"
        )
    policy: Any = options.on_error
    if policy is not None and not isinstance(policy, (Isolate, FailFast, Retry)):
        raise Misconfigured(
            f"on_error must be Isolate(…), FailFast() or Retry(…), not {policy!r}"
        )
    return options


def _size(size: object) -> tuple[int, int]:
    if not isinstance(size, tuple) or len(size) != 2:  # noqa: PLR2004  # a pair
        raise Misconfigured(
            f"size must be (least, most) items of a shard, not {size!r}"
        )
    least, most = size
    _whole("size[0], the least items of a shard,", least, 1, 10_000_000)
    _whole("size[1], the most items of a shard,", most, 1, 10_000_000)
    if least > most:
        raise Misconfigured(f"size must be (least, most): {least} is more than {most}")
    return least, most


def _whole(name: str, value: object, least: int, most: int) -> None:
    if not is_whole(value, least, most):
        raise Misconfigured(
            f"{name} must be a whole number from {least} to {most}, not {value!r}"
        )


def _seconds(name: str, value: Any, *, above: float) -> None:
    if value is None:
        return
    if not is_number(value, above, LONGEST) or value in {above, LONGEST}:
        raise Misconfigured(
            f"{name} must be a number of seconds above {above:g}, not {value!r}"
        )


NAMES = frozenset(one.name for one in fields(Options))
CHOICES = {"cut": Cut, "placement": Placement}


def applied(options: Options, changes: Mapping[str, Any]) -> Options:
    """Return the options with the changes, checked.

    Policies and choices may be as JSON has them.
    """
    unknown = sorted(changes.keys() - NAMES)
    if unknown:
        raise Misconfigured(
            f"sharded jobs have no option {unknown[0]!r}; allowed are"
            f" {', '.join(sorted(NAMES))}"
        )
    return check(
        replace(options, **{key: _read(key, it) for key, it in changes.items()})
    )


def changes_as_json(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked options as JSON, only those that change."""
    complete = as_json(applied(Options(), changes))
    return {key: complete[key] for key in changes}


def difference(options: Options, chosen: Options) -> dict[str, Any]:
    """Return what `applied` makes of the one to get the other, as JSON."""
    before = as_json(options)
    return {key: it for key, it in as_json(chosen).items() if it != before[key]}


def _read(key: str, value: Any) -> Any:
    if key == "size" and isinstance(value, list):
        return tuple(value)
    if key == "size" and isinstance(value, int) and not isinstance(value, bool):
        return (1, value)
    if key in CHOICES:
        return _chosen(key, value)
    if key == "on_error" and isinstance(value, Mapping):
        policy = dict(value)
        return KINDS[policy.pop("kind")](**policy)
    return value


def _chosen(key: str, value: Any) -> Any:
    kind = CHOICES[key]
    try:
        return kind(value)
    except ValueError as error:
        allowed = " or ".join(repr(one.value) for one in kind)
        raise Misconfigured(f"{key} must be {allowed}, not {value!r}") from error
