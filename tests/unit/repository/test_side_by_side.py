"""Tests that share a fixture of their module run in one process."""

from __future__ import annotations

import os
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling

GROUP = "unit/repository/test_side_by_side.py-a"


@pytest.fixture(scope="module", params=["a"])
def shared(request: pytest.FixtureRequest) -> str:
    """Give what is made once."""
    return str(request.param)


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process")
def test_a_test_is_named_by_what_it_shares(
    shared: str, request: pytest.FixtureRequest
) -> None:
    """And xdist takes the name for its group."""
    nodeid = request.node.nodeid
    assert nodeid.endswith(f"[{shared}]@{GROUP}")
    scheduling: Any = LoadGroupScheduling
    assert scheduling._split_scope(None, nodeid) == GROUP


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process")
def test_others_go_to_whoever_is_free(request: pytest.FixtureRequest) -> None:
    """Their name is their own."""
    assert "@" not in request.node.nodeid
