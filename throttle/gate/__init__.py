"""Gates for those who send tasks: a dispatcher's cycle, and Pecker's schedules.

A dispatcher asks before it sends, so that a rush never becomes messages. It goes by
the traffic that everybody has caused and the limit alone, as tasks fan out further and
nobody knows at that point what they will cost:

    quota of a cycle = max((limit - traffic) * 100 / limit, 0) tasks

and nothing while the traffic is at the limit. A worker knows more and does better
(`admission/`): this gate is for those who have no worker at hand, or want messages to
wait as rows.

    ``gate``       the cycles of a dispatcher
    ``schedules``  the same for the kernel of celery-pecker, by its shape
"""

from throttle.gate.gate import Gate, Tally

__all__ = ["Gate", "Tally"]
