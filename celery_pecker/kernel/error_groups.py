"""Group errors that are one: same type, same place in the user's code, same words.

What varies from one error to the next (numbers, ids, quoted values) is left out of its
message, and lines of code are left out of its place, so a deploy in between changes
nothing. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2s
from itertools import groupby
from typing import Any, NamedTuple

VARIES = re.compile(r"""(?<!\w)(['"]).*?(?:\1(?!\w)|$)|[\w.:-]*\d[\w.:,-]*""")
FRAME = re.compile(r'(?m)^[ |]*File "(?P<path>[^"\n]*)", line \d+(?:, in (?P<of>.+))?')
LIBRARY = re.compile(
    r"^<|[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python3"
    r"|(?:^|[\\/])(?:celery_pecker|celery_sharding|throttle)[\\/]"
)
LAST = "Traceback (most recent call last):"
LONGEST = 1_000
"""Characters of a message that are compared."""
BLOCKS = "▁▂▃▄▅▆▇█"
WIDE = 12
"""Places of a sparkline."""
FEW = 3
"""Shards or tasks that are named."""


class Seen(NamedTuple):
    """One error."""

    id: Any
    """What names it where it is kept."""
    of: str
    """The shard or the task that it is an error of."""
    type: str
    """Empty where it stands in the message."""
    message: str
    traceback: str | None
    at: datetime

    @property
    def place(self) -> str:
        """Return the innermost frame of user code, or of all: "app/work.py, send"."""
        _, _, last = (self.traceback or "").rpartition(LAST)
        frames = [*FRAME.finditer(last)]
        own = [one for one in frames if not LIBRARY.search(one["path"])]
        if not frames:
            return ""
        frame = (own or frames)[-1]
        path = "/".join(re.split(r"[\\/]", frame["path"])[-2:])
        return ", ".join(filter(None, [path, frame["of"]]))

    @property
    def words(self) -> str:
        """Return the first line of its message without what varies."""
        line = self.message.strip().partition("\n")[0]
        return VARIES.sub("…", line[:LONGEST])

    @property
    def fingerprint(self) -> str:
        """Return what errors that are one have in common, as ten letters."""
        parts = f"{self.type}\0{self.place}\0{self.words}"
        return blake2s(parts.encode(), digest_size=5).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """Errors that are one."""

    key: str
    """The fingerprint of all of them."""
    job: str = ""
    """Whose errors they are, where not all that are kept."""
    open: bool = False
    """Whether it still runs, so that nothing can be retried."""
    type: str
    message: str
    """Of the one that was seen last, as the traceback is."""
    traceback: str
    """Without the frames of libraries."""
    place: str
    count: int
    first: datetime
    last: datetime
    spark: str
    """How many there were, from the first of all groups to the last."""
    of: Mapping[str, int]
    """Shards or tasks, each with how many errors it has."""
    ids: Sequence[Any]

    @property
    def id(self) -> str:
        """Return what no other group has."""
        return f"{self.job}/{self.key}" if self.job else self.key

    @property
    def error(self) -> str:
        """Return what it says."""
        return ": ".join(filter(None, [self.type, self.message]))

    @property
    def many_of(self) -> str:
        """Return the shards or tasks, those with the most errors first."""
        ordered = sorted(self.of, key=lambda one: -self.of[one])
        more = f" and {len(ordered) - FEW:,} more" if len(ordered) > FEW else ""
        return ", ".join(ordered[:FEW]) + more


def grouped(
    errors: Iterable[Seen], *, job: str = "", is_open: bool = False
) -> list[ErrorGroup]:
    """Return the groups of errors, the largest first."""
    latest: dict[str, Seen] = {}
    members: dict[str, list[tuple[Any, str, datetime]]] = {}
    for one in errors:
        key = one.fingerprint
        members.setdefault(key, []).append((one.id, one.of, one.at))
        if key not in latest or latest[key].at <= one.at:
            latest[key] = one
    if not members:
        return []
    times = [at for mine in members.values() for _, _, at in mine]
    since, until = min(times), max(times)
    groups = []
    for key, mine in members.items():
        own, shown = [at for _, _, at in mine], latest[key]
        groups.append(
            ErrorGroup(
                key=key,
                job=job,
                open=is_open,
                type=shown.type,
                message=shown.message,
                traceback=folded(shown.traceback or ""),
                place=shown.place,
                count=len(mine),
                first=min(own),
                last=max(own),
                spark=sparkline(own, since, until),
                of=dict(Counter(of for _, of, _ in mine)),
                ids=[id_ for id_, _, _ in mine],
            )
        )
    return sorted(groups, key=lambda group: (-group.count, group.key))


def sparkline(times: Iterable[datetime], since: datetime, until: datetime) -> str:
    """Return how many of the times lie in each part of a span, as blocks."""
    whole = until - since or timedelta(seconds=1)
    counts = Counter((at - since) * (WIDE - 1) // whole for at in times)
    most = max(counts.values())
    return "".join(
        BLOCKS[-(-counts[nth] * (len(BLOCKS) - 1) // most)] for nth in range(WIDE)
    )


def folded(traceback: str) -> str:
    """Return a traceback with a line in place of frames that are a library's."""
    parts = re.split(r"(?m)^(?=[ |]*File \")", traceback)
    frames: list[tuple[bool, str]] = []
    for part in parts:
        # Behind the last frame of a traceback stands what was raised.
        own, rest = re.fullmatch(r"(?s)((?:[ |].*?(?:\n|$))*)(.*)", part).groups()  # type: ignore[union-attr]  # it matches any text
        found = FRAME.match(part)
        if found:
            frames += [(bool(LIBRARY.search(found["path"])), own), (False, rest)]
        else:
            frames.append((False, part))
    text = []
    for library, run in groupby((one for one in frames if one[1]), lambda one: one[0]):
        texts = [one for _, one in run]
        many = f"{len(texts)} frame{'s' if len(texts) > 1 else ''} of libraries"
        text.append(f"  … {many}\n" if library else "".join(texts))
    return "".join(text)
