"""The page of the ways names files and functions that are there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "maintainers" / "ways.md"
ROW = re.compile(r"^\|[^`|]*\|? `([\w/]+\.\w+)` \|((?: `\w+`,?)*) ?\|", re.MULTILINE)
PART = re.compile(r"^## (.+)$", re.MULTILINE)
MOST = {
    "A slot: from its row": 19,
    "An item: from its row": 19,
    "An outbox row: from the call": 16,
}
"""Files of a way; more are too many to keep in mind."""


def rows(text: str) -> list[tuple[str, list[str]]]:
    """Return the files of a text's tables, and the names that stand with each."""
    return [(file, re.findall(r"\w+", names)) for file, names in ROW.findall(text)]


def parts() -> dict[str, str]:
    """Return the page's parts by their titles."""
    _, *rest = PART.split(PAGE.read_text(encoding="utf-8"))
    return dict(zip(rest[::2], rest[1::2], strict=True))


@pytest.mark.parametrize(("file", "names"), rows(PAGE.read_text(encoding="utf-8")))
def test_each_file_on_the_way_has_its_names(file: str, names: list[str]) -> None:
    """Functions, classes, or the labels of statements."""
    text = (ROOT / file).read_text(encoding="utf-8")
    for name in names:
        defined = rf"^\s*(?:async )?(?:def|class) {name}\b|^/\* \w+:{name} \*/"
        assert re.search(defined, text, re.MULTILINE), f"{name} in {file}"


@pytest.mark.parametrize("way", MOST)
def test_a_way_crosses_few_files(way: str) -> None:
    """Each file once, numbered."""
    [text] = [text for title, text in parts().items() if title.startswith(way)]
    files = [file for file, _ in rows(text)]
    assert len(files) == len({*files}) <= MOST[way]
    numbers = re.findall(r"^\| (\d+) \|", text, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(files) + 1)]


def test_ten_changes_have_a_place() -> None:
    """A stranger looks there first."""
    assert len(rows(parts()["Where ten changes belong"])) == 10
