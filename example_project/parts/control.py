"""Orders to the process of the remote parts, over its control port."""

from __future__ import annotations

import socket

from example_project.parts.fault import Fault

TIMEOUT = 5.0


class Control:
    """One order a line, one line back."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def hold(self, calls: int, bound: float) -> None:
        """Calls 1 to `calls` are up from now on; each drops after so long a silence."""
        self._order(f"hold {calls} {bound}")

    def break_part(self, part: str, call: int, fault: Fault) -> None:
        """The part of that call is wrong in that way from now on."""
        self._order(f"fault {part} {call} {fault}")

    def heal(self, part: str, call: int) -> None:
        """The part is well again."""
        self._order(f"heal {part} {call}")

    def dropped(self) -> list[int]:
        """Return the calls that the backend has hung up."""
        return [int(call) for call in self._order("dropped")]

    def silence(self) -> float:
        """Return the longest that any call has gone unasked, in seconds."""
        return float(self._order("silence")[0])

    def _order(self, text: str) -> list[str]:
        with (
            socket.create_connection(self._address, timeout=TIMEOUT) as line,
            line.makefile("rw") as file,
        ):
            file.write(f"{text}\n")
            file.flush()
            said = file.readline().split()
        if not said or said[0] != "ok":
            message = f"the remote parts answered {said!r} to {text!r}"
            raise RuntimeError(message)
        return said[1:]
