"""The guards of the outbox."""

from __future__ import annotations

from tests.guards.guard import Guard

BATCHES = "tests/integration/outbox_relay/test_batches.py"
DELIVERIES = "tests/integration/outbox_relay/test_deliveries.py"
DEATHS = "tests/integration/outbox_relay/test_deaths.py"

MARK = "tests/unit/outbox_relay/test_watermark.py"
SHORT = "tests/integration/outbox_relay/test_claims_stay_short.py"
VACUUM = "tests/integration/outbox_relay/test_vacuum.py"

RUN_ROWS = "tests/integration/outbox/test_run_rows.py"
OPERATIONS = "tests/integration/outbox/test_operations.py"
NOT_RUNNING = "and (o.running is null or o.held_until <= (select now from clock))"
LOCAL = "tests/integration/outbox/test_local.py"
UNTIL_DONE = "tests/integration/outbox/test_until_done.py"
NAMES = "tests/integration/outbox/test_names_of_outboxes.py"
WORKERS = "tests/integration/outbox/test_workers.py"
ODD_USES = "tests/integration/outbox/test_odd_uses.py"
NESTED = "tests/integration/outbox/test_nested_blocks.py"
AWAITED = "tests/integration/outbox/test_awaited_blocks.py"
KEYS = "tests/integration/outbox_relay/test_keys.py"
CALLS = "tests/integration/outbox/test_plain_calls.py"
REFUSED = "tests/integration/outbox/test_refused_calls.py"
TRANSACTIONS = "tests/integration/outbox/test_transactions.py"
MANY = "tests/integration/outbox/test_many_messages.py"
ADMIN = "tests/integration/django/test_admin.py"
MIGRATE = "tests/integration/django/test_migrate.py"
NEWER = "tests/integration/outbox_relay/test_newer_versions.py"

