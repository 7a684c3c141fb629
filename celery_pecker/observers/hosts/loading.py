"""Import the app of a supervisor in a fresh interpreter."""

from __future__ import annotations

import sys
from typing import Any

from celery_pecker.kernel import user_code
from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.errors import Misconfigured


def load(config: dict[str, Any]) -> Any:
    """Import the app of the supervisor, with its settings; return its observers."""
    # As multiprocessing does for what it spawns; last, so that they hide nothing.
    sys.path += [one for one in config["path"] if one not in sys.path]
    user_code.load_module(config["home"])
    for module in config["modules"]:
        user_code.load_module(module)
    observers: Any = _known(config["home"])
    app = observers.app
    app.conf.update(config["conf"])
    app.set_current()
    load_app(app)
    app.log.setup(loglevel=config["loglevel"], redirect_stdouts=False)
    return observers


def _known(home: str) -> Any:
    from celery_pecker.observers.app import Observers  # noqa: PLC0415  # Celery is loaded now

    for value in vars(sys.modules[home]).values():
        if isinstance(value, Observers):
            return value
    message = f"module {home!r} has no Observers(app) at its top level"
    raise Misconfigured(message)
