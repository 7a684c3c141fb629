"""Where notices go: the log, an address of Apprise, a callable."""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from celery_pecker.alarms.kinds import KINDS
from celery_pecker.alarms.model import LOG, Event, Notice, one_line
from celery_pecker.alarms.rules import TARGETS
from celery_pecker.kernel import user_code
from celery_pecker.kernel.errors import Misconfigured

logger = logging.getLogger("celery_pecker.alarms")

Target = Callable[[Notice], None]
"""Takes a notice, or raises."""
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")
ALLOWED = (
    "an Apprise URL such as 'slack://…', 'mailto://…' or 'jsons://…', or the dotted"
    " path of a callable such as 'proj.duty:page'"
)


LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING}


class NotSent(Exception):
    """The target did not take the notice."""


def read_targets(addresses: Mapping[str, str]) -> dict[str, Target]:
    """Return what sends to each target, the log among them.

    Raises:
        Misconfigured: an address is none, or what it needs is not installed.

    """
    return {LOG: to_log, **{name: _target(name, at) for name, at in addresses.items()}}


def to_log(notice: Notice) -> None:
    """Write one line: what rings as bad as it is, INFO for what has recovered."""
    rings = notice.event == Event.RINGING
    logger.log(
        LEVELS[notice.severity] if rings else logging.INFO,
        "pecker: alarm %s: %s: %s: %s (since %s)%s%s",
        notice.event,
        notice.rule,
        one_line(notice.subject),
        one_line(notice.detail),
        notice.since.isoformat(timespec="seconds"),
        f"; {KINDS[notice.kind].advice}" if rings else "",
        f"; {notice.link}" if notice.link else "",
        extra={"notice": notice},
    )


def _target(name: str, address: str) -> Target:
    where = f"{TARGETS}[{name!r}]"
    if DOTTED.fullmatch(address):
        return _callable(where, address)
    # The address stays out of each message: it holds tokens and passwords.
    if "://" not in address:
        raise Misconfigured(f"{where} is neither; allowed: {ALLOWED}")
    try:
        import apprise  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise Misconfigured(
            f"{where} is an address of Apprise, which is not installed:"
            " pip install 'celery-pecker[alarms]'"
        ) from error
    if apprise.Apprise.instantiate(address, suppress_exceptions=True) is None:
        kind = address.partition("://")[0]
        raise Misconfigured(
            f"{where} ({kind}://…) is no address of Apprise; allowed: {ALLOWED}"
        )
    return _apprise(address)


def _callable(where: str, path: str) -> Target:
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        target: Any = getattr(user_code.load_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Misconfigured(
            f"{where} is {path!r}, which cannot be imported ({error})"
        ) from error
    if not callable(target):
        raise Misconfigured(
            f"{where} is {path!r}, which is {target!r}; allowed: {ALLOWED}"
        )

    def send(notice: Notice) -> None:
        with user_code.no_exit(path):
            target(notice)

    return send


def _apprise(address: str) -> Target:
    def send(notice: Notice) -> None:
        import apprise  # noqa: PLC0415  # as above

        sender = apprise.Apprise()
        sender.add(address)
        bad, warning = apprise.NotifyType.FAILURE, apprise.NotifyType.WARNING
        types = {
            Event.RINGING: bad if notice.severity == "critical" else warning,
            Event.RECOVERED: apprise.NotifyType.SUCCESS,
        }
        since = notice.since.isoformat(timespec="seconds")
        taken, error = user_code.tried(
            sender.notify,
            title=notice.title,
            body=f"{notice.detail} (since {since}; notice {notice.id})"
            + (f"\n{notice.link}" if notice.link else ""),
            notify_type=types.get(Event(notice.event), apprise.NotifyType.INFO),
        )
        if error is not None:  # its text may have the address
            raise NotSent(f"Apprise raised {type(error).__name__}") from None
        if not taken:
            raise NotSent("Apprise could not deliver it: see the log of 'apprise'")

    return send
