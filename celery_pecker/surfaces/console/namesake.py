"""Which module `import throttle` is: the package beside this one, or a project's."""

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

NAME = "throttle"


def ours(path: Path) -> bool:
    """Return whether the file is the package that lies beside celery_pecker."""
    beside = path.resolve().parent.parent / "celery_pecker" / "__init__.py"
    return path.name == "__init__.py" and beside.is_file()


def other(words: Sequence[str]) -> Path | None:
    """Return the file that `import throttle` reads in the app, if it is not ours.

    Args:
        words: The command line, which may name another directory (``--workdir``).

    """
    known = sys.modules.get(NAME)
    places = [str(_folder(words)), *sys.path]
    spec = known.__spec__ if known else PathFinder.find_spec(NAME, places)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    return None if ours(path) else path


def _folder(words: Sequence[str]) -> Path:
    """Return the directory that Celery adds to `sys.path`."""
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        if option == "--workdir":
            return Path(value or "".join(words[at + 1 : at + 2]))
    return Path.cwd()
