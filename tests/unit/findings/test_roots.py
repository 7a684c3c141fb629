"""What stands first, and what below it."""

from __future__ import annotations

import pytest

from celery_pecker.surfaces.findings.model import Finding, fail, ok, warn
from celery_pecker.surfaces.findings.roots import ROOTS, rooted


def wrong(*checks: str) -> list[Finding]:
    """Return findings that are wrong."""
    return [fail(check, f"{check} is wrong", "mend it") for check in checks]


def shown(findings: list[Finding]) -> dict[str, list[str]]:
    """Return causes in their order, each with what follows from it."""
    return {
        one.check: [after.check for after in one.consequences]
        for one in rooted(findings)
    }


def test_an_outage_of_the_broker_is_one_cause() -> None:
    """Not 97 overdue entries and 212 tasks that wait, and the reason somewhere."""
    found = wrong("overdue", "outbox default", "failing", "broker")
    assert shown(found) == {"broker": ["overdue", "outbox default", "failing"]}


def test_a_consequence_stands_once_below_the_deepest_cause() -> None:
    """Each cause is shown all the same: mending one leaves the other."""
    found = wrong("overdue", "schedulers", "locks of 7", "broker")
    assert shown(found) == {"locks of 7": ["overdue"], "broker": [], "schedulers": []}


def test_what_nothing_explains_stands_for_itself() -> None:
    """Behind causes, and before what is only worth a look."""
    found = [warn("paused", "p", "resume"), ok("isolation", "i")]
    found += wrong("parked", "overdue", "schedulers")
    assert [*shown(found)] == ["schedulers", "parked", "paused"]


def test_what_is_only_worth_a_look_causes_nothing() -> None:
    """One scheduler instead of two does not make an entry late."""
    found = [warn("schedulers", "only one", "run a second"), *wrong("overdue")]
    assert shown(found) == {"overdue": [], "schedulers": []}


@pytest.mark.parametrize("check", ["workers", "held snapshots"])
def test_a_hint_becomes_wrong_by_what_follows_from_it(check: str) -> None:
    """No worker answers: alone that is worth a look; not while messages wait."""
    hint = warn(check, "…", "start workers")
    [alone] = rooted([hint])
    assert alone.grade == "warn"
    after = {"workers": "unreported", "held snapshots": "table pecker_tasks"}[check]
    [cause] = rooted([hint, *wrong(after)])
    assert cause.check == check
    assert cause.grade == "fail"
    assert [one.check for one in cause.consequences] == [after]


def test_nothing_is_lost_and_nothing_is_its_own_cause() -> None:
    """Whatever comes together, each finding is shown once."""
    checks = [name for name, _ in ROOTS]
    checks += ["overdue", "unclaimed", "outbox a", "unreported", "failing", "parked"]
    seen = [
        name
        for cause, after in shown(wrong(*checks)).items()
        for name in (cause, *after)
    ]
    assert sorted(seen) == sorted({*checks})
