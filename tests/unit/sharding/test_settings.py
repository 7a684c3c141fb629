"""What is refused of an app's ``sharding_*`` settings, and how they are found."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.errors import Misconfigured
from celery_sharding import Sharding
from celery_sharding.settings import ShardingSettings

BOUNDS = {
    "inline_bytes": (0, 1_000_000_000),
    "lease": (1, 3_600),
    "retention": (0, 3_650 * 86_400),
}


def read(**conf: object) -> ShardingSettings:
    """Return the settings of a real app."""
    app = Celery("shop", set_as_current=False)
    app.conf.update(conf)
    return ShardingSettings.read(app.conf)


def refused(**conf: object) -> str:
    """Return what the refusal says."""
    with pytest.raises(Misconfigured) as caught:
        read(**conf)
    return str(caught.value)


def test_nothing_needs_to_be_set() -> None:
    """Where the tables are, the kernel's settings say."""
    assert read() == ShardingSettings()


def test_all_settings_are_read() -> None:
    """Each under its lower-case name; None is as good as not given."""
    given: dict[str, Any] = {
        "inline_bytes": 5_000,
        "lease": 30.0,
        "retention": 86_400,
    }
    assert {*given} == {*ShardingSettings.__dataclass_fields__}, "one is not tried"
    found = read(**{f"sharding_{name}": value for name, value in given.items()})
    assert {name: getattr(found, name) for name in given} == given
    assert read(sharding_lease=None) == ShardingSettings()


def test_a_misspelt_one_is_refused_by_name() -> None:
    """It would be silently without effect."""
    said = refused(sharding_leese=3)
    assert said.startswith("sharding_leese is not a setting of celery_sharding")
    assert "did you mean 'sharding_lease'" in said
    assert "allowed are sharding_inline_bytes" in refused(sharding_wxyz=3)


def test_an_argument_that_there_once_was_is_refused_with_what_became_of_it() -> None:
    """As the setting of that name is."""
    app = Celery("shop", set_as_current=False)
    with pytest.raises(Misconfigured, match="slice is gone: a ticket runs shards"):
        Sharding(app, slice=2.0)


@pytest.mark.parametrize("name", [*BOUNDS])
def test_a_number_outside_its_bounds_is_refused(name: str) -> None:
    """The message says which are allowed; text and True are no numbers."""
    least, most = BOUNDS[name]
    for wrong in (least - 1, most * 2 + 1, "1", True, float("nan")):
        said = refused(**{f"sharding_{name}": wrong})
        assert said.startswith(f"sharding_{name} must be a ")
        assert f"from {least:g} to {most:g}" in said
        assert repr(wrong) in said


def test_a_namespace_is_taken_off() -> None:
    """As Celery does for its own settings."""

    class Conf:
        SHOP_SHARDING_LEASE = 3.0
        SHOP_SHARDING_LEESE = 3.0

    app = Celery("shop", set_as_current=False)
    app.config_from_object(Conf(), namespace="SHOP")
    with pytest.raises(Misconfigured, match="SHARDING_LEESE is not a setting"):
        ShardingSettings.read(app.conf)
    del Conf.SHOP_SHARDING_LEESE
    app = Celery("shop", set_as_current=False)
    app.config_from_object(Conf(), namespace="SHOP")
    assert ShardingSettings.read(app.conf).lease == 3.0
