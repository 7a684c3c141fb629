"""Recurring work: entries, their slots, and the one statement that decides.

    declared ──due──▶ claimed ──published──▶ (done: the message is the broker's)
                 │         ├──broker away──▶ kept, tried again until it is too late
                 │         └──too late─────▶ missed, counted
                 └──no replica────▶ misfire: skip, coalesce, catch up

``model`` names things; ``bounds``, ``misfire`` and ``claims`` decide (pure); ``agenda``
says when to wake and ``timekeeper`` what time it is; ``repository`` speaks to the
tables, ``sending`` to the broker; ``upkeep`` looks after what no wake-up shows,
``stored_sync`` follows stored schedules, ``requested_runs`` takes runs that people ask
for (``request_timing`` decides), ``pending_writes`` keeps what is still to be written
and says what was done; ``service`` does one step of it all in order.
"""
