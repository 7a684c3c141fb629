"""Sources of calls stand in a list of the ledger before any message has them.

A message may be written by whatever reaches the broker, and a Source says which file,
or which query, a worker reads. So a Source in a message is looked up in the ledger,
where only code with rights to the tables has put it. A KeyRange is read nowhere: it
says no more than a list of numbers would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Self

from celery import Celery
from kombu.utils.json import dumps

from celery_sharding.errors import Misconfigured
from celery_sharding.layers import MARK as LAYERS
from celery_sharding.ledger import at
from celery_sharding.plan.arguments import HEADER, join
from celery_sharding.sources import MARK as SOURCE
from celery_sharding.sources import KeyRange


class ListedSources:
    """The Sources of a signature made by this process: listed as it becomes JSON.

    Celery copies signatures, and writes them into each other; kombu asks ``__json__``.
    """

    def __init__(self, app: Celery, task: str, apart: Sequence[Any]) -> None:
        self._app = app
        self._task = task
        self._apart = [*apart]

    def __iter__(self) -> Iterator[Any]:
        """Yield places and Sources as JSON, as `plan.arguments.split` gave them."""
        return iter(self._apart)

    def __deepcopy__(self, _: object) -> Self:
        """Return itself: it does not change."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process makes of it: JSON, and listed."""
        return list, (self.listed(),)

    def listed(self) -> list[Any]:
        """Return it as JSON, which stands in the ledger's list from now on."""
        if self._apart and self._app.conf.get("pecker_dsn"):
            submissions = at(self._app, role="caller").submissions
            submissions.list_source(_ref(self._task, self._apart))
        return self._apart

    __json__ = listed


def to_be_listed(app: Celery, task: str, apart: Sequence[Any]) -> Any:
    """Return Sources as they stand in a header of a signature of this process."""
    return ListedSources(app, task, apart) if any(map(_is_read, apart)) else apart


def sources_of(app: Celery, task: str, apart: Any) -> Any:
    """Return the Sources of a call's header, if this process made them or lists them.

    Raises:
        Misconfigured: they are not listed: they came with a message of unknown origin.
        DatabaseUnavailable: the list could not be asked.
    """
    local = isinstance(apart, ListedSources) or not app.conf.get("pecker_dsn")
    if not apart or local or not any(map(_is_read, apart)):
        return apart or ()
    if at(app, role="caller").submissions.is_listed(_ref(task, apart)):
        return apart
    message = (
        f"a message of {task} has a Source that the ledger does not list: code that"
        " makes a call lists its Sources in pecker_inputs"
    )
    raise Misconfigured(message)


def joined(
    app: Celery,
    task: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Return a call with the Sources that a header of its options has.

    Raises:
        Misconfigured, DatabaseUnavailable: as `sources_of`.
    """
    headers = {**(options.get("headers") or {})}
    sources = sources_of(app, task, headers.pop(HEADER, None))
    plain, named = join(args, kwargs, sources)
    if not options.get("headers"):
        return plain, named, {**options}
    return plain, named, {**options, "headers": headers or None}


def _is_read(pair: Any) -> bool:
    """Return whether a place and its JSON are not known to be of numbers alone."""
    if not isinstance(pair, (list, tuple)) or not isinstance(pair[-1], Mapping):
        return True
    document = pair[-1]
    layers = document[LAYERS] if document.keys() == {LAYERS} else [document]
    kinds = [one.get(SOURCE) for one in layers if isinstance(one, Mapping)]
    return any(kind != KeyRange.kind for kind in kinds)


def _ref(task: str, apart: Sequence[Any]) -> str:
    text = dumps([task, [*apart]], sort_keys=True)
    return f"source:{sha256(text.encode()).hexdigest()}"
