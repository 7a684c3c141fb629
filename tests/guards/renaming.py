"""The guards of a rename: no slot is doubled or lost by it."""

from __future__ import annotations

from tests.guards.guard import Guard

TESTS = "tests/integration/stored_schedules/test_renaming.py"

GUARDS = (
    Guard(
        "stored: a page of reports of the new name fails no rename",
        "    from reports as page\n"
        "    on conflict (name, first_due, era, holder) do update\n"
        "    set {excluded(last_due, written_at, due_us, epoch, at_us, report)}\n",
        "    from reports as page\n",
        f"{TESTS}::test_a_report_of_the_new_name_does_not_fail_a_rename",
    ),
    Guard(
        "stored: a count of the new name's runs waits for a rename",
        '            yield ask("lock_reports", names=both)\n',
        "",
        f"{TESTS}::test_a_report_of_the_new_name_does_not_fail_a_rename",
    ),
    Guard(
        "stored: a renamed schedule keeps its slots",
        "        return Anchor(hot.executed_us)\n    due",
        "        return first(hot)\n    due",
        f"{TESTS}::test_a_slot_that_is_due_runs_once_under_the_new_name",
    ),
    Guard(
        "stored: a rename repeats no slot of the name's past",
        "    if same and first_us > taken_us:\n",
        "    if same:\n",
        f"{TESTS}::test_a_slot_before_the_last_of_the_new_name_is_asked_for",
    ),
    Guard(
        "stored: who knows the old name claims nothing",
        "    set version = %(gone)s::bigint, missed = 0\n",
        "    set missed = 0\n",
        f"{TESTS}::test_a_claim_passes_over_both_names_until_it_commits",
    ),
    Guard(
        "stored: a slot on its way is not renamed",
        "    and (not pending.asked or pending.taken_at is not null)\nlimit 1\n",
        "    and pending.asked and pending.taken_at is not null\nlimit 1\n",
        f"{TESTS}::test_a_slot_that_is_being_sent_is_waited_for",
    ),
    Guard(
        "stored: a rename that is refused leaves nothing in its transaction",
        '            if before.owns and (yield ask("find_underway", name=old)):\n'
        "                raise SlotUnderway\n"
        "            names = [] if there.executed_us is not None else [new]\n"
        "            if names and not (yield ask("
        '"enroll_stored", names=names)):\n'
        "                continue  # another edit has just created it\n",
        "            names = [] if there.executed_us is not None else [new]\n"
        "            if names and not (yield ask("
        '"enroll_stored", names=names)):\n'
        "                continue  # another edit has just created it\n"
        '            if before.owns and (yield ask("find_underway", name=old)):\n'
        "                raise SlotUnderway\n",
        f"{TESTS}::test_what_is_refused_leaves_nothing_in_the_callers_transaction",
    ),
    Guard(
        "stored: a definition is judged before the rename",
        "        if there and not same:\n",
        "        if before is None and not same:\n",
        f"{TESTS}::test_what_is_refused_leaves_nothing_in_the_callers_transaction",
    ),
    Guard(
        "stored: the history of a name is bounded by a rename, too",
        "    order by change.id desc\n    limit 99\n),\nchanges",
        "    order by change.id desc\n    limit 999\n),\nchanges",
        f"{TESTS}::test_history_of_the_new_name_is_forgotten_and_bounded",
    ),
    Guard(
        "stored: a pause waits for a rename",
        '        yield self._statement("lock_entries", names=[name])\n'
        '        rows = yield self._statement("pause_entry"',
        '        rows = yield self._statement("pause_entry"',
        f"{TESTS}::test_what_is_asked_of_a_name_that_goes_is_refused",
    ),
    Guard(
        "stored: a run that is asked for waits for a rename",
        '            self.database.run("lock_entries", names=[name])\n',
        "",
        f"{TESTS}::test_what_is_asked_of_a_name_that_goes_is_refused",
    ),
    Guard(
        "stored: a rename takes nobody's name",
        "        if there.there:\n",
        "        if there.there and not there.name:\n",
        f"{TESTS}::test_a_name_that_is_somebodys_is_refused",
    ),
    Guard(
        "stored: a rename leaves code its row",
        "    where task.name = %(old)s::text and %(owns)s::boolean\n",
        "    where task.name = %(old)s::text\n",
        f"{TESTS}::test_a_row_that_code_hides_gets_a_name_of_its_own",
    ),
)
