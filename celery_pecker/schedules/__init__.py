"""Recurring work: entries, their slots, and the one statement that decides who has them.

    declared ──due──▶ claimed ──published──▶ (done: the message is the broker's)
                 │         ├──broker away──▶ kept, tried again until it is too late
                 │         └──too late─────▶ missed, counted
                 └──nobody there──▶ misfire: skip, coalesce, catch up

``model`` names things, ``grid`` and ``misfire`` decide (pure), ``agenda`` says when to
wake, ``repository`` speaks to the tables, ``outgoing`` to the broker, ``service`` does one
step of it all in order.
"""
