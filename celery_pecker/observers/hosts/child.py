"""A process for one life of one observer, between its host and its code.

The host writes lines to its standard input (how long it trusts its lease; that the life
is to end), and reads JSON from what was its standard output (cursors; the error). Where
the input ends the host is dead, and this process ends too.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery_pecker.kernel import user_code
from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.errors import LeaseLost, Misconfigured
from celery_pecker.observers.lease import Claimed, Lease, Trust


def load(config: dict[str, Any]) -> Any:
    """Import the app of the supervisor, with its settings; return its observers."""
    # As multiprocessing does for what it spawns; last, so that they hide nothing.
    sys.path += [one for one in config["path"] if one not in sys.path]
    user_code.load_module(config["home"])
    for module in config["modules"]:
        user_code.load_module(module)
    observers: Any = _known(config["home"])
    app = observers.app
    app.conf.update(config["conf"])
    app.set_current()
    load_app(app)
    app.log.setup(loglevel=config["loglevel"], redirect_stdouts=False)
    return observers


def _known(home: str) -> Any:
    from celery_pecker.observers.app import Observers  # noqa: PLC0415  # Celery is loaded now

    for value in vars(sys.modules[home]).values():
        if isinstance(value, Observers):
            return value
    raise Misconfigured(f"module {home!r} has no Observers(app) at its top level")


Ended = Callable[[BaseException | None], None]
LAST_WORDS = 1.0
"""Seconds in which what a process wrote before its end is read."""


class ProcessDied(Exception):
    """The process of an observer ended without a word."""


class Failed(Exception):
    """The code of an observer failed in its process."""


class InProcess:
    """A plain function in a process of its own, as its host has it."""

    def __init__(
        self, config: dict[str, Any], claimed: Claimed, lease: Lease, ended: Ended
    ) -> None:
        """Start the process; ``ended`` is called on a thread of ours."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "celery_pecker.observers.hosts.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lease = lease
        self._ended = ended
        self._closing = threading.Lock()
        fields = {name: getattr(claimed, name) for name in Claimed.__slots__}
        self._write(json.dumps({**config, "claimed": fields}))
        # A process that does not read must not hold up the event loop.
        assert self._process.stdin is not None  # noqa: S101  # a pipe, as asked for
        os.set_blocking(self._process.stdin.fileno(), False)
        self._last: dict[str, Any] | None = None
        self._output_read = threading.Event()
        threading.Thread(target=self._read_output, daemon=True).start()
        threading.Thread(target=self._wait, daemon=True).start()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def trust_until(self, until: float) -> None:
        """Send until when the host trusts its lease, by the monotonic clock."""
        self._write(f"trust {until!r}")

    def cancel(self) -> None:
        """Ask it to end."""
        self._write("end")

    def kill(self) -> bool:
        """End it."""
        self._process.kill()
        return True

    def _write(self, line: str) -> None:
        # Closed meanwhile (ValueError), its number may be that of another file.
        with suppress(OSError, ValueError), self._closing:
            assert self._process.stdin is not None  # noqa: S101  # as above
            os.write(self._process.stdin.fileno(), line.encode() + b"\n")

    def _read_output(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  # as above
        with self._process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                if "state" in message:
                    self._lease.state = message["state"]
                else:
                    if message["lapsed"]:
                        self._lease.lapse()
                    self._last = message
        self._output_read.set()

    def _wait(self) -> None:
        code = self._process.wait()
        # What it forked has its output too, and may live on: that does not end then.
        self._output_read.wait(LAST_WORDS)
        assert self._process.stdin is not None  # noqa: S101  # as above
        with self._closing:
            self._process.stdin.close()
        last = self._last
        self._ended(
            ProcessDied(f"its process ended with {code}")
            if last is None
            else _error(last)
        )


def main() -> None:
    """Run one observer until it ends."""
    replies = os.dup(1)
    os.dup2(2, 1)
    config = json.loads(sys.stdin.readline())
    observers = load(config)
    claimed = Claimed(**config["claimed"])
    observer = observers.kinds[claimed.kind]
    trust = Trust()
    trust.renew(config["trust"], 0.0)

    def reply(message: dict[str, Any]) -> None:
        os.write(replies, json.dumps(message).encode() + b"\n")

    lease = Lease(
        claimed,
        trust,
        schema=observers.settings.schema,
        unreachable=observer.options.unreachable,
        save=lambda _ident, _epoch, text: reply({"state": json.loads(text)}),
    )
    threading.Thread(target=_handle_command, args=[lease, trust], daemon=True).start()
    what = f"observer {claimed.name!r}"
    error = user_code.call_logging_errors(
        what, observer.function, lease, **claimed.args
    )
    reply(
        {
            "error": None if error is None else user_code.shown(error),
            "lost": isinstance(error, LeaseLost),
            "lapsed": lease.lapsed,
        }
    )
    os._exit(0)


def _error(message: dict[str, Any]) -> Exception | None:
    """Return what the code raised in its process."""
    if message["error"] is None:
        return None
    if message["lost"]:
        return LeaseLost(message["error"].removeprefix("LeaseLost: "))
    return Failed(message["error"])


def _handle_command(lease: Lease, trust: Trust) -> None:
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "trust":
            trust.renew(float(rest), 0.0)
        else:
            lease.end("it is to end")
    os._exit(1)


if __name__ == "__main__":
    main()
