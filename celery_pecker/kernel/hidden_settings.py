"""Hide passwords of settings in `celery report` and `celery inspect conf`.

Celery hides settings by names that it knows. Flower's page of a worker shows what
the worker answers to `inspect conf`.
"""

import re
from collections.abc import Mapping

from celery.app import utils

HIDDEN = re.compile(r"(dsn|redis_url|service_url|alarms_to)$", re.IGNORECASE)
"""Names of ours whose values may have a password, as written under any namespace. A
name that ends in ``dsn`` may be any: `Query` reads a setting that its user names."""
MASK = "*" * 8


def hide() -> None:
    """Have Celery hide ours, too; may be called again."""
    celerys = utils.filter_hidden_settings
    if hasattr(celerys, "without_ours"):
        return

    def filter_hidden_settings(conf: dict[str, object]) -> dict[str, object]:
        """Return settings as people may see them."""
        return {key: _hidden(value, key) for key, value in celerys(conf).items()}

    filter_hidden_settings.without_ours = celerys  # type: ignore[attr-defined]  # a mark
    utils.filter_hidden_settings = filter_hidden_settings


def _hidden(value: object, key: object = "") -> object:
    if value is not None and HIDDEN.search(str(key)):
        return MASK
    if isinstance(value, Mapping):
        return {name: _hidden(one, name) for name, one in value.items()}
    if isinstance(value, list | tuple):  # limits may be pairs
        return [_hidden(one) for one in value]
    return value
