"""How often calls are checked, and how long they live unchecked."""

from __future__ import annotations

STALE = 5.0
"""Seconds after which a call is to be checked again."""
AGAIN = 5.0
"""Seconds after which a check that left no record is taken for dead."""
BATCH = 1_000
"""Calls that one sweep takes at most."""
LOST_AFTER = 300.0
"""Seconds after which what a demo waits for counts as lost. How long it takes is the
machine's affair; what never comes is a failure, and ends the wait."""
DEMO_DROPS_AFTER = 20.0
"""Seconds after which a backend hangs up on a call that nobody asks about: in the demo,
which is over before a minute of silence could show."""
