"""The guards of batches and of the groomer."""

from __future__ import annotations

from tests.guards.guard import Guard

THREADS = "celery_pecker/batches/threads.py"
COROUTINES = "celery_pecker/batches/coroutines.py"
IN_THREADS = "tests/unit/batches/test_threads.py"
IN_COROUTINES = "tests/unit/batches/test_coroutines.py"
SQL = "example_project/sql/groomer.sql"
GROOMER = "tests/integration/example_project/test_groomer.py"
ORDERS = "tests/integration/example_project/test_groomer_interleavings.py"
WATCHERS = "tests/integration/example_project/test_groomer_watchers.py"
AHEAD = "    where (p.epoch, p.rank) < (excluded.epoch, excluded.rank)\n"

GUARDS = (
    Guard(
        "batches: no more items wait than may",
        "        if len(self._entries) >= self.limits.waiting:\n",
        "        if False:\n",
        "tests/unit/batches/test_gathering.py",
    ),
    Guard(
        "batches: a result for each item, or none for anybody",
        "    if isinstance(results, Sequence) and len(results) == items:\n",
        "    if isinstance(results, Sequence):\n",
        "tests/unit/batches/test_gathering.py",
    ),
    Guard(
        "batches: a failed batch is sent again one by one",
        "        elif self._one_by_one and len(batch) > 1:\n",
        "        elif False:\n",
        IN_THREADS,
        within=THREADS,
    ),
    Guard(
        "batches: who stopped waiting has nothing sent",
        "                future.cancel()\n",
        "                future.done()\n",
        f"{IN_THREADS}::test_who_stops_waiting_has_nothing_sent",
    ),
    Guard(
        "batches: what waits at the end of the process is sent",
        "        atexit.register(self.close)\n",
        "",
        f"{IN_THREADS}::test_what_waits_at_the_end_of_the_process_is_sent",
    ),
    Guard(
        "batches: a forked process starts threads of its own",
        "        abandon_in_forks(self)\n",
        "",
        f"{IN_THREADS}::test_a_forked_process_has_threads_of_its_own",
        within=THREADS,
    ),
    Guard(
        "batches: a call that asks the process to end leaves nobody waiting",
        '        with no_exit("the call of a batch"):\n            return',
        "        if True:\n            return",
        f"{IN_THREADS}::test_a_call_that_asks_the_process_to_end_fails_its_callers",
    ),
    Guard(
        "batches: a call has no deadline of a caller",
        ", context=Context())",
        ")",
        f"{IN_COROUTINES}::test_a_call_has_no_deadline_of_a_caller",
    ),
    Guard(
        "batches: close sends what was accepted",
        "closing=self._closing)",
        "closing=False)",
        f"{IN_COROUTINES}::test_close_sends_what_was_accepted",
        within=COROUTINES,
    ),
    # The groomer of the example
    Guard(
        "groomer: epochs are compared before ranks",
        AHEAD,
        "    where p.rank < excluded.rank\n",
        f"{GROOMER}::test_a_late_report_of_an_older_session_changes_nothing",
        within=SQL,
    ),
    Guard(
        "groomer: a rank only rises",
        AHEAD,
        "    where p.epoch <= excluded.epoch\n",
        f"{GROOMER}::test_reports_in_any_order_end_in_the_same_state",
        within=SQL,
    ),
    Guard(
        "groomer: a report by itself that says nothing new writes nothing",
        "          and (p.epoch, p.rank) >= (b.epoch, %(rank)s::smallint))\n",
        "          and false)\n",
        f"{GROOMER}::test_a_report_by_itself_that_says_nothing_new_writes_nothing",
        within=SQL,
    ),
    Guard(
        "groomer: a peer stands once in a batch",
        "    select distinct on (peer) peer, room_id, epoch, rank\n",
        "    select peer, room_id, epoch, rank\n",
        f"{GROOMER}::test_reports_in_any_order_end_in_the_same_state",
        within=SQL,
    ),
    Guard(
        "groomer: an epoch is given out once",
        "    where r.epoch = excluded.epoch - 1\n",
        "    where true\n",
        f"{GROOMER}::test_an_epoch_is_given_out_once",
        within=SQL,
    ),
    Guard(
        "groomer: a peer is invited once into a session",
        "      and p.invited < r.epoch\n",
        "",
        f"{GROOMER}::test_the_sweep_invites_whom_a_race_has_left_behind",
        also=(
            "    on conflict do nothing\n",
            "    on conflict (peer_id, epoch) do update set sent_at = null\n",
        ),
        within=SQL,
    ),
    Guard(
        "groomer: the sweep invites whom a race has left behind",
        "    where r.epoch > 1\n",
        "    where false\n",
        f"{ORDERS}::test_two_statements_in_every_order",
        within=SQL,
    ),
    Guard(
        "groomer: a server that names another's session is not believed",
        " and s.server_id = u.server\n",
        "\n",
        f"{GROOMER}::test_a_server_that_lies_is_not_believed",
        within=SQL,
    ),
    Guard(
        "groomer: nor is its report by itself",
        " and s.server_id = %(server)s\n",
        "\n",
        f"{GROOMER}::test_a_server_that_lies_is_not_believed",
        within=SQL,
    ),
    Guard(
        "groomer: offers into older sessions do not pass",
        "coalesce(u.session = r.session_id, false) as passes",
        "r.room_id is not null as passes",
        f"{GROOMER}::test_only_offers_into_the_current_session_pass",
        within=SQL,
    ),
    Guard(
        "groomer: who wants in is not thereby invited out of an older session",
        "    where p.epoch = 0 and p.invited < excluded.invited\n",
        "    where p.invited < excluded.invited\n",
        f"{GROOMER}::test_the_sweep_invites_whom_a_race_has_left_behind",
        within=SQL,
    ),
    Guard(
        "groomer: who is archived stays so",
        "      and p.archived_at is null\n    returning 1\n",
        "    returning 1\n",
        f"{GROOMER}::test_who_has_left_is_archived_after_a_while",
        within=SQL,
    ),
    Guard(
        "groomer: an overtaken observer of a media server writes nothing",
        "                await lease.guard(connection)\n",
        "",
        f"{WATCHERS}::test_an_overtaken_life_writes_no_look",
        within="example_project/groomer/watchers.py",
    ),
)
