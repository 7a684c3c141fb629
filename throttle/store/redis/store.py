"""The store in Redis."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from redis import VERSION, Redis
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import MovedError, NoScriptError, ResponseError

from throttle import units
from throttle.errors import Misconfigured
from throttle.model import (
    NOTHING,
    Amount,
    DatabaseReport,
    Estimator,
    ExchangeAnswer,
    Holder,
    Holding,
    Report,
    Sample,
    Seen,
    View,
)
from throttle.store.fields import Malformed, document
from throttle.store.redis import client as failures
from throttle.store.redis.client import connect, other_node, says_otherwise
from throttle.store.wire import HOLDING
from throttle.units import WHOLE


def safe(name: str) -> str:
    """Return a name as part of a key: no two names make one key."""
    return name.replace("%", "%25").replace(":", "%3A")


def plain(name: str) -> str:
    """Return the name of a part of a key."""
    return name.replace("%3A", ":").replace("%25", "%")


def report_words(report: Report, names: Iterable[str], base: str) -> list[str | int]:
    """Return what a report says of databases as arguments."""
    words: list[str | int] = []
    for name in names:
        one = report.databases[name]
        words += [safe(name), f"{base}{safe(name)}:", len(one.samples)]
        for sample in one.samples:
            words += [
                units.whole(sample.age, WHOLE, units.OLDEST),
                max(units.whole(sample.span, WHOLE, units.LONGEST), 1),
                *units.counted(sample.amount),
            ]
        words += _holding(report.name, one)
    return words


def _holding(name: str, one: DatabaseReport) -> list[str | int]:
    if one.holding is None:
        return [""]
    holding = one.holding
    # The turn is asked for beside it, once: nothing of it is shown of a holder.
    telling = {**HOLDING.written(holding), "name": name, "turn": 0.0}
    want = units.whole(holding.want, WHOLE, units.WANTED)
    turn = units.whole(holding.turn, WHOLE, units.WANTED)
    return [json.dumps(telling), want, *units.limited(holding.limit), turn]


def answered(answer: Sequence[object], names: Sequence[str]) -> ExchangeAnswer:
    """Return what the exchange answers about these databases."""
    at, *rest = answer
    return ExchangeAnswer(
        at=int(text(at)) / WHOLE,
        databases={
            name: _seen(text(one)) for name, one in zip(names, rest, strict=True)
        },
    )


def _seen(answer: str) -> Seen:
    share, factor, holders, turn, *figures = (float(word) for word in answer.split())
    traffic, outside = _estimates(figures)
    return Seen(
        traffic=traffic,
        outside=outside,
        share=share / WHOLE,
        factor=factor / WHOLE,
        holders=int(holders),
        turn=turn == 1,
    )


def _estimates(
    figures: Sequence[float],
) -> tuple[dict[Estimator, Amount], dict[Estimator, Amount]]:
    """Return traffic and what of it comes from outside, by estimator."""
    weighted, from_outside, fast, fast_from_outside = (
        units.amount(*figures[i : i + 3]) for i in range(0, len(figures), 3)
    )
    return (
        {Estimator.WEIGHTED: weighted, Estimator.FAST: fast},
        {Estimator.WEIGHTED: from_outside, Estimator.FAST: fast_from_outside},
    )


def views(answer: Sequence[object]) -> dict[str, View]:
    """Return what a look answers."""
    _, *rest = answer
    return dict(_view(one) for one in rest)


def _view(answer: object) -> tuple[str, View]:
    if not isinstance(answer, list):
        raise TypeError(answer)
    name, figures, why, *entries = answer
    factor, *numbers = (float(word) for word in text(figures).split())
    traffic, outside = _estimates(numbers)
    holders = {
        text(holder): known
        for holder, share, telling in zip(*[iter(entries)] * 3, strict=True)
        if (known := _holder(int(share), text(telling))) is not None
    }
    seen = Seen(
        traffic=traffic,
        outside=outside,
        factor=factor / WHOLE,
        holders=len(entries) // 3,
    )
    return plain(text(name)), View(seen=seen, holders=holders, signal=text(why))


def text(answer: object) -> str:
    """Return an answer that is text."""
    if not isinstance(answer, bytes):
        raise TypeError(answer)
    return answer.decode()


def _holder(share: int, telling: str) -> Holder | None:
    """Return a holder; None if another version of ours reported it in another form."""
    try:
        words = document(telling)
        name, holding = str(words["name"]), HOLDING.read("", words)
    except (Malformed, KeyError):
        return None
    return Holder(name=name, share=share / WHOLE, holding=holding)


_UNNAMED = () if VERSION >= (5, 3) else ("_",)
"""What a pool of redis-py wants to hear of a connection that is for no command."""


class Direct:
    """Sends commands over connections of a client's pool. Threads may share it.

    Ten a second come from each worker. `Redis.execute_command` takes 80 µs of the
    caller's processor: a pool, its counters, a look at the socket, retries, one chunk
    for each argument. This keeps a connection of the same pool (so with its TLS,
    password and sentinels), and a command is one write.
    """

    def __init__(self, client: Redis) -> None:
        self.client = client
        self._pool: Any = client.connection_pool
        self._idle: list[Any] = []
        self._pid = os.getpid()

    def call(self, words: Iterable[str]) -> Any:
        """Return the answer to one command; raise what redis-py raises."""
        sent = _packed(words)
        if self._pid != os.getpid():  # forked: these sockets are the parent's
            self._idle, self._pid = [], os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._ask(self._pool.get_connection(*_UNNAMED), sent)
        try:
            return self._ask(connection, sent)
        except Lost:
            # It was closed while idle, or the server restarted. The
            # command may have run: all of ours may run twice. TimeoutError is no Lost.
            return self._ask(self._pool.get_connection(*_UNNAMED), sent)

    def drop(self) -> None:
        """Drop the connection; the next command makes its own."""
        while self._idle:
            connection = self._idle.pop()
            connection.disconnect()
            self._pool.release(connection)
        self._pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close the connections; a later call makes new ones."""
        self.drop()
        self.client.close()

    def _ask(self, connection: Any, sent: bytes) -> Any:
        answered = False
        try:
            connection.send_packed_command((sent,), check_health=False)
            answer = connection.read_response()
            answered = True
        except ResponseError:
            answered = True  # an error is an answer: nothing is left to be read
            raise
        finally:
            if answered:
                self._idle.append(connection)
            else:
                connection.disconnect()
                self._pool.release(connection)
        return answer