GUARDS = (
    # What is recorded
    Guard(
        "outbox: a row that is taken has no key any more",
        "    set dedupe_key = null\n    where o.id = any (array(select",
        "    set dedupe_key = dedupe_key\n    where o.id = any (array(select",
        f"{KEYS}::test_a_row_that_was_taken_has_no_key_any_more",
    ),
    Guard(
        "outbox: a row that a caller holds by its key is not taken",
        "    where not keyed or id in (select id from unlocked)\n",
        "",
        KEYS,
    ),
    Guard(
        "outbox: the walk of ids does not leave a held row behind",
        "                   select min(id) - 1 from chosen\n",
        "                   select null::bigint from chosen\n",
        f"{KEYS}::test_a_row_that_a_caller_holds_is_taken_when_the_caller_has_ended",
    ),
    Guard(
        "outbox: what goes on with a run joins no transaction",
        "    return bool(running and task_id and running.request.id == task_id)\n",
        "    return False\n",
        f"{CALLS}::test_what_goes_on_with_a_run_joins_no_transaction",
    ),
    Guard(
        "outbox: a producer of the caller's own is used",
        '    if producer is not None and "release" not in vars(producer):\n',
        "    if False:\n",
        f"{CALLS}::test_a_connection_or_producer_of_the_caller_goes_before",
    ),
    Guard(
        "outbox: a message inherits no deadline of the run that records it",
        "with deadline.detached(), denied_join_result():",
        "with denied_join_result():",
        f"{CALLS}::test_a_message_does_not_inherit_what_is_left_of_the_run",
    ),
    Guard(
        "outbox: a connection that the server closed while it was idle is not used",
        " and database.alive():\n",
        ":\n",
        f"{CALLS}::test_a_server_that_went_away_meanwhile_costs_no_message",
    ),
    Guard(
        "outbox: threads that record share a few connections",
        'role="outbox", most=MAX_IDLE)',
        'role="outbox", most=100)',
        f"{CALLS}::test_a_hundred_threads_share_a_few_connections",
    ),
    Guard(
        "outbox: a run waits for a connection, and is not put off for want of one",
        "rows.read([(begun.id, begun.epoch)]), _QUEUE)",
        "rows.read([(begun.id, begun.epoch)]), self._settings.database_timeout)",
        f"{LOCAL}::test_a_run_waits_for_a_connection_of_its_worker",
    ),
    Guard(
        "outbox: a fork does not talk over its parent's connections",
        "        if self._idle.process != os.getpid():\n",
        "        if False:\n",
        f"{CALLS}::test_a_fork_records_over_connections_of_its_own",
    ),
    Guard(
        "connections: a child of a fork that closed them has places of its own",
        "        self._after_fork()\n        _close(self._idle)\n",
        "        _close(self._idle)\n",
        "tests/integration/test_connections.py"
        "::test_a_child_of_a_fork_has_all_places_also_after_a_close",
    ),
    Guard(
        "outbox: a connection in autocommit carries nothing",
        "    if status == TransactionStatus.IDLE and connection.autocommit:\n",
        "    if False:\n",
        f"{REFUSED}::test_a_connection_without_a_transaction_is_refused",
    ),
    Guard(
        "outbox: a missing table is no failed statement of the caller's",
        "            self._judge(rows[0])\n",
        "",
        f"{REFUSED}::test_a_table_that_is_not_migrated_is_refused",
    ),
    Guard(
        "outbox: a block that ends by an exception writes nothing",
        "            if not writes or not self._kept:\n",
        "            if not self._kept:\n",
        f"{TRANSACTIONS}::test_an_awaited_block_writes_what_was_sent_at_its_end",
    ),
    Guard(
        "outbox: what an awaited session sends is written before its commit",
        "lambda _: write(_innermost(blocking)),",
        "lambda _: None,",
        f"{AWAITED}::test_a_commit_inside_of_the_block_records_what_was_sent_before",
    ),
    Guard(
        "outbox: what an awaited psycopg sends is written before what follows",
        "            await write()\n",
        "            pass\n",
        f"{AWAITED}::test_savepoints_inside_of_the_block_hold",
    ),
    Guard(
        "outbox: a block whose transaction has ended takes nothing",
        "        elif self._begun:\n",
        "        elif False:\n",
        f"{AWAITED}::test_a_block_that_outlives_its_transaction_raises",
    ),
    Guard(
        "outbox: what was sent in another savepoint is not written in this one",
        "if within is None or one[0] is within:",
        "if True:",
        f"{AWAITED}::test_a_savepoint_whose_statement_failed_takes_its_messages_along",
    ),
    Guard(
        "outbox: what a pipeline has sent is over before it is joined",
        "        with _pipeline(self._connection):\n            pass\n",
        "",
        f"{ODD_USES}::test_in_pipeline_mode_it_is_as_without",
    ),
    Guard(
        "outbox: delay_on_commit records in the transaction",
        "            and (block_in(app) is not None or in_atomic())\n",
        "            and False\n",
        f"{CALLS}::test_delay_on_commit_records_in_the_transaction",
    ),
    Guard(
        "outbox: a block that ends ends itself, not the one inside of it",
        "        if whose is by:\n",
        "        if True:\n",
        f"{NESTED}::test_an_awaited_block_that_ends_first_writes_what_is_its_own",
    ),
    Guard(
        "outbox: a copy equals what Celery builds",
        "return made if made.message(row, first.task_id) == first else None",
        "return made",
        "tests/unit/outbox/test_copies.py",
    ),
    Guard(
        "outbox: who watches the sending sees each message",
        "            or SignalReceivers(app).reason() is not None\n",
        "",
        f"{MANY}::test_who_watches_sees_each_message",
    ),
    # What is delivered
    Guard(
        "outbox: a claim that was overtaken takes nothing",
        "where control.id = 1 and control.turn = seen.turn\n",
        "where control.id = 1\n",
        BATCHES,
    ),
    Guard(
        "outbox: what a full claim left out is not passed",
        "min(settled, last or passed)",
        "settled",
        f"{MARK}::test_what_a_full_claim_left_out_is_not_passed",
    ),
    Guard(
        "outbox: who writes into the table is waited for",
        "            if writing.isdisjoint(names) and PREPARED not in names:\n",
        "            if PREPARED not in names:\n",
        f"{MARK}::test_who_writes_now_may_have_written_before",
    ),
    Guard(
        "outbox: a prepared transaction is waited for",
        " and PREPARED not in names:\n",
        ":\n",
        f"{MARK}::test_a_transaction_that_was_prepared_has_not_ended",
    ),
    Guard(
        "outbox: a transaction that writes elsewhere keeps no claim slow",
        "        if self._watermark.stuck(now):\n",
        "        if False:\n",
        f"{SHORT}::test_a_long_transaction_that_writes_elsewhere_keeps_nothing",
    ),
    Guard(
        "outbox: what lies below the mark is seen",
        "            self._watermark.lower(straggler - 1)\n",
        "            pass\n",
        f"{SHORT}::test_what_lies_below_is_seen_after_a_while",
    ),
    Guard(
        "outbox: a new relay begins where the others have come to",
        "passed = greatest(control.passed, %(above)s::bigint)\n",
        "passed = control.passed\n",
        f"{SHORT}::test_a_new_relay_begins_where_the_others_have_come_to",
    ),
    Guard(
        "outbox: a vacuum waits for nobody",
        "vacuum (skip_locked, truncate off, parallel 0)",
        "vacuum (truncate off, parallel 0)",
        f"{VACUUM}::test_two_at_once_do_not_wait_for_each_other",
    ),
    Guard(
        "outbox: a vacuum in vain is not asked for again at once",
        "min(self._wait * 2, MOST_WAIT)",
        "FIRST_WAIT",
        "tests/unit/outbox_relay/test_vacuum_policy.py",
    ),
    Guard(
        "outbox: a claim waits for no rival",
        "    for update of control skip locked\n",
        "    for update of control\n",
        BATCHES,
    ),
    Guard(
        "outbox: what is in a batch is in no other",
        "        and o.id > (select above from seen)\n"
        "        and o.id not in (select id from held)\n",
        "        and o.id > (select above from seen)\n",
        BATCHES,
    ),
    Guard(
        "outbox: a clock that steps back holds no batch longer",
        "set held_until = clock.now + b.hold\n",
        "set held_until = b.held_until\n",
        BATCHES,
    ),
    Guard(
        "outbox: who has lost a batch cannot close it",
        "    where batch = %(batch)s and epoch = %(epoch)s\n",
        "    where batch = %(batch)s and %(epoch)s is not null\n",
        BATCHES,
    ),
    Guard(
        "outbox: a batch keeps its token, so Redis adds nothing twice",
        "if not redis.call('SET', KEYS[1], ARGV[2], 'NX', 'EX', ARGV[1]) then",
        "if false then",
        DEATHS,
    ),
    Guard(
        "outbox: what Redis refuses of whatever message is no message's fault",
        "return isinstance(error, _TAKES_NO_WRITES) or (",
        "return False and (",
        f"{DELIVERIES}::test_a_full_redis_parks_nothing_however_long",
    ),
    Guard(
        "outbox: a try that Redis refused counts for nothing",
        "                tries = min(tries, batch_plan.SUSPECT_TRIES)\n",
        "                pass\n",
        f"{DELIVERIES}::test_a_full_redis_parks_nothing_however_long",
    ),
    Guard(
        "outbox: a relay that was frozen sends nothing",
        "        broker.begin_batch(trust)\n",
        "",
        f"{DEATHS}::test_a_frozen_relay_sends_nothing_when_it_wakes_up",
    ),
    Guard(
        "outbox: what no script can send leaves the batch before it is sent",
        "rest, apart = self._write(batch, Pushed(refused=plan.parked, alone=alone))",
        "rest, apart = batch, None",
        DELIVERIES,
    ),
    Guard(
        "outbox: what was sent is deleted once the database is back",
        "                self._unwritten.append((batch, pushed))\n",
        "",
        DELIVERIES,
    ),
    Guard(
        "outbox: nothing is claimed while the broker is away",
        "        if not reachable:\n",
        "        if False:\n",
        DELIVERIES,
    ),
    Guard(
        "outbox runs: of the messages of one epoch the first one runs",
        "and o.parked_at is null\nand coalesce(o.epoch, 0) = %(epoch)s\n",
        "and o.parked_at is null\n",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: an end that was overtaken deletes nothing",
        "    where id = %(id)s and epoch = %(epoch)s\n",
        "    where id = %(id)s\n",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: a failure that was overtaken writes nothing",
        "where o.id = %(id)s and coalesce(o.epoch, 0) = %(epoch)s\n",
        "where o.id = %(id)s\n",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: a run that goes on is not pushed because a row was moved",
        f"            {NOT_RUNNING}\n"
        "        order by coalesce(o.due_at, o.created_at), o.id\n"
        "        limit (select",
        "        order by coalesce(o.due_at, o.created_at), o.id\n"
        "        limit (select",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: a run that goes on is not taken because a row was moved",
        f"            {NOT_RUNNING}\n"
        "        order by coalesce(o.due_at, o.created_at), o.id\n"
        "        limit %(most)s",
        "        order by coalesce(o.due_at, o.created_at), o.id\n"
        "        limit %(most)s",
        OPERATIONS,
    ),
    Guard(
        "outbox runs: a last attempt without an end parks the row",
        "        and o.attempt >= %(last)s\n",
        "        and false\n",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: so does one of a worker's own",
        "coalesce(one.attempt, 0) >= known.last as over,",
        "false as over,",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: a clock that steps back holds no row longer",
        "        and o.held_at > (select now",
        "        and false and o.held_at > (select now",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: what is not urgent waits while others are named",
        "        and (%(only)s::text[] is null or task = any (%(only)s::text[]))\n",
        "",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: each task has its share of a claim",
        "        limit (select greatest(1, %(most)s / greatest(1, count(*)))"
        " from wanted)",
        "        limit %(most)s",
        RUN_ROWS,
    ),
    Guard(
        "outbox runs: messages of before a change by hand start nothing",
        "        epoch = case when o.mode > 0\n",
        "        epoch = case when false\n",
        OPERATIONS,
    ),
    Guard(
        "outbox runs: a deadline lies inside of its hold",
        "    inside = hold - min(hold * MARGIN, MAX_MARGIN)\n",
        "    inside = hold\n",
        "tests/unit/outbox/test_holds_options_and_load.py",
    ),
    Guard(
        "outbox runs: the emergency follows the last failure of the task",
        "    return after is not None and attempt == after\n",
        "    return False\n",
        f"{UNTIL_DONE}::test_the_emergency_completes_what_failed_five_times",
    ),
    Guard(
        "outbox runs: an emergency that would never be called is refused",
        "    if not is_whole(after, 1, most):\n",
        "    if not is_whole(after, 1):\n",
        "tests/unit/outbox/test_holds_options_and_load.py",
    ),
    Guard(
        "outbox runs: retry() sends nothing beside the row",
        "        self._refuse_retries(task)\n",
        "",
        f"{UNTIL_DONE}::test_retry_of_the_task_is_left_to_the_row",
    ),
    Guard(
        "outbox runs: headers that are handed on make no new run",
        ' or header.get("task_id") != task_id:',
        ":",
        f"{UNTIL_DONE}::test_headers_that_are_handed_on_make_no_new_run",
    ),
    Guard(
        "outbox runs: the end is written when the database is back",
        "                pause(wait)\n                continue\n",
        "                return False\n",
        f"{UNTIL_DONE}::test_the_database_goes_away_in_a_run_and_comes_back",
    ),
    Guard(
        "outbox runs: the row goes when what follows from the task is sent",
        "        setattr(request, DONE, (service, started, attempt.emergency))\n",
        "        service.end(started, emergency=attempt.emergency)\n",
        f"{UNTIL_DONE}::test_success_deletes_the_row_and_writes_the_log",
    ),
    Guard(
        "outbox runs: a hung thread is not counted as free",
        "        if self._busy + len(self._resting) < self._load.threads:\n",
        "        if True:\n",
        "tests/unit/outbox/test_holds_options_and_load.py",
    ),
    Guard(
        "outbox: a batch whose claim had no reply is found at once",
        "lost, self._lost = self._lost, True",
        "lost, self._lost = False, True",
        DELIVERIES,
    ),
    Guard(
        "outbox: a mode of a newer version is not sent",
        "    where o.mode = 0\n        and o.due_at is null\n",
        "    where o.mode <> 1\n        and o.due_at is null\n",
        NEWER,
    ),
    # What is looked at
    Guard(
        "outbox: a server that hangs holds up no other that is looked at",
        "asked.result(left)",
        "asked.result()",
        "tests/unit/outbox/test_parallel_queries.py",
    ),
    Guard(
        "outbox: counting walks so many rows and no more",
        "    order by o.id\n    limit %(most)s\n),\ntimed as",
        "    order by o.id\n),\ntimed as",
        "tests/integration/cli/test_outbox.py::test_a_deep_table_is_reckoned",
    ),
    Guard(
        "outbox: a task that stands still is not hidden by a fast one",
        "            return None\n    return longest\n",
        "            pass\n    return longest\n",
        "tests/unit/outbox/test_counts.py",
    ),
    Guard(
        "outbox: what waits in the broker is due, and not for later",
        "    when o.pushes > 0 then o.held_at\n",
        "    when false then o.held_at\n",
        "tests/integration/cli/test_outbox.py"
        "::test_what_was_sent_and_no_worker_has_begun_is_due",
    ),
    Guard(
        "outbox: what was not counted is reckoned",
        "beyond = max(estimates.get(index, 0) - seen, 0)",
        "beyond = 0",
        "tests/unit/outbox/test_counts.py",
    ),
    Guard(
        "outbox: a server that hangs holds up no other's page",
        "            self._lanes[place] = Lane(self._app, lambda: places[place])\n",
        "            self._lanes[place] = self._main\n",
        "tests/unit/flower/test_reader.py",
    ),
    Guard(
        "outbox: what is done in Flower is done in the outbox that was chosen",
        "lane, _ = self._lane(page, query)",
        "lane = self._main",
        "tests/integration/flower/test_outbox.py",
    ),
    # Django's admin
    Guard(
        "django: a body that is no text is not decoded",
        "if compression or content_type not in TEXTS:",
        "if False:",
        f"{ADMIN}::test_pickle_is_not_decoded",
    ),
    Guard(
        "django: nobody deletes in the admin",
        "has_change_permission = has_delete_permission = has_add_permission",
        "has_change_permission = has_add_permission",
        f"{ADMIN}::test_nothing_can_be_added_changed_or_deleted",
    ),
    Guard(
        "outbox: a block that has ended takes nothing",
        "            sink.over = True\n",
        "",
        f"{ODD_USES}::test_a_task_that_outlives_an_awaited_block_cannot_send_into_it",
    ),
    Guard(
        "outbox: the block around one that has ended is in force",
        "_blocks.set((*_blocks.get(), (by, sink)))",
        "_blocks.set(((by, sink),))",
        f"{NESTED}::test_the_outer_block_is_in_force_after_the_inner_one",
    ),
    Guard(
        "outbox: a block of another outbox leaves this one's in force",
        "for _, sink in _blocks.get() if sink.owner is owner)",
        "for _, sink in _blocks.get()[-1:] if sink.owner is owner)",
        f"{NESTED}::test_a_block_of_another_outbox_leaves_this_one_in_force",
    ),
    Guard(
        "outbox: an attempt that no worker could begin counts",
        "        signals.task_unknown.connect(self._on_refused, weak=True)\n",
        "",
        f"{WORKERS}::test_what_no_worker_can_run_is_parked_after_its_last_attempt",
    ),
    Guard(
        "outbox: a row is found under another name of its outbox",
        "            if has_it:\n",
        "            if False:\n",
        f"{UNTIL_DONE}::test_a_row_is_found_where_its_outbox_has_another_name_here",
    ),
    Guard(
        "outbox: a row is found where another outbox has the name of its own",
        "            yield known\n        silent",
        "            yield known\n            return\n        silent",
        NAMES,
    ),
    Guard(
        "outbox: a message starts no row of its number in another table",
        "o.id = %(id)s\nand o.task_id = %(task_id)s\nand o.mode = 1\n",
        "o.id = %(id)s\nand o.mode = 1\n",
        f"{NAMES}::test_a_message_starts_its_own_row",
    ),
    Guard(
        "outbox: nor does it park one that has had its last attempt",
        "o.id = %(id)s\nand o.task_id = %(task_id)s\nand o.mode = 1\n",
        "o.id = %(id)s\nand o.mode = 1\n",
        f"{NAMES}::test_a_message_parks_no_other_row_after_its_last_attempt",
    ),
    Guard(
        "outbox: a row of its number does not hide that a message's row is elsewhere",
        " on o.id = %(id)s and o.task_id = %(task_id)s\n",
        " on o.id = %(id)s\n",
        f"{NAMES}::test_a_message_starts_its_own_row",
    ),
    Guard(
        "outbox: a message that is not run parks its own row",
        "    and (%(task_id)s::text is null or o.task_id = %(task_id)s)\n",
        "",
        f"{NAMES}::test_a_message_that_was_revoked_parks_its_own_row",
    ),
    Guard(
        "outbox: a row of the same number in another table is another task's",
        "        return [one.task_id for one in stored] == [ref.task_id]\n",
        "        return bool(stored)\n",
        f"{UNTIL_DONE}"
        "::test_a_message_of_an_outbox_that_nobody_knows_here_starts_nothing",
    ),
    Guard(
        "outbox: a run that a task's options forbid counts an attempt",
        "                    if service.count_failed_start("
        "ref, task.name, str(error)):\n",
        "                    if True:\n",
        f"{UNTIL_DONE}::test_what_a_task_cannot_say_is_refused_at_the_run",
    ),
    Guard(
        "outbox: a part of a group is no other's message",
        '            refusals.check_alone(key, options.get("group_id"))\n',
        "",
        f"{ODD_USES}::test_a_key_in_the_header_of_a_chord_is_refused",
    ),
    Guard(
        "outbox: a message that Celery drops parks its row",
        "        signals.task_revoked.connect(self._on_revoked, weak=True)\n",
        "",
        f"{WORKERS}::test_what_expired_or_was_revoked_is_parked",
    ),
    Guard(
        "outbox: what is run without a broker may have expired",
        "        return EXPIRED if wall_clock() > expires else None\n",
        "        return None\n",
        f"{WORKERS}::test_what_expired_or_was_revoked_is_parked",
    ),
    Guard(
        "outbox: what is run without a broker may have been revoked",
        '        if request["correlation_id"] in revoked:\n',
        "        if False:\n",
        f"{WORKERS}::test_what_expired_or_was_revoked_is_parked",
    ),
    Guard(
        "django: migrate makes tables only in the database of pecker_dsn",
        "if not same(conninfo_to_dict(theirs.dsn), ours, os.environ):",
        "if False:",
        f"{MIGRATE}::test_migrate_leaves_the_tables_alone",
    ),
    Guard(
        "django: migrate asks routers whether our tables belong there",
        'if not router.allow_migrate(using, "celery_pecker"):',
        "if False:",
        f"{MIGRATE}::test_migrate_leaves_the_tables_alone",
    ),
    Guard(
        "django: tests get tables in the test database, not in the real one",
        "migrations.migrate(address(using), schema=databases.schema())",
        "migrations.migrate(project.app_settings().dsn, schema=databases.schema())",
        f"{MIGRATE}::test_a_test_database_gets_the_tables_and_the_real_one_does_not",
    ),
    Guard(
        "django: a list is a window of the first",
        "pk__in=keys[:MOST]",
        "pk__in=asked",
        f"{ADMIN}::test_a_deep_table_is_neither_counted_nor_sorted",
    ),
)
