"""What a worker refuses at its start, warns of, and says."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.start_refused import StartRefused
from throttle.errors import Misconfigured
from throttle.settings import Settings
from throttle.worker import starting
from throttle.worker.install import ThrottleStep, _on_worker_init

GIVEN = {
    "throttle_redis_url": "redis://localhost:6379/1",
    "throttle_limits": {"main": 200, "b": {"operations": 5, "shadow": True}},
}


def app(option: object = None, **conf: object) -> Any:
    """Return an app with one task."""
    made = Celery("shop", set_as_current=False)
    made.conf.update(conf)

    @made.task(name="bill", shared=False, throttle=option)
    def bill() -> None: ...

    made.finalize(auto=True)
    return made


def test_a_misspelt_setting_ends_the_start() -> None:
    """With `throttle_limit` alone there would be no gate, and nobody would say so."""
    with pytest.raises(StartRefused, match="throttle_limit is not a setting"):
        starting.wanted(app(throttle_limit={"main": 5}))


def test_tasks_that_wait_for_no_limit_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They run, as if there were no option."""
    with caplog.at_level(logging.WARNING, "throttle"):
        assert not starting.wanted(app(option="main"))
    assert "nothing is held of tasks with the option throttle: bill" in caplog.text


def test_settings_without_limits_are_said_to_do_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after `Throttle(app)`."""
    with caplog.at_level(logging.WARNING, "throttle"):
        assert not starting.wanted(app(throttle_redis_url="redis://localhost"))
    assert "throttle_limits is not set" in caplog.text


def test_an_app_that_uses_none_of_it_hears_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And has no gate."""
    with caplog.at_level(logging.DEBUG, "throttle"):
        assert not starting.wanted(app())
    assert caplog.text == ""
    assert starting.wanted(app(**GIVEN))


def test_the_step_comes_by_itself_to_look() -> None:
    """Also to an app whose only setting is misspelt."""
    made = app(throttle_limit=1)
    _on_worker_init(instance=type("Worker", (), {"app": made}), conf=made.conf)
    assert ThrottleStep in made.steps["consumer"]
    assert made.steps["worker"] == set()


@pytest.mark.parametrize(
    "option", ["other", ("main",), ["main", "acme"], ("other", "acme"), 7]
)
def test_an_option_that_is_no_target_ends_the_start(option: object) -> None:
    """In one line, whatever it is."""
    made = app(option=option, **GIVEN)
    with pytest.raises(Misconfigured, match="allowed: 'b', 'main'"):
        starting.check_tasks(made.tasks, Settings.read(made.conf))


@pytest.mark.parametrize("option", [None, "main", ("b", "acme"), ("b", 7)])
def test_an_option_may_have_a_tenant(option: object) -> None:
    """A text or a number."""
    made = app(option=option, **GIVEN)
    starting.check_tasks(made.tasks, Settings.read(made.conf))


def test_a_worker_says_what_it_holds() -> None:
    """And what is only counted."""
    told = starting.summary(Settings.read(app(**GIVEN).conf))
    assert told == ("main 200 operations/s, b 5 operations/s (shadow)")
