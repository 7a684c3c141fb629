"""Gates for senders of tasks: a dispatcher's cycle, and Pecker's schedules.

A dispatcher asks before it sends, so that a rush never becomes messages. It goes by
the traffic of all processes and the limit alone, as tasks fan out further and
their cost is not known at that point:

    quota of a cycle = max((limit - traffic) * 100 / limit, 0) tasks

and nothing while the traffic is at the limit. A worker knows more and does better
(`admission/`): this gate is for senders without a worker at hand, or for messages that
wait as rows.

    ``gate``       the cycles of a dispatcher
    ``schedules``  the same for the kernel of celery-pecker, by its shape
"""

from throttle.gate.gate import Gate, GateTally

__all__ = ["Gate", "GateTally"]
