"""The guards of stored schedules: what an edit may not lose, repeat or overwrite."""

from __future__ import annotations

from tests.guards.guard import Guard

SLOTS = "tests/integration/stored_schedules/test_anchoring.py"
WRITES = "tests/integration/stored_schedules/test_edits.py"
JOINED = "tests/integration/stored_schedules/test_transactions.py"
RACES = "tests/integration/schedules/test_stored_races.py"
ONCE = "tests/integration/stored_schedules/test_at_once.py"

GUARDS = (
    Guard(
        "stored: a due slot does not vanish when the schedule changes",
        "    due = [] if old is None or hot.paused else due_slots(old, hot)\n",
        "    due: list[int] = []\n",
        f"{SLOTS}::test_a_due_slot_is_asked_for_where_the_new_schedule_is_no_grid",
    ),
    Guard(
        "stored: a due slot is the first of a new grid",
        "        return Anchor(slot_us - period_us)\n",
        "        return Anchor(slot_us)\n",
        f"{SLOTS}::test_a_due_slot_of_a_grid_is_the_first_of_the_new_one",
    ),
    Guard(
        "stored: a new schedule makes nothing of the past due",
        "        executed_us = latest(executed_us, period_us, hot.now_us)\n",
        "        executed_us = hot.executed_us\n",
        f"{SLOTS}::test_a_new_period_keeps_the_phase_and_skips_the_past",
    ),
    Guard(
        "stored: a removed name that returns repeats nothing",
        "    return Anchor(max(hot.executed_us, hot.now_us))\n",
        "    return Anchor(hot.executed_us)\n",
        f"{WRITES}::test_a_name_that_returns_goes_on_counting",
    ),
    Guard(
        "stored: paused slots pass, also when the schedule changes",
        "old is None or hot.paused else",
        "old is None else",
        f"{SLOTS}::test_a_slot_that_would_not_have_run_is_not_asked_for",
    ),
    Guard(
        "stored: an edit names the version that it is for",
        "    if expected is not None and expected != actual:\n",
        "    if expected is None and actual < 0:\n",
        f"{WRITES}::test_an_edit_for_an_old_version_is_refused",
    ),
    Guard(
        "stored: edits of one entry go one behind the other",
        "where task.name = any (%(names)s::text[])\norder by task.name\nfor update\n",
        "where task.name = any (%(names)s::text[])\norder by task.name\n",
        f"{JOINED}::test_an_edit_waits_for_the_transaction_before_it",
    ),
    Guard(
        "stored: an edit raises the version of the hot row",
        "    set version = wanted.version,\n        executed_at =",
        "    set version = coalesce(task.version, wanted.version),\n"
        "        executed_at =",
        f"{WRITES}::test_each_edit_raises_the_version_of_both_rows",
    ),
    Guard(
        "stored: a removal raises the version of the hot row",
        "    set version = %(version)s::bigint\n    from ended\n",
        "    set version = task.version\n    from ended\n",
        f"{WRITES}::test_removed_is_gone_and_leaves_its_row",
    ),
    Guard(
        "stored: what was asked of a removed entry goes",
        "    using ended\n    where pending.name = ended.name\n",
        "    using ended\n    where pending.name = ended.name and false\n",
        f"{WRITES}::test_what_was_asked_of_a_removed_one_goes",
    ),
    Guard(
        "stored: the history of a name is bounded",
        "            order by kept.id desc\n            offset 99\n",
        "            order by kept.id desc\n            offset 999\n",
        f"{WRITES}::test_history_is_bounded",
    ),
    Guard(
        "stored: code wins names",
        "LIVING_CODE, declares=current.by_code)",
        "LIVING_CODE, declares=False)",
        f"{WRITES}::test_a_name_that_living_code_declares_is_refused",
    ),
    Guard(
        "stored: an edit of our own is one transaction",
        "own.transaction(several)",
        "own.transaction(False)",
        f"{JOINED}::test_an_edit_that_fails_in_its_middle_leaves_nothing",
    ),
    Guard(
        "stored: an edit joins the caller's transaction",
        "        if connection is not None:\n            return drive(",
        "        if connection is False:\n            return drive(",
        f"{JOINED}::test_a_rollback_leaves_nothing",
    ),
    Guard(
        "stored: only allowed tasks",
        "        check_task(task, self.allow_list)\n",
        "",
        f"{WRITES}::test_only_allowed_tasks_are_stored",
    ),
    Guard(
        "stored: only allowed tasks, also by options",
        "    if other and allow_list is not None:\n",
        "    if other and allow_list == 1:\n",
        "tests/unit/stored_schedules/test_schedule_json.py::test_options_do_not_get_round_the_allow_list",
    ),
    Guard(
        "stored: only named options",
        "        if kinds is None:\n",
        "        if kinds == 1:\n",
        "tests/unit/stored_schedules/test_schedule_json.py::test_every_other_field_is_refused_by_name",
    ),
    Guard(
        "stored: no header that our packages read",
        "            if header.startswith(OURS):\n",
        "            if header == OURS:\n",
        "tests/unit/stored_schedules/test_schedule_json.py::test_every_other_field_is_refused_by_name",
    ),
    Guard(
        "stored: the allow-list holds when running",
        "        check_task(row.task, self.allow_list)\n",
        "",
        "tests/integration/schedules/test_stored_rules.py"
        "::test_what_another_app_stored_does_not_run",
    ),
    Guard(
        "stored: options of rows are checked when running",
        "        check_running(row.options, self._timings.allow_list)\n",
        "",
        "tests/integration/schedules/test_stored_rules.py"
        "::test_what_another_app_stored_does_not_run",
    ),
    Guard(
        "stored: what is stored anew is not forgotten",
        "        and task.executed_at >= stored.once_at\n"
        "    limit 1000\n    for update of task skip locked\n",
        "        and task.executed_at >= stored.once_at\n    limit 1000\n",
        "tests/integration/stored_schedules/test_forgetting.py"
        "::test_what_is_being_stored_anew_is_not_forgotten",
    ),
    Guard(
        "stored: a clock that stepped back makes nothing due before its start",
        "            return after(now_us)\n",
        "            before_us = now_us\n",
        "tests/integration/schedules/test_stored_rules.py"
        "::test_a_clock_that_steps_back_runs_nothing_before_its_first_instant",
    ),
    Guard(
        "stored: a name that code declares elsewhere is asked for seldom",
        "min(belief.stagger_us << belief.lost, LOST_WAIT_US)",
        "belief.stagger_us",
        "tests/integration/schedules/test_stored_rules.py"
        "::test_a_name_that_code_declares_elsewhere_is_asked_for_seldom",
    ),
    Guard(
        "stored: slots that wait for the broker do not push out one another",
        "self._unready([slot.entry.name for slot in kept.slots])",
        "self._unready([s.entry.name for one in self._kept for s in one.slots])",
        "tests/integration/schedules/test_following.py"
        "::test_slots_that_wait_for_the_broker_do_not_push_out_one_another",
    ),
    Guard(
        "stored: an edit without a lock sees a claim that came between",
        "        and task.executed_at = wanted.seen_at\n",
        "        and true\n",
        f"{ONCE}::test_whoever_came_between_is_seen",
    ),
    Guard(
        "stored: an edit without a lock sees an edit that came between",
        "        or task.version = wanted.version - 1\n",
        "        or true\n",
        f"{ONCE}::test_whoever_came_between_is_seen",
    ),
    Guard(
        "stored: an edit without a lock sees a pause that came between",
        "        and task.paused = wanted.seen_paused\n",
        "        and true\n",
        f"{ONCE}::test_whoever_came_between_is_seen",
    ),
    Guard(
        "stored: an edit without a lock waits for nobody",
        "    for update of task skip locked\n),\nwritten as",
        "    for update of task\n),\nwritten as",
        f"{ONCE}::test_who_is_still_at_it_is_not_waited_for",
    ),
    Guard(
        "stored: of many edits all are written or none",
        "                    if not each:\n",
        "                    if not each and not edits:\n",
        f"{ONCE}::test_of_many_all_are_written_or_none",
    ),
    Guard(
        "stored: an end that is added keeps the phase of an interval",
        "    period_us = period_of(new)\n",
        "    period_us = new.period_us\n",
        f"{SLOTS}::test_an_end_keeps_the_phase_of_an_interval",
    ),
    Guard(
        "stored: floats that would come back as whole numbers are refused",
        "    if _has_whole_float(document):\n",
        "    if False:\n",
        "tests/unit/stored_schedules/test_schedule_json.py::test_every_other_field_is_refused_by_name",
    ),
    Guard(
        "stored: a start of code and an edit lock rows in the same order",
        "    order by task.name\n    for update of task\n),\nchanged as (",
        "    order by task.name\n),\nchanged as (",
        f"{RACES}::test_a_start_of_code_goes_behind_an_edit_of_the_name",
    ),
    Guard(
        "stored: a start of code waits for no edit of a stored schedule",
        "    where task.version is null\n        and (\n            kept.schedule",
        "    where (\n            kept.schedule",
        f"{RACES}::test_code_that_died_before_it_took_a_name_gives_it_back",
    ),
    Guard(
        "stored: code that died before it took a name gives it back",
        "    where (task.version is null or task.version = stored.version)\n",
        "    where task.version is null\n",
        f"{RACES}::test_code_that_died_before_it_took_a_name_gives_it_back",
    ),
    Guard(
        "stored: a row that somebody holds is asked for ever more seldom",
        "            belief.lost = min(belief.lost + 1, 10)\n",
        "            belief.lost = 0\n",
        f"{RACES}::test_a_row_that_an_open_edit_holds_is_asked_for_seldom",
    ),
    Guard(
        "stored: an edit leaves the tables of another app alone",
        "        if owner is not None and owner != self._app_name:\n",
        "        if False:\n",
        f"{WRITES}::test_the_schema_of_another_app_is_refused",
    ),
    Guard(
        "stored: an edit leaves the last win known",
        "            belief.won_epoch, belief.won_us = known.won_epoch, known.won_us\n",
        "            belief.won_epoch, belief.won_us = 0, 0\n",
        "tests/unit/schedules/test_agenda.py::test_an_edit_leaves_the_last_win_known",
    ),
)
