"""Import what stands in the modules of a Celery app, tasks and entries."""

from __future__ import annotations

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
