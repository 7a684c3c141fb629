"""Play the billing alone: ``python -m example_project.billing``."""

from __future__ import annotations

import sys

from example_project.demo.__main__ import main

if __name__ == "__main__":
    main(["--act", "outbox", *sys.argv[1:]])
