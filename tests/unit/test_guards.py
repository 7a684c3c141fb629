"""The guards that can be taken out are where the list says that they are."""

from __future__ import annotations

import pytest

from tests.guards.__main__ import GUARDS, ROOT
from tests.guards.guard import Guard


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_is_where_it_is_said_to_be(guard: Guard) -> None:
    """A list that no longer fits the code proves nothing when it is run."""
    assert guard.text in (ROOT / guard.file).read_text(encoding="utf-8")
    assert guard.without != guard.text
    assert (ROOT / guard.tests.partition("::")[0]).exists()
    if guard.also is not None:
        assert guard.also[0] in (ROOT / guard.file).read_text(encoding="utf-8")
