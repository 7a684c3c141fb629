"""Runs: which may start, how long they may take, and what they may write.

A slot is claimed once, but its message may come late, twice, or while a newer one is
at work: brokers redeliver, workers freeze, clocks step. This package is what stands
between a message and the user's code:

- *start check* (start.py): a run of an entry with a timeout starts if its deadline is
  not over, no newer slot was claimed, and it has not started before. One statement,
  whose answer is also what the deadline is counted from. Where it gets no answer the
  run is refused: a slot that is lost is better than two runs at a time.
- *guard* (guard.py): wraps the tasks of a worker with that check and with the deadline
  (celery_pecker.deadline); what it ends, ends as DeadlineExceeded.
- *run* (run.py): what user code can read, `current()`, and the guarded write: a
  statement in the user's own transaction that an overtaken run does not survive.
- *headers* (headers.py): how all this travels from the claim to the task, and from the
  task to its subtasks.
- *outcomes* (outcomes.py, reports.py): what became of a run, and who writes it down.

Entries without a timeout are not checked and cost nothing; their runs can read their
epoch.
"""

from celery_pecker.runs.run import Run, current, running

__all__ = ["Run", "current", "running"]
