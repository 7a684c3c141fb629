"""What the rows of the outbox share: an app, its table filled, a relay process.

field      a schema and a queue of a trial's own, gone when it ends
relaying   the relay as a process of its own
"""
