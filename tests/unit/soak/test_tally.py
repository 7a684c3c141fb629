"""What `make soak` says of many runs."""

from __future__ import annotations

import json

from tests.soak.tally import Tallies


def line(test: str, outcome: str, text: str = "") -> str:
    """Return a line as the plugin writes it."""
    return json.dumps({"test": test, "outcome": outcome, "text": text})


def test_a_test_that_failed_once_in_three_runs_is_flaky() -> None:
    """It is listed with how often, behind those that fail always."""
    tallies = Tallies()
    tallies.add([line("t::one", "passed"), line("t::two", "failed", "why")])
    tallies.add([line("t::one", "failed", "late"), line("t::two", "failed")])
    tallies.add([line("t::one", "passed"), line("t::three", "passed")])
    [(worst, two), (other, one)] = tallies.failing
    assert (worst, two.failed, two.flaky) == ("t::two", 2, False)
    assert (other, one.failed, one.passed, one.flaky) == ("t::one", 1, 2, True)
    assert one.text == "late"


def test_a_failed_teardown_fails_the_test_that_passed() -> None:
    """Once: a failed call and a failed teardown are one failure."""
    tallies = Tallies()
    tallies.add([line("t::one", "passed"), line("t::one", "failed")])
    tallies.add([line("t::one", "failed"), line("t::one", "failed")])
    [(_, one)] = tallies.failing
    assert (one.failed, one.passed) == (2, 0)


def test_a_group_of_xdist_is_no_part_of_the_name() -> None:
    """The same test, run with one process and with two."""
    tallies = Tallies()
    tallies.add([line("t::one@cluster", "passed")])
    tallies.add([line("t::one", "failed")])
    assert [name for name, _ in tallies.failing] == ["t::one"]


def test_skipped_tests_and_lines_that_were_cut_off_count_as_nothing() -> None:
    """A run that was ended in the middle of a line."""
    tallies = Tallies()
    tallies.add([line("t::one", "skipped"), line("t::two", "failed")[:12]])
    assert tallies.failing == []
    assert tallies.tests["t::one"].rate == 0
