# ruff: noqa: INP001  # a script beside the pages
"""Write maintainers/statements.md from the .sql files: python docs/statements.py.

A statement's comment is its documentation, so the page cannot say anything else than
the code; a test compares the two.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from celery_pecker.kernel.sql import statements

PAGE = Path(__file__).parent / "maintainers" / "statements.md"
HEAD = """\
---
nosearch: true
---

# Statements

<!-- written by docs/statements.py: change the comments in the .sql files -->

Every statement that celery-pecker sends begins with its label, so that
`pg_stat_activity`, `pg_stat_statements` and the server's log point at the code:

```sql
/* celery_pecker:claim_due */
```

Statements of sharded jobs begin with `celery_sharding:`; they stand at the end.
"""
PACKAGES = ("celery_pecker", "celery_sharding")


def told(text: str) -> str:
    """Return what the comment under the label says, as paragraphs."""
    lines = []
    for line in text.splitlines()[1:]:
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").removeprefix(" "))
    return "\n".join(lines)


def kind(text: str) -> str:
    """Return whether the statement writes."""
    writes = re.search(r"\b(insert into|update|delete from|copy) \{schema\}", text)
    return "Writes." if writes else "Reads only."


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for label, text in [
        (label if package == PACKAGES[0] else f"{package}:{label}", text)
        for package in PACKAGES
        for label, text in sorted(statements(package).items())
    ]:
        tables = sorted(set(re.findall(r"\{schema\}\.(pecker_\w+)", text)))
        names = ", ".join(f"`{table}`" for table in tables) or "no table of ours"
        parts.append(f"## {label}\n\n{kind(text)} Tables: {names}.\n")
        if comment := told(text):
            parts.append(f"```text\n{comment}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
