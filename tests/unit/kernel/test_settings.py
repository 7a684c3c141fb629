"""What is refused of an app's ``pecker_*`` settings, and how they are found."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.declared import former, refuse_misspelt
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.settings import Settings
from celery_sharding.settings import ShardingSettings
from throttle.settings import Settings as ThrottleSettings

PACKAGES = (Settings, ShardingSettings, ThrottleSettings)
"""All that declare settings: each is loaded."""
DSN = "postgresql://pecker:s3cret@db/app"


def read(**conf: object) -> Settings:
    """Return the settings of a real app."""
    app = Celery("shop", set_as_current=False)
    app.conf.update(conf)
    return Settings.read(app.conf, main=app.main)


def refused(**conf: object) -> str:
    """Return what the refusal says."""
    with pytest.raises(Misconfigured) as caught:
        read(**conf)
    return str(caught.value)


def test_one_setting_is_enough() -> None:
    """The rest has defaults; the app's name is the owner's."""
    assert read(pecker_dsn=DSN) == Settings(dsn=DSN, app="shop")


def test_an_app_without_a_name_is_refused() -> None:
    """Two of them in one schema would be taken for one."""
    with pytest.raises(Misconfigured, match=r"pecker_app is not set.*Celery\('proj'\)"):
        Settings.read({"pecker_dsn": DSN}, main=None)
    named = {"pecker_dsn": DSN, "pecker_app": "shop"}
    assert Settings.read(named, main=None).app == "shop"


def test_all_settings_are_read() -> None:
    """Each under its lower-case name; None is as good as not given."""
    given: dict[str, Any] = {
        "dsn": DSN,
        "app": "renamed",
        "app_version": "2026.11.3",
        "schema": 'Odd "name"-1',
        "database_timeout": 3,
        "broker_timeout": 0.5,
        "gate": "proj.gates:office_hours",
        "worker": ("observers", "outbox", "scheduler"),
        "local_threads": 2,
        "history": 0,
        "metrics": "[::]:9100",
        "tracing": True,
        "heartbeat_dir": "/run/pecker",
        "outbox_message_bytes": 1_000,
        "outbox_lease": 10,
        "allowed_tasks": ["billing.*"],
        "intake_tasks": ["billing.*"],
        "outbox_backoff": 0.5,
        "outbox_attempts": 1,
        "outbox_history": 0,
        "observers_hosts": 2,
        "observers_capacity": 300,
        "observers_memory_bytes": 500_000_000,
        "observers_lease": 8,
        "alarms": {"silent": {}},
        "alarms_to": {"duty": "proj.duty:page"},
        "flower_url": "https://flower.example.com",
        "show_arguments": False,
    }
    assert {*given} == {*Settings.__dataclass_fields__}, "a setting is not tried here"
    found = read(**{f"pecker_{name}": value for name, value in given.items()})
    assert found == Settings(**given)
    assert read(pecker_dsn=DSN, pecker_gate=None).gate is None


def django_like() -> Celery:
    """Return an app that reads a module of upper-case names, as Django's does."""
    module = ModuleType("settings")
    vars(module).update(
        DEBUG=True,
        DATABASES={},
        CELERY_BROKER_URL="memory://",
        CELERY_PECKER_DSN=DSN,
        CELERY_PECKER_SCHEMA="jobs",
        CELERY_PECKER_BROKER_TIMEOUT=3,
    )
    app = Celery("proj", set_as_current=False)
    app.config_from_object(module, namespace="CELERY")
    return app


def test_under_a_namespace_they_are_upper_case() -> None:
    """``CELERY_PECKER_DSN`` of Django's settings is ``pecker_dsn``."""
    app = django_like()
    assert Settings.read(app.conf, main=app.main) == Settings(
        dsn=DSN, app="proj", schema="jobs", broker_timeout=3
    )


def test_a_misspelt_setting_is_seen_by_the_first_who_reads() -> None:
    """Before that the app's configuration does not say what its namespace is."""
    module = ModuleType("settings")
    vars(module).update(CELERY_PECKER_DSN=DSN, CELERY_PECKER_SHCEMA="jobs")
    app = Celery("proj", set_as_current=False)
    app.config_from_object(module, namespace="CELERY")
    with pytest.raises(Misconfigured, match="CELERY_PECKER_SHCEMA is not a setting"):
        Settings.read(app.conf, main=app.main)


@pytest.mark.parametrize("key", ["CELERY_PECKER_SHCEMA", "pecker_shcema"])
def test_a_misspelt_setting_is_refused_under_a_namespace_too(key: str) -> None:
    """It would silently have no effect; the message names it as it was written."""
    app = django_like()
    app.conf.update({key: "jobs"})
    with pytest.raises(Misconfigured) as caught:
        Settings.read(app.conf, main=app.main)
    assert key in str(caught.value)
    assert "pecker_schema" in str(caught.value)


