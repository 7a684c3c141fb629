"""What readers of the built documentation find, and what they do not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a build; `make docs` is the one that fails on warnings."""
    folder = tmp_path_factory.mktemp("docs")
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", DOCS, folder, "-d", folder / "trees"],
        check=True,
        timeout=280,  # of a machine that runs other tests beside it
    )
    return folder


def index(built: Path) -> dict[str, Any]:
    """Return what the search page of the build looks its words up in."""
    text = (built / "searchindex.js").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(
        re.sub(r"^Search\.setIndex\(|\);?$", "", text.strip())
    )
    return found


def test_maintainers_pages_are_not_found(built: Path) -> None:
    """No title and no word leads to one; to each how-to its title does."""
    search = index(built)
    names = search["docnames"]
    found = {
        names[page]
        for pages in [*search["terms"].values(), *search["titleterms"].values()]
        for page in (pages if isinstance(pages, list) else [pages])
    }
    ours = {name for name in names if name.startswith("maintainers/")} | {
        "contributing"
    }
    assert len(ours) > 4
    assert found & ours == set()
    assert {name for name in names if name.startswith("how-to/")} <= found


def test_the_api_is_shown_by_public_names_and_whole_sentences(built: Path) -> None:
    """A name is that of the import; no docstring is cut, no object's address shown."""
    pages = [*(built / "reference" / "api").glob("*.html")]
    assert len(pages) > 8
    for page in pages:
        text = re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))
        for artefact in (
            "Type:\n",
            " object&gt;",
            "(value)",
            "~celery",
            ".stored.app.",
        ):
            assert artefact not in text, f"{page.name}: {artefact}"


def test_code_can_be_copied(built: Path) -> None:
    """A page loads what puts a button on each of its blocks."""
    page = (built / "index.html").read_text(encoding="utf-8")
    assert re.search(r'src="_static/copybutton\.js', page)
    assert (built / "_static" / "copybutton.js").is_file()
