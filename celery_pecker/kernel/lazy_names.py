"""Public names of a package that are loaded when they are first used.

Each `celery` command imports our packages before it knows what it is asked for; what
loads Celery or a driver of PostgreSQL is loaded at its first use.
"""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    namespace: dict[str, object], modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        namespace: the package's ``globals()``; a name that was loaded is kept there.
        modules: of each module below the package its public names, with blanks between:
            as they are there, or ``current:current_run``. The module's own name is
            itself.
    """
    package = namespace["__name__"]
    places = {
        name.rpartition(":")[2]: (module, name.partition(":")[0])
        for module, names in modules.items()
        for name in names.split()
    }

    def load(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = places[name]
        value: object = import_module(f"{package}.{module}")
        if attribute != module:
            value = getattr(value, attribute)
        namespace[name] = value
        return value

    def known() -> list[str]:
        return sorted({*namespace, *places})

    return load, known