def _packed(words: Iterable[str]) -> bytes:
    encoded = [word.encode() for word in words]
    parts = [b"*%d\r\n" % len(encoded)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]
    return b"".join(parts)


class Script(NamedTuple):
    """A script and the name that Redis knows it by."""

    text: str
    sha: str


def _read(*names: str) -> Script:
    package = files(__package__)
    text = "".join(package.joinpath(f"{n}.lua").read_text("utf-8") for n in names)
    return Script(text, sha1(text.encode()).hexdigest())  # noqa: S324 — Redis' choice


EXCHANGE = _read("clock", "windows", "exchange")
LOOK = _read("clock", "windows", "look")
ELECT = _read("clock", "elect")
LOWER = _read("clock", "lower")


Answered = TypeVar("Answered")
Words = Sequence[str | int]

TIMEOUT = 0.1
"""As long as a tick: an exchange has a thread of its own, and three of them until what
was heard is stale. With half of it a Redis 40 to 60 ms away was never there at all, for
each answer that was late cost a connection, which takes three ways to make."""
AT_START = 2.0
OF = ("shares", "reports", "signal", "turn", "adjusted")
"""The keys of a database, in the order of the exchange's."""
MOST_UNANSWERED = 10_000
FORMAT = 1
"""Of what the keys hold. Raised with each change of it: for the time of a deploy two
versions then count beside each other, where a script that meets the other's windows
would fail, and all workers with it."""
PROBE = Report(
    holder="",
    name="",
    databases={
        # No database has this name; it is not shown
        "": DatabaseReport(
            samples=(Sample(0.0, NOTHING),), holding=Holding(want=0.0, limit=Amount(1))
        )
    },
)


