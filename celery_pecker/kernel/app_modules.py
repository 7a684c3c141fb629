"""The app of a process: what stands in its modules, and how it is named."""

import os
import sys
import threading
from typing import Any

_LOADING = threading.RLock()
"""A second thread waits for the modules: it would finalize the app without them."""
_IMPORTED = "_pecker_imported"


def load_app(app: Any) -> None:
    """Import the modules of a Celery app once, then finalize it, as Celery's beat does.

    In this order: ``on_after_finalize`` is sent once, and modules that are imported
    after it can add no entries in it. Whatever importing them raises passes.
    """
    with _LOADING:
        loader = app.loader
        if not (loader.worker_initialized or hasattr(loader, _IMPORTED)):
            loader.import_default_modules()
            setattr(loader, _IMPORTED, True)
        app.finalize()


def own_app(text: str) -> str:
    """Return a hint with the app of this process in it, where it says ``-A proj``."""
    pairs = zip(sys.argv, sys.argv[1:], strict=False)
    named = [value for option, value in pairs if option in {"-A", "--app"}]
    named += [one.partition("=")[2] for one in sys.argv if one.startswith("--app=")]
    name = (named or [os.environ.get("APP", "proj")])[0]
    return text.replace("-A proj", f"-A {name}")
