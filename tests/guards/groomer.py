"""The guards of batches and of the groomer."""

from __future__ import annotations

from tests.guards.guard import Guard

GATHERING = "celery_pecker/batches/gathering.py"
THREADS = "celery_pecker/batches/threads.py"
COROUTINES = "celery_pecker/batches/coroutines.py"
IN_THREADS = "tests/unit/batches/test_threads.py"
IN_COROUTINES = "tests/unit/batches/test_coroutines.py"

GUARDS = (
    Guard(
        "batches: no more items wait than may",
        GATHERING,
        "        if len(self._entries) >= self.limits.waiting:\n",
        "        if False:\n",
        "tests/unit/batches/test_gathering.py",
    ),
    Guard(
        "batches: a result for each item, or none for anybody",
        GATHERING,
        "    if isinstance(results, Sequence) and len(results) == items:\n",
        "    if isinstance(results, Sequence):\n",
        "tests/unit/batches/test_gathering.py",
    ),
    Guard(
        "batches: a failed batch is sent again one by one",
        THREADS,
        "        elif self._one_by_one and len(batch) > 1:\n",
        "        elif False:\n",
        IN_THREADS,
    ),
    Guard(
        "batches: who stopped waiting has nothing sent",
        THREADS,
        "                future.cancel()\n",
        "                future.done()\n",
        f"{IN_THREADS}::test_who_stops_waiting_has_nothing_sent",
    ),
    Guard(
        "batches: what waits at the end of the process is sent",
        THREADS,
        "        atexit.register(self.close)\n",
        "",
        f"{IN_THREADS}::test_what_waits_at_the_end_of_the_process_is_sent",
    ),
    Guard(
        "batches: a forked process starts threads of its own",
        THREADS,
        "        _forget_in_children(self)\n",
        "",
        f"{IN_THREADS}::test_a_forked_process_has_threads_of_its_own",
    ),
    Guard(
        "batches: a call that asks the process to end leaves nobody waiting",
        THREADS,
        '        with no_exit("the call of a batch"):\n            return',
        "        if True:\n            return",
        f"{IN_THREADS}::test_a_call_that_asks_the_process_to_end_fails_its_callers",
    ),
    Guard(
        "batches: a call has no deadline of a caller",
        COROUTINES,
        ", context=Context())",
        ")",
        f"{IN_COROUTINES}::test_a_call_has_no_deadline_of_a_caller",
    ),
    Guard(
        "batches: close sends what was accepted",
        COROUTINES,
        "closing=self._closing)",
        "closing=False)",
        f"{IN_COROUTINES}::test_close_sends_what_was_accepted",
    ),
)
