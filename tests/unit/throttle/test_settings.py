"""What is refused of an app's ``throttle_*`` settings, and how they are found."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from celery import Celery

from throttle.errors import Misconfigured
from throttle.model import Amount, Estimator, Limit, Policy, Watch
from throttle.settings import Settings

REDIS = "redis://localhost:6379/1"


def read(**conf: object) -> Settings:
    """Return the settings of a real app."""
    app = Celery("shop", set_as_current=False)
    app.conf.update(conf)
    return Settings.read(app.conf)


def refused(**conf: object) -> str:
    """Return what the refusal says."""
    with pytest.raises(Misconfigured) as caught:
        read(**{"throttle_redis_url": REDIS, **conf})
    return str(caught.value)


def test_nothing_is_asked_of_those_who_do_not_use_it() -> None:
    """No setting is needed; there is no gate then."""
    assert read() == Settings()
    assert not read().enabled
    assert not read(throttle_redis_url=REDIS).enabled
    assert read(throttle_redis_url=REDIS, throttle_limits={"a": 1}).enabled


def test_all_settings_are_read() -> None:
    """Each under its lower-case name; None is as good as not given."""
    given: dict[str, Any] = {
        "redis_url": REDIS,
        "service_url": "http://gate:8585",
        "service_token": "s3cret",
        "control_token": "an0ther",
        "limits": {"main": 5000},
        "route": "proj.routing:database",
        "estimator": "fast",
        "policy": "closed",
        "shadow": True,
        "hold_bytes": 1_000,
        "hold_timeout": 60,
        "prefix": "shop",
    }
    assert {*given} == {*Settings.__dataclass_fields__}, "a setting is not tried here"
    found = read(**{f"throttle_{name}": value for name, value in given.items()})
    main = Limit(database="main", operations=5000.0, policy=Policy.CLOSED, shadow=True)
    assert found == Settings(
        **{
            **given,
            "limits": {"main": main},
            "estimator": Estimator.FAST,
            "policy": Policy.CLOSED,
        }
    )
    assert read(throttle_prefix=None).prefix == Settings().prefix


def test_a_namespace_is_understood() -> None:
    """As Django apps write them."""
    settings = ModuleType("settings")
    vars(settings).update(
        CELERY_THROTTLE_REDIS_URL=REDIS, CELERY_THROTTLE_LIMITS={"main": 9}
    )
    app = Celery("shop", set_as_current=False)
    app.config_from_object(settings, namespace="CELERY")
    found = Settings.read(app.conf)
    assert found.limits["main"].operations == 9
    settings.CELERY_THROTTLE_LIMIT = 1  # type: ignore[attr-defined]
    app = Celery("shop", set_as_current=False)
    app.config_from_object(settings, namespace="CELERY")
    with pytest.raises(Misconfigured, match="CELERY_THROTTLE_LIMIT is not a setting"):
        Settings.read(app.conf)


def test_a_limit_says_all_that_it_may() -> None:
    """Two dimensions, a policy of its own, weights, a second signal."""
    limit = read(
        throttle_redis_url=REDIS,
        throttle_policy="open",
        throttle_limits={
            "main": {
                "operations": 5000,
                "seconds": 8,
                "shadow": True,
                "tenants": {"acme": 3},
                "watch": {"dsn": "postgresql://db/app", "active": 40, "lag": 2.5},
                "queues": ["reports"],
            }
        },
    ).limits["main"]
    assert limit == Limit(
        database="main",
        operations=5000.0,
        seconds=8.0,
        policy=Policy.OPEN,
        shadow=True,
        tenants={"acme": 3.0},
        watch=Watch(dsn="postgresql://db/app", active=40.0, lag=2.5),
        queues=("reports",),
    )
    assert limit.fraction(Amount(500, 0.4)) == pytest.approx(0.1)
    assert limit.fraction(Amount(500, 4.0)) == pytest.approx(0.5)
    assert "postgresql://" not in repr(limit)


UNREADABLE = {"dsn": "no address s3cret", "active": 3}
SAID: dict[str, tuple[dict[str, object], str]] = {
    "a limit of zero": (
        {"throttle_limits": {"main": 0}},
        "throttle_limits['main'] must be a number above zero, not 0",
    ),
    "zero operations": (
        {"throttle_limits": {"main": {"operations": 0}}},
        "throttle_limits['main']['operations'] must be a number above zero, not 0",
    ),
    "a negative limit": ({"throttle_limits": {"main": -1}}, "above zero, not -1"),
    "no number": ({"throttle_limits": {"main": "many"}}, "above zero, not 'many'"),
    "not finite": ({"throttle_limits": {"main": float("inf")}}, "above zero, not inf"),
    "a switch": ({"throttle_limits": {"main": True}}, "above zero, not True"),
    "two for one": ({"throttle_limits": [("a", 1), ("a", 2)]}, "two limits for 'a'"),
    "two that look alike": (
        {"throttle_limits": {"Main": 1, "main ": 2}},
        "look like two limits",
    ),
    "no mapping": ({"throttle_limits": 5000}, "must map databases to limits"),
    "an odd name": ({"throttle_limits": {"a:b": 1}}, "no name of a database"),
    "a long name": ({"throttle_limits": {"x" * 61: 1}}, "1 to 60 bytes"),
    "no name": ({"throttle_limits": {7: 1}}, "7 is no name of a database"),
    "no operations": ({"throttle_limits": {"a": {"seconds": 1}}}, "needs 'operations'"),
    "another key": (
        {"throttle_limits": {"a": {"operations": 1, "rows": 1}}},
        "has 'rows'; allowed are operations, seconds",
    ),
    "an odd policy": (
        {"throttle_limits": {"a": {"operations": 1, "policy": "half"}}},
        "'open', 'closed', 'safe', not 'half'",
    ),
    "an odd weight": (
        {"throttle_limits": {"a": {"operations": 1, "tenants": {"x": 0}}}},
        "['x'] must be a number above zero",
    ),
    "a watch without eyes": (
        {"throttle_limits": {"a": {"operations": 1, "watch": {"dsn": "x"}}}},
        "watches nothing: set one of active, wal_rate, lag",
    ),
    "a watch of nothing": (
        {"throttle_limits": {"a": {"operations": 1, "watch": {"active": 1}}}},
        "must have 'dsn'",
    ),
    "a watch of what is no address": (
        {"throttle_limits": {"a": {"operations": 1, "watch": UNREADABLE}}},
        "throttle_limits['a']['watch']['dsn'] is not a PostgreSQL connection string",
    ),
    "no redis": ({"throttle_redis_url": "http://x"}, "this one begins with 'http:'"),
    "no url": ({"throttle_redis_url": "here:6379"}, "this one begins with 'here:'"),
    "a word": ({"throttle_redis_url": "localhost"}, "this one begins with no scheme"),
    "no number of a database": (
        {"throttle_redis_url": "redis://x:6379/main"},
        "end in the number of a database, 'redis://host:6379/1', not in 'main'",
    ),
    "a slash in a password": (
        {"throttle_redis_url": "redis://:12/s3cret@x:6379/1"},
        "not in a text; '/' in a password is written as %2F",
    ),
    "pairs that are none": (
        {"throttle_limits": [{"main": {"watch": {"dsn": "s3cret"}}}]},
        "must map databases to limits, {'main': 5000} (operations per second), not li",
    ),
    "a password for no service": (
        {"throttle_service_url": "htps://x:s3cret@y", "throttle_service_token": "x"},
        "http:// or https:// URL with a host; this one begins with 'htps'",
    ),
    "no service": (
        {"throttle_service_url": "redis://x", "throttle_service_token": "x"},
        "http:// or https:// URL",
    ),
    "half an address": (
        {"throttle_service_url": "http://[x", "throttle_service_token": "x"},
        "http:// or https:// URL",
    ),
    "no token": (
        {"throttle_service_url": "http://x"},
        "needs throttle_service_token",
    ),
    "an odd token": ({"throttle_service_token": "a b"}, "printable ASCII"),
    "an odd estimator": (
        {"throttle_estimator": "slow"},
        "throttle_estimator must be one of 'weighted', 'fast', not 'slow'",
    ),
    "an odd switch": ({"throttle_shadow": 1}, "True or False, not 1"),
    "no room": (
        {"throttle_hold_bytes": -1},
        "whole number from 0 to 100,000,000,000, not -1",
    ),
    "half a message": (
        {"throttle_hold_bytes": 1.5},
        "whole number from 0 to 100,000,000,000, not 1.5",
    ),
    "no route": ({"throttle_route": 7}, "or the function itself, not 7"),
    "another setting": (
        {"throttle_limit": 1},
        "throttle_limit is not a setting of throttle; did you mean 'throttle_limits'",
    ),
    "a queue of two databases": (
        {
            "throttle_limits": {
                name: {"operations": 1, "queues": ["q"]} for name in ("main", "other")
            }
        },
        "throttle_limits['other']['queues'] has 'q', and so has 'main'; leave one",
    ),
    "what is no name": (
        {"throttle_limits": {"main": {"operations": 1, "queues": "q"}}},
        "throttle_limits['main']['queues'] must be a list of names of queues, not 'q'",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_wrong_is_said_with_what_is_allowed(case: str) -> None:
    """Setting or field, value, and what is allowed."""
    conf, said = SAID[case]
    told = refused(**conf)
    assert said in told
    assert "\n" not in told
    assert "s3cret" not in told


@pytest.mark.parametrize(
    "url",
    [
        "redis://:pw@host",
        "rediss://user:pw@host:6380/2?ssl_cert_reqs=none",
        "unix:///run/redis.sock?db=3",
        "unix://:pw@/run/redis.sock",
        "sentinel://one:26379,two:26379/1?master_name=mine",
        "redis://[::1]:6379/",
    ],
)
def test_addresses_of_redis_are_taken(url: str) -> None:
    """In each form that its client knows, and sentinels."""
    assert read(throttle_redis_url=url).redis_url == url


def test_limits_need_a_place_to_count() -> None:
    """Redis, or the service."""
    with pytest.raises(Misconfigured, match="throttle_limits needs throttle_redis_url"):
        read(throttle_limits={"main": 1})


def test_secrets_stay_out_of_sight() -> None:
    """A Redis URL carries a password."""
    known = "t0"
    shown = repr(
        read(throttle_redis_url="redis://:pw@x/0", throttle_service_token=known)
    )
    assert "pw" not in shown
    assert "t0" not in shown
