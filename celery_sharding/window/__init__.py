"""How far a shard runs ahead of what is written, and which item killed a process: pure.

A process that is killed says nothing. So a shard has it written down, before, which
items it may begin next (`ahead`), and after a death the killer is among these, from
the cursor on. The next process writes down a sixteenth of them before it begins them,
and the next sixteenth when they have passed: each death leaves a sixteenth of the
suspects. Once three processes died, the last of them over one item alone, it is that.

    Window     decides what is to be written as `ahead`, and whose fault deaths are
    WHOLE      the fault of the shard as a whole: reading it kills, or ending it
"""

from __future__ import annotations

from celery_sharding.window.window import DEATHS, PARTS, WHOLE, Window

__all__ = ["DEATHS", "PARTS", "WHOLE", "Window"]
