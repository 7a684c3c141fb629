"""What the documentation shows is done for real, page by page."""

from __future__ import annotations

from pathlib import Path

import pytest

from celery_pecker.testing import free_port
from tests.docs.pages import NEED_A_WORD, ROOT, scenarios, steps
from tests.docs.scene import Scene, Wrong

PAGES = scenarios()


@pytest.mark.parametrize("page", PAGES)
def test_each_block_says_what_is_done_with_it(page: str) -> None:
    """A block that is not run says why; none is forgotten."""
    for step in steps((ROOT / page).read_text()):
        where = f"{page}:{step.line}"
        assert step.verb, f"{where}: say file, run, background, output or not run"
        assert step.rest or step.verb not in NEED_A_WORD, f"{where}: {step.verb} what?"


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_happens(
    page: str, tmp_path: Path, empty_dsn: str, redis_url: str
) -> None:
    """Its files, commands and queries, in order, on real servers."""
    words = {
        "postgresql://app@localhost/app": empty_dsn,
        "redis://localhost/0": redis_url,
        # servers that a page starts for itself
        "15432": str(free_port()),
        "16379": str(free_port()),
    }
    scene = Scene(folder=tmp_path, dsn=empty_dsn, words=words)
    try:
        for step in steps((ROOT / page).read_text()):
            try:
                scene.play(step)
            except AssertionError as error:
                message = f"{page}:{step.line}: {error}"
                raise Wrong(message) from error
    finally:
        scene.stop()


def test_a_wrong_page_is_found_out(tmp_path: Path, empty_dsn: str) -> None:
    """Blocks that fail, and output that is not said, are errors."""
    scene = Scene(folder=tmp_path, dsn=empty_dsn, words={})
    told = "<!-- run -->\n```sql\nselect 1, 'two'\n```\n\n<!-- output -->\n```text\n"
    for step in steps(told + "1 | t…\n```\n"):
        scene.play(step)
    with pytest.raises(Wrong, match="but it said"):
        [scene.play(step) for step in steps(told + "2 | two\n```\n")]
    with pytest.raises(Wrong, match="ended with 3"):
        [scene.play(step) for step in steps("<!-- run -->\n```sh\nexit 3\n```\n")]

