"""Public names of a package that are loaded when they are first used.

Each `celery` command imports our packages before it knows what it is asked for; what
loads Celery or a driver of PostgreSQL is loaded at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    namespace: dict[str, object], names: Mapping[str, tuple[str, str | None]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        namespace: the package's ``globals()``; a name that was loaded is kept there.
        names: for each public name its module, below the package, and its name there;
            None: it is the module.
    """
    package = namespace["__name__"]

    def load(name: str) -> object:
        if name not in names:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        module, attribute = names[name]
        value: object = import_module(f"{package}.{module}")
        if attribute is not None:
            value = getattr(value, attribute)
        namespace[name] = value
        return value

    def known() -> list[str]:
        return sorted({*namespace, *names})

    return load, known
