"""What the documentation shows is done for real, page by page."""

from __future__ import annotations

import secrets
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from celery_pecker.testing import free_port
from tests.docs.pages import NEED_A_WORD, ROOT, scenarios, steps
from tests.docs.scene import Scene, Wrong
from tests.smoke import bare

PAGES = scenarios()
RUN = {"run", "background"}
TYPED = bare.PAGES
"""Pages that `make smoke` plays, in `make check` too."""


@pytest.mark.parametrize("page", PAGES)
def test_each_block_says_what_is_done_with_it(page: str) -> None:
    """A block that is not run says why; none is forgotten."""
    for step in steps((ROOT / page).read_text()):
        where = f"{page}:{step.line}"
        assert step.verb, f"{where}: say file, run, background, output or not run"
        assert step.rest or step.verb not in NEED_A_WORD, f"{where}: {step.verb} what?"


@pytest.mark.parametrize(
    "page",
    [str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "how-to").glob("*.md")],
)
def test_each_how_to_has_something_to_run(page: str) -> None:
    """A reader tries it before it is built in; explanations stand elsewhere."""
    assert page in PAGES
    assert {step.verb for step in steps((ROOT / page).read_text())} & RUN


def remove(role: str, dsn: str) -> None:
    """Drop a role that a page made: roles outlive their database."""
    name = sql.Identifier(role)
    with psycopg.connect(dsn, autocommit=True) as connection:
        known = connection.execute("select 1 from pg_roles where rolname = %s", [role])
        if known.fetchone():
            connection.execute(sql.SQL("drop owned by {}").format(name))
            connection.execute(sql.SQL("drop role {}").format(name))


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=(pytest.mark.soak,) if page in TYPED else ())
        for page in PAGES
    ],
)
def test_what_a_page_shows_happens(
    page: str, tmp_path: Path, empty_dsn: str, redis_url: str
) -> None:
    """Its files, commands and queries, in order, on real servers."""
    role = f"pecker_test_{secrets.token_hex(6)}"
    words = {
        "pecker_scheduler": role,
        "postgresql://app@localhost/app": empty_dsn,
        "redis://localhost/0": redis_url,
        "5555": str(free_port()),
        "8585": str(free_port()),
    }
    scene = Scene(folder=tmp_path, dsn=empty_dsn, words=words)
    try:
        scene.play_page(page)
    finally:
        remove(role, empty_dsn)


def test_a_wrong_page_is_found_out(tmp_path: Path, empty_dsn: str) -> None:
    """Blocks that fail, and output that is not said, are errors."""
    scene = Scene(folder=tmp_path, dsn=empty_dsn, words={})
    asked = "<!-- run -->\n```sql\nselect 1, 'two'\n```\n\n<!-- output -->\n"
    query, right = steps(asked + "```text\n1 | t…\n```\n")
    _, wrong = steps(asked + "```text\n2 | two\n```\n")
    [fails] = steps("<!-- run -->\n```sh\nexit 3\n```\n")
    scene.play(query)
    scene.play(right)
    with pytest.raises(Wrong, match="but it said"):
        scene.play(wrong)
    with pytest.raises(Wrong, match="ended with 3"):
        scene.play(fails)
