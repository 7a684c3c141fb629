"""Play the customers alone: ``python -m example_project.customers``."""

from __future__ import annotations

import sys

from example_project.demo.__main__ import main

if __name__ == "__main__":
    main(["--act", "customers", *sys.argv[1:]])