def test_settings_of_others_are_none_of_our_business() -> None:
    """Only what begins with ``pecker_`` is looked at."""
    assert read(pecker_dsn=DSN, woodpecker_dsn=1, PECKER=2, task_pecker_x=3).dsn == DSN


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    """A typing error must not be a setting without effect."""
    said = refused(pecker_dsn=DSN, pecker_zebra=3)
    assert "pecker_zebra" in said
    for name in Settings.__dataclass_fields__:
        assert f"pecker_{name}" in said
    said = refused(pecker_dns=DSN)
    assert said == (
        "pecker_dns is not a setting of celery-pecker; did you mean 'pecker_dsn'?"
    )


@pytest.mark.parametrize("dsn", [None, ""])
def test_without_a_dsn_the_message_shows_one(dsn: object) -> None:
    """It is the first thing that anybody sees of us."""
    said = refused(pecker_dsn=dsn)
    assert "pecker_dsn" in said
    assert "postgresql://user@host/database" in said


WRONG: list[tuple[str, object, str]] = [
    ("app", 5, "non-empty string"),
    ("app", "a\0b", "non-empty string"),
    ("gate", "", "non-empty string"),
    ("gate", print, "non-empty string"),
    ("schema", "", "1 to 63 bytes"),
    ("schema", "x" * 64, "1 to 63 bytes"),
    ("schema", "ä" * 32, "1 to 63 bytes"),
    ("schema", "a{b", "without NUL, '{' or '%'"),
    ("schema", "a%b", "without NUL, '{' or '%'"),
    ("schema", "a\0b", "without NUL, '{' or '%'"),
    ("schema", None.__class__, "name of a PostgreSQL schema"),
    *(
        ("worker", value, "a set of 'scheduler', 'outbox' and 'observers'")
        for value in (True, "outbox", ["beat"], [["outbox"]])
    ),
    ("tracing", 1, "True or False"),
    *(
        ("metrics", value, "an address and a port, as in '127.0.0.1:9808'")
        for value in (9_808, "localhost", ":9808", "localhost:0", "localhost:65536")
    ),
    ("heartbeat_dir", 5, "non-empty string"),
    *(
        (name, value, allowed)
        for name, allowed in (
            ("local_threads", "from 1 to 1000"),
            ("history", "from 0 to 100000"),
        )
        for value in (-1, 100_001, 1.5, True, "8")
    ),
    *(
        (name, value, allowed)
        for name, allowed in (
            ("database_timeout", "above zero to 3600"),
            ("broker_timeout", "above zero to 3600"),
        )
        for value in (-1, float("nan"), float("inf"), True, "2", 3601, 1e300)
    ),
    ("database_timeout", 0, "above zero"),
    ("broker_timeout", 0.0, "above zero"),
    ("outbox_backoff", 0, "above zero"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_a_wrong_value_is_named_with_what_is_allowed(
    name: str, value: object, allowed: str
) -> None:
    """Setting, value, and what is allowed: enough to mend it without the manual."""
    said = refused(pecker_dsn=DSN, **{f"pecker_{name}": value})
    assert said.startswith(f"pecker_{name} must be")
    assert repr(value) in said
    assert allowed in said


def test_a_dsn_is_never_shown() -> None:
    """Not in the settings' own text, nor in a refusal: it may hold a password."""
    assert "s3cret" not in repr(read(pecker_dsn=DSN))
    for wrong in (DSN.encode(), [DSN], f"{DSN}\0"):
        assert "s3cret" not in refused(pecker_dsn=wrong)
    assert "s3cret" not in refused(pecker_dsn=DSN, pecker_schema="")


@pytest.mark.parametrize("name", former())
def test_a_setting_that_there_once_was_is_refused_with_what_became_of_it(
    name: str,
) -> None:
    """Under a namespace, too, at each point that looks for misspelt ones."""
    for key in (name, f"CELERY_{name.upper()}"):
        app = django_like()
        app.conf.update({key: None})
        with pytest.raises(Misconfigured) as caught:
            refuse_misspelt(app.conf)
        assert str(caught.value) == f"{key} {former()[name]}"


def test_what_became_of_a_setting_names_no_other_that_there_once_was() -> None:
    """Who goes by what is said is not refused again."""
    declared = {
        package.PREFIX + name
        for package in PACKAGES
        for name in package.__dataclass_fields__
    }
    assert not declared & {*former()}
    for said in former().values():
        named = {*re.findall(r"(?:pecker|sharding|throttle)_[a-z_]+", said)}
        assert named <= declared
        assert said.startswith(("was renamed ", "is gone: "))


def test_settings_are_keys_whatever_lists_and_mappings_they_have() -> None:
    """Connections are kept by them: a worker of sharded jobs may have alarms, too."""
    conf = {
        "pecker_dsn": "postgresql:///x",
        "pecker_alarms": {"silent": {"to": []}},
        "pecker_alarms_to": {"duty": "proj:page"},
        "pecker_allowed_tasks": ["proj.*"],
        "pecker_intake_tasks": ["proj.*"],
    }
    assert len({Settings.read(conf, main="t"), Settings.read(conf, main="t")}) == 1