@dataclass(eq=False, repr=False)
class RedisStore:
    """Implements `Store`: one round trip per call. Threads may share it.

    Args:
        url: ``redis://``, ``rediss://``, ``unix://``, or
            ``sentinel://one:26379,two:26379/0?master_name=mymaster``.
        prefix: Keys begin so.
        estimator: How what comes from outside is computed, for shares.
        timeout: Seconds to wait for a connection, and as long for an answer.
        now: For tests: seconds since 1970, instead of Redis' clock.
    """

    url: str
    prefix: str = "throttle"
    estimator: Estimator = Estimator.WEIGHTED
    timeout: float = TIMEOUT
    now: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        if not self.prefix or any(character in self.prefix for character in "{}"):
            raise Misconfigured(
                f"throttle_prefix must be text without '{{' and '}}', not"
                f" {self.prefix!r}"
            )
        parts = urlsplit(self.url)
        self.place = parts.netloc.rpartition("@")[2] or parts.path
        """For people: where it is, without a password."""
        self._tag = f"{{{self.prefix}}}:{FORMAT}:"
        self._of = f"{self._tag}of:"
        self._first = self._client = Direct(connect(self.url, self.timeout))
        self._unanswered: set[str] = set()
        """Holders whose last answer was lost on its way."""

    def check(self) -> None:
        """Check Redis and its rights; raise Misconfigured or StoreUnavailable."""
        replace(self, timeout=AT_START).probe()

    def probe(self) -> None:
        """Check as `check` does, over these connections; close them."""
        try:
            self._follow(partial(self._eval, EXCHANGE, *self._exchange(PROBE)))
            self._follow(partial(self._eval, LOOK, *self._look()))
        except failures.ALL as error:
            strange = says_otherwise(self.url, AT_START)
            raise failures.final(self.place, strange or error) from error
        finally:
            self.close()

    def exchange(self, report: Report) -> ExchangeAnswer:
        """Count the report; return what is known of its databases."""
        keys, words = self._exchange(report)
        if len(self._unanswered) > MOST_UNANSWERED:
            self._unanswered.clear()
        self._unanswered.add(report.holder)
        names = list(report.databases)
        answer = self._ask(
            EXCHANGE, keys, words, lambda answer: answered(answer, names)
        )
        self._unanswered.discard(report.holder)
        return answer

    def look(self) -> Mapping[str, View]:
        """Return all that is known, by database; nothing is changed."""
        return self._ask(LOOK, *self._look(), views)

    def elect(self, database: str, holder: str, seconds: float) -> bool:
        """Return whether `holder` is the watcher of the database now."""
        keys = [f"{self._tag}clock", f"{self._of}{safe(database)}:watcher"]
        words: Words = [holder, units.whole(seconds, WHOLE, units.LATEST)]
        return self._ask(ELECT, keys, words, bool)

    def lower(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Put so much of the limit in force, for so long."""
        self._say(
            f"{safe(database)}:signal",
            units.whole(factor, WHOLE, 1),
            why,
            units.whole(seconds, WHOLE, units.LATEST),
        )

    def adjust(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Set the limit to so many times what the settings say, for so long."""
        self._say(
            f"{safe(database)}:adjusted",
            units.whole(factor, WHOLE, units.ADJUSTED),
            why,
            units.whole(seconds, WHOLE, units.ADJUSTED_FOR),
        )

    def _say(self, key: str, factor: int, why: str, lasts: int) -> None:
        keys = [f"{self._tag}clock", f"{self._of}{key}", f"{self._tag}databases"]
        words: Words = [factor, why, lasts, key.rpartition(":")[0]]
        self._ask(LOWER, keys, words, lambda _: None)

    def recall(self, database: str) -> str:
        """Return what was kept last of what tasks cost; empty: nothing."""
        key = f"{self._of}{safe(database)}:costs"
        return self._try(lambda client: text(client.call(["GET", key]) or b""))

    def keep(self, database: str, text: str, seconds: float) -> None:
        """Keep what tasks cost, for so long."""
        key = f"{self._of}{safe(database)}:costs"
        words = ["SET", key, text, "PX", str(round(seconds * 1000))]
        self._try(lambda client: client.call(words))

    def close(self) -> None:
        """Close the connections; a later call makes new ones."""
        self._go_back()
        self._first.close()

    def _exchange(self, report: Report) -> tuple[list[str], Words]:
        names = list(report.databases)
        keys = [
            f"{self._tag}clock",
            f"{self._tag}databases",
            f"{self._tag}holder:{safe(report.holder)}",
        ]
        for name in names:
            base = f"{self._of}{safe(name)}:"
            keys += [f"{base}{of}" for of in OF]
        return keys, [
            report.holder,
            int(report.answered and report.holder not in self._unanswered),
            str(self.estimator),
            report.number,
            *report_words(report, names, self._of),
        ]

    def _look(self) -> tuple[list[str], Words]:
        return [f"{self._tag}clock", f"{self._tag}databases"], [self._of]

    def _ask(
        self,
        script: Script,
        keys: Sequence[str],
        words: Words,
        read: Callable[[Any], Answered],
    ) -> Answered:
        return self._try(lambda client: read(self._eval(script, keys, words, client)))

    def _follow(self, call: Callable[[Direct], Answered]) -> Answered:
        try:
            return call(self._client)
        except MovedError as error:
            # A cluster: all keys have one tag, so one node has them all
            self._go_back()
            node = other_node(self._first.client, error.host, error.port)
            self._client = Direct(node)
            return call(self._client)

    def _try(self, call: Callable[[Direct], Answered]) -> Answered:
        try:
            return self._follow(call)
        except failures.ALL as error:
            self._go_back()
            # Its name may lead elsewhere by now: after a failover the old primary keeps
            # our connections, and answers READONLY for as long as we use them.
            self._first.drop()
            raise failures.away(self.place, error) from error

    def _eval(
        self, script: Script, keys: Sequence[str], words: Words, client: Direct
    ) -> Any:
        time = "" if self.now is None else str(round(self.now() * WHOLE))
        arguments = [str(len(keys)), *keys, time, *map(str, words)]
        try:
            return client.call(["EVALSHA", script.sha, *arguments])
        except NoScriptError:
            return client.call(["EVAL", script.text, *arguments])

    def _go_back(self) -> None:
        """Ask the node that the URL names from now on."""
        other, self._client = self._client, self._first
        if other is not self._first:
            other.close()
