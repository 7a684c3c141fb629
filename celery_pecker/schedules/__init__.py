"""Recurring work: entries, their slots, and the one statement that decides.

    declared ──due──▶ claimed ──published──▶ (done: the message is the broker's)
                 │         ├──broker away──▶ kept, tried again until it is too late
                 │         └──too late─────▶ missed, counted
                 └──nobody there──▶ misfire: skip, coalesce, catch up

``model`` names things; ``grid``, ``misfire`` and ``wanting`` decide (pure); ``agenda``
says when to wake and ``timekeeper`` what time it is; ``repository`` speaks to the
tables, ``outgoing`` to the broker; ``upkeep`` looks after what no wake-up shows,
``answering`` after runs that people ask for (``asking`` decides), ``doubts`` after
answers that did not come, ``debts`` after what is still to be written; ``telling`` says
what was done; ``service`` does one step of it all in order.
"""
