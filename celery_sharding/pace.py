"""How often sharded jobs do what costs a statement. Seconds."""

SLICE = 1.0
"""How long a ticket runs shards before it passes itself on, so that other tasks get
their turn; at least one shard is run. The message costs a millisecond, a thousandth."""
FLUSH = 0.5
"""How often a running shard writes its cursor, and asks whether to go on: at most so
much is run again after a death, and a request to pause waits for so long."""
SWEEP = 1.0
"""The period of the sweeper's schedule, with which a job waits for what was lost."""
RESEND = 10.0
"""After how long a message that was not taken is sent again: sooner, a queue that is
merely long would grow by it."""
