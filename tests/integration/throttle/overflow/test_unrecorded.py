"""Redis that records nothing of what a worker holds: `ack_emulation` is off."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.throttle.overflow.desk import Desk


def test_a_message_is_parked_though_nothing_records_it(
    redis_url: str, desks: Callable[..., Desk]
) -> None:
    """A script that looks for it would take it for somebody else's."""
    desk = desks(redis_url, options={"ack_emulation": False})
    desk.send("one", "two")
    desk.parks("one")
    desk.forget()
    desk.attend("a")
    desk.get("one")
