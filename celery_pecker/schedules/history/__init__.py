"""What became of slots, kept for people, bounded, off the hot path.

    report ──note()──▶ Recorder (memory) ──flush()──▶ pecker_history
                       by HistoryWriter, in pauses           │
    SlotRecord ◀──merge()── reports of a slot ◀──read───────────┘

Every process reports what it saw: a scheduler that it published, a worker that it
refused. No process writes a slot's state: readers merge the reports of one slot, in any
order, forward only. Nothing depends on the history: what cannot be written is dropped
and counted.

``report`` names things; ``merge`` decides (pure); ``recorder`` keeps pages of reports
until they are written; ``writer`` writes them while the scheduler sleeps. ``life``
names the runs that a process has in hand, and judges whose are lost.
"""
