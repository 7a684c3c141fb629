"""Play the groomer alone: ``python -m example_project.groomer``."""

from __future__ import annotations

import sys

from example_project.demo.__main__ import main

if __name__ == "__main__":
    main(["--act", "groomer", *sys.argv[1:]])
