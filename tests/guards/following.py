"""The guards of how replicas follow stored schedules."""

from __future__ import annotations

from tests.guards.guard import Guard

FOLLOWING = "tests/integration/schedules/test_following.py"
RULES = "tests/integration/schedules/test_stored_rules.py"

GUARDS = (
    Guard(
        "stored: a slot is claimed under the version that is committed",
        "                and task.version is not distinct from wanted.version\n",
        "",
        f"{FOLLOWING}::test_a_claim_under_an_old_version_wins_nothing",
    ),
    Guard(
        "stored: a run that was asked for is taken under the committed version",
        "                and row.version is not distinct from wanted.version\n",
        "",
        f"{FOLLOWING}::test_a_run_that_was_asked_for_waits_for_the_edit",
    ),
    Guard(
        "stored: messages are built in idle seconds before their slots",
        "self.stored is not None and self.stored.build_ahead()\n",
        "False\n",
        f"{FOLLOWING}::test_messages_are_built_before_their_slots",
    ),
    Guard(
        "stored: a slot that a transaction held up is looked for in the table",
        "        if entry.period_us is None or edited:\n",
        "        if entry.period_us is None:\n",
        f"{FOLLOWING}::test_a_slot_that_a_transaction_held_up_runs_when_that_is_rolled_back",
    ),
    Guard(
        "stored: a slot is sent again under the version that is committed",
        "        and pending.name not in (select name from outdated)\n",
        "",
        f"{RULES}::test_a_slot_of_a_removed_schedule_is_not_sent_again",
    ),
    Guard(
        "stored: transactions that commit late are looked for",
        'int(self._since.partition(":")[0])',
        'int(self._since.split(":")[1])',
        f"{FOLLOWING}::test_edits_that_commit_out_of_order_are_all_followed",
    ),
    Guard(
        "stored: edits made while all are read are looked for afterwards",
        "        if not load.since:\n",
        "        if page:\n",
        f"{FOLLOWING}::test_rows_that_are_edited_while_all_are_read_are_followed",
    ),
    Guard(
        "stored: more edits than a page holds are read to the end",
        "        if len(page.rows) == CHUNK:\n",
        "        if False:\n",
        f"{FOLLOWING}::test_more_edits_than_a_page_holds_are_all_followed",
    ),
    Guard(
        "stored: lower numbers of transactions mean another state of the server",
        "            not page.went_back\n",
        "            bool(page)\n",
        f"{FOLLOWING}::test_a_restored_database_is_read_again",
    ),
    Guard(
        "stored: a transaction that is to come is no edit",
        "        and edited.edit < pg_snapshot_xmax(pg_current_snapshot())\n",
        "",
        f"{FOLLOWING}::test_a_row_from_the_future_of_another_server_is_no_edit",
    ),
    Guard(
        "stored: what a new connection does not show is dropped",
        "            if name not in load.seen and name not in self._code:\n",
        "            if False:\n",
        f"{FOLLOWING}::test_over_a_new_connection_all_are_compared",
    ),
    Guard(
        "stored: messages that are kept built are bounded",
        "        while len(self._built) > BUILT:\n",
        "        while False:\n",
        f"{FOLLOWING}::test_messages_are_built_as_they_are_needed_and_bounded",
    ),
    Guard(
        "stored: entries of the other kind of replicas are left to them",
        "        gone = row.over or row.local != self.rows.local\n",
        "        gone = row.over\n",
        f"{FOLLOWING}::test_replicas_take_entries_of_their_kind_only",
    ),
    Guard(
        "stored: a row that cannot be read stops no other",
        "entry, error = user_code.tried(self.definitions.entry, row)",
        "entry, error = self.definitions.entry(row), None",
        f"{RULES}::test_a_row_that_cannot_be_read_is_parked_and_the_others_run",
    ),
    Guard(
        "stored: a grid that only ends counts from its row",
        "    after = following(entry, seen_us, now_us)\n",
        "    after = lambda last_us: recurrence.next(last_us, now_us)\n",
        f"{RULES}::test_after_an_outage_the_last_slot_before_the_end_runs",
    ),
    Guard(
        "stored: no slot after the end",
        "next_us > self.end_us",
        "False",
        f"{RULES}::test_no_slot_before_the_start_and_none_after_the_end",
    ),
    Guard(
        "stored: who had forgotten a single run finds it once more",
        "            self.stored.recall(names)\n",
        "            pass\n",
        f"{RULES}::test_the_only_run_of_a_replica_that_died_is_sent_again",
    ),
    Guard(
        "stored: a claim under a version wins nothing of what code declares",
        "set version = null\nfrom held\n",
        "set version = task.version\nfrom held\n",
        f"{RULES}::test_code_takes_a_stored_name_over_and_gives_it_back",
    ),
    Guard(
        "stored: what no code declares any more is given back",
        "            self._give_back()\n",
        "",
        f"{RULES}::test_code_takes_a_stored_name_over_and_gives_it_back",
    ),
    Guard(
        "stored: code takes its name over once more after it was away",
        "        self._take_over(self.timekeeper.refresh(known))\n",
        "        self.timekeeper.refresh(known)\n",
        f"{RULES}::test_code_that_was_away_takes_its_name_over_once_more",
    ),
    Guard(
        "stored: a schedule that stands is never forgotten",
        "            where stored.name = declared.name and stored.removed_at is null\n",
        "            where false\n",
        f"{RULES}::test_a_stored_schedule_that_stands_is_never_forgotten",
    ),
    Guard(
        "stored: a removed schedule goes a day later",
        "    {delete_undeclared(pecker_schedules)}\n",
        "    delete from {schema}.pecker_schedules as stored\n    using undeclared\n"
        "    where false\n",
        f"{RULES}::test_a_removed_schedule_is_forgotten_a_day_later",
    ),
)
