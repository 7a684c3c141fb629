"""What people do to alarms."""

import re
from datetime import datetime, timedelta, tzinfo

from celery_pecker.alarms.model import shortened
from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import InvalidField, PeckerError

TRIAL = "a trial: nothing is wrong"
LENGTH = re.compile(r"(\d{1,4})\s*(m|h|d)")
UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class NoSuchAlarm(PeckerError, LookupError):
    """There is no such alarm, or target, any more."""


class NotDone(PeckerError):
    """The alarm is in a state in which this cannot be done; the message says why."""


def change(  # all that an act may say
    database: Database,
    act: str,
    key: str,
    by: str,
    *,
    note: str = "",
    until: datetime | None = None,
) -> None:
    """Take an alarm, give it back, snooze, mute or unmute it.

    Args:
        database: of its table.
        act: take, give-back, snooze, mute or unmute.
        key: its rule and its subject, with a NUL between them.
        by: who does it.
        note: what a taker says of it.
        until: when a snooze ends.

    Raises:
        NoSuchAlarm: there is none any more.
        NotDone: somebody else has it, or it has recovered.
    """
    rule, _, subject = key.partition("\0")
    texts: dict[str, object] = {"act": act, "rule": rule, "subject": subject, "by": by}
    texts["note"] = shortened(note.replace("\0", ""))
    row = database.run_one("change_alarm", until=until, **texts)
    if row is None:
        raise NoSuchAlarm(f"there is no alarm of {subject!r} by the rule {rule!r}")
    may, taken_by, taken_at = row
    if may:
        return
    if act == "take" and taken_by not in {None, by}:
        since = taken_at.isoformat(timespec="seconds")
        raise NotDone(f"{taken_by} has it since {since}: it can be given back")
    raise NotDone("it has recovered")


def until(database: Database, text: str, zone: tzinfo | None = None) -> datetime:
    """Return the instant that a length of time or an instant means.

    Args:
        database: whose clock a length counts from.
        text: as typed.
        zone: whose clocks an instant goes by that names none; None: it must.

    Raises:
        InvalidField: it is neither, or lies in the past.
    """
    now = from_us(database.run("read_clock")[0][0])
    if found := LENGTH.fullmatch(text.strip()):
        return now + timedelta(**{UNITS[found[2]]: int(found[1])})
    instant = moment_of(text.strip(), zone)
    if instant is None or instant.tzinfo is None or instant <= now:
        raise InvalidField(
            f"until {text!r}: allowed are 30m, 8h, 2d, or an instant to come",
            field="until",
        )
    return instant


def test(database: Database, target: str, by: str) -> None:
    """Have a scheduler send a trial to a target.

    Raises:
        NoSuchAlarm: no scheduler has such a target.
    """
    params = {"target": target, "by": by, "detail": TRIAL}
    if not database.run("try_alarm_target", **params):
        raise NoSuchAlarm(f"no scheduler sends to {target!r}")
