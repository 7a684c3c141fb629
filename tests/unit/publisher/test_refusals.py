"""What Redis says of itself, and what it says of one message."""

from __future__ import annotations

from typing import Any

import pytest
from redis._parsers import BaseParser

from celery_pecker.brokers.redis.transport import takes_no_writes

SCRIPT = "ERR Error running script (call to f_7c): @user_script:25: @user_script: 25: "
OF_ITSELF = [
    "OOM command not allowed when used memory > 'maxmemory'.",
    "OOM command not allowed when used memory > 'maxmemory'. script: 7c, on @user:25.",
    f"{SCRIPT}-OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    f"{SCRIPT}-READONLY You can't write against a read only replica.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to.",
    "MISCONF Errors writing to the AOF file: No space left on device",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL.",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOREPLICAS Not enough good replicas to write.",
]
OF_A_MESSAGE = [
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "WRONGTYPE key 25: -OOM queue holds a hash, not a list",
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    "NOPERM No permissions to access a key",
]


def parsed(line: str) -> Exception:
    """Return the error as redis-py raises it."""
    parser: Any = BaseParser
    error: Exception = parser.parse_error(line)
    return error


@pytest.mark.parametrize("line", OF_ITSELF)
def test_a_redis_that_takes_no_writes_is_known(line: str) -> None:
    """Whichever version of Redis says so, a script or not."""
    assert takes_no_writes(parsed(line))


@pytest.mark.parametrize("line", OF_A_MESSAGE)
def test_a_refused_message_is_not_taken_for_it(line: str) -> None:
    """Else it would be tried for ever."""
    assert not takes_no_writes(parsed(line))
