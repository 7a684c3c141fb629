"""Bad input ends ``celery beat`` at start, in one line that says how to mend it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.chaos.cluster import Cluster
from tests.nodes import start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.nodes import BeatNode
    from tests.services import PostgresStand, RedisStand

pytestmark = pytest.mark.cluster

ENDS_WITHIN = 60.0


def scheduled(**entry: object) -> dict[str, Any]:
    """Return the setting of a schedule with this one entry."""
    return {"beat_schedule": {"wrong": {"task": "chaos.tick", **entry}}}


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no DSN": ({"pecker_dsn": None}, ["pecker_dsn", "postgresql://"]),
    "a DSN that is none": (
        {"pecker_dsn": "my database"},
        ["pecker_dsn", "postgresql://"],
    ),
    "a database that is not there": (
        {"pecker_dsn": "{server}/nowhere"},
        ["pecker_dsn", "nowhere"],
    ),
    "a user that is not there": (
        {"pecker_dsn": "postgresql://nobody_known:x@{place}/postgres"},
        ["pecker_dsn", "nobody_known"],
    ),
    "a schema without tables": (
        {"pecker_schema": "elsewhere"},
        ["pecker_schema", "elsewhere", "pecker migrate"],
    ),
    "an unknown setting": (
        {"pecker_timeout": 3},
        ["pecker_timeout", "pecker_database_timeout"],
    ),
    "a setting of a wrong kind": (
        {"pecker_broker_timeout": -1},
        ["pecker_broker_timeout", "-1", "above zero"],
    ),
    "a period of zero": (scheduled(schedule=0), ["wrong", "schedule", "0"]),
    "a negative period": (scheduled(schedule=-5.0), ["wrong", "schedule", "-5"]),
    "an unknown policy": (
        scheduled(schedule=1.0, pecker={"retries": 3}),
        ["wrong", "retries", "misfire"],
    ),
    "an entry without a task": (
        {"beat_schedule": {"wrong": {"schedule": 1.0}}},
        ["wrong", "task"],
    ),
}


@pytest.fixture(scope="module")
def ended(
    postgres_server: PostgresStand, redis_server: RedisStand
) -> Iterator[dict[str, BeatNode]]:
    """Every wrong configuration was started once, all at the same time."""
    queue = f"pecker-test-{secrets.token_hex(6)}"
    with (
        postgres_server.fresh(migrated=True) as dsn,
        Cluster(dsn=dsn, broker_url=redis_server.url, queue=queue) as made,
    ):
        with psycopg.connect(dsn) as connection:
            info = connection.info
            place = f"{info.host}:{info.port}"
            server = f"postgresql://{info.user}:{info.password}@{place}"
        nodes = {}
        for case, (settings, _) in CASES.items():
            wrong = made.conf() | settings
            if wrong["pecker_dsn"] is not None:
                wrong["pecker_dsn"] = (
                    wrong["pecker_dsn"]
                    .replace("{server}", server)
                    .replace("{place}", place)
                )
            nodes[case] = made.replica(wrong)
        start(list(nodes.values()))
        yield nodes


@pytest.mark.parametrize("case", CASES)
def test_bad_input_ends_beat_at_start_and_is_named(
    case: str, ended: dict[str, BeatNode]
) -> None:
    """Exit code; the last line names the setting, its value and what is allowed."""
    node = ended[case]
    assert node.process.wait(ENDS_WITHIN) != 0
    last = node.process.life_log().rstrip().rpartition("\n")[2]
    said = last.partition("Error: ")[2]
    assert said
    assert node.process.life_log().count(said) == 1, node.process.life_log()
    missing = [word for word in CASES[case][1] if word not in last]
    assert not missing, node.process.life_log()
