"""The `celery` command without what other packages add to it: `-m tests.lean`.

`celery` loads the commands of each installed package before it reads its words.
Flower's pages and the shell of `celery amqp` are a third of what a worker costs at its
start, and no worker needs them. Tests that are about the command as users have it start
`celery`.
"""

from __future__ import annotations

import importlib.metadata
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from celery import maybe_patch_concurrency

from tests import constants

OURS = ("celery_pecker", "celery_sharding")


def load() -> Any:
    """Return the module of the command, with this repository's entry points only."""
    metadata: Any = importlib.metadata
    every = metadata.entry_points

    def ours(**wanted: Any) -> Any:
        return [one for one in every(**wanted) if one.module.startswith(OURS)]

    shell: Any = ModuleType("click_repl")
    shell.register_repl = lambda group: group
    sys.modules["click_repl"] = shell
    metadata.entry_points = ours
    command = import_module("celery.bin.celery")
    metadata.entry_points = every
    return command


def main() -> None:
    """Run the `celery` command."""
    maybe_patch_concurrency()  # before anything imports sockets and threads
    constants.take()
    sys.exit(load().main())


if __name__ == "__main__":
    main()
