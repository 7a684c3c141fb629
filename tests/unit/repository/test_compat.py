"""The tests that are run on other versions are where the lists of them say."""

from __future__ import annotations

import pytest

from tests.compat import OTHERS, QUICK, ROOT, WHOLE

LISTS = {"whole": WHOLE, "quick": QUICK, **OTHERS}


@pytest.mark.parametrize("name", LISTS)
def test_what_a_version_is_tried_with_exists(name: str) -> None:
    """Pytest ends with an error where one does not, and that is seen at night only."""
    paths = [path.removeprefix("--ignore=") for path in LISTS[name]]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
