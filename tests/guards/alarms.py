"""The guards of alarms: once per cluster, none lost, none of what is well."""

from __future__ import annotations

from tests.guards.guard import Guard

SQL = "celery_pecker/sql/alarms.sql"
ROUNDS = "tests/integration/alarms/test_rounds.py"
SENDING = "tests/integration/alarms/test_sending.py"
INSTANTS = "tests/integration/alarms/test_instants.py"
KINDS = "tests/integration/alarms/test_kinds.py"

GUARDS = (
    Guard(
        "alarms: a look that was overtaken writes nothing (I3)",
        SQL,
        "    where rule = %(rule)s and epoch = %(epoch)s\n",
        "    where rule = %(rule)s and 0 < %(epoch)s\n",
        f"{ROUNDS}::test_a_look_that_was_overtaken_writes_nothing",
    ),
    Guard(
        "alarms: what rings is noticed once",
        SQL,
        "judged.rings and not judged.noticed and coalesce(",
        "judged.rings and coalesce(",
        f"{ROUNDS}::test_two_replicas_that_see_the_same_ring_once",
    ),
    Guard(
        "alarms: what comes back within the cool-down is not noticed",
        SQL,
        "judged.noticed_at + judged.cooldown * interval '1 second' <= clock.now,\n",
        "null,\n",
        f"{ROUNDS}::test_what_comes_back_within_the_cool_down_rings_after_it",
    ),
    Guard(
        "alarms: an end whose beginning was not noticed is not noticed either",
        SQL,
        "known.state = 'ringing' and known.noticed and known.recovery as tells",
        "known.state = 'ringing' and known.recovery as tells",
        f"{ROUNDS}::test_what_comes_back_within_the_cool_down_rings_after_it",
    ),
    Guard(
        "alarms: a notice that is being sent is left to its sender",
        SQL,
        "set held_until = clock.now + %(hold)s * interval '1 second',\n    holder",
        "set held_until = clock.now,\n    holder",
        f"{SENDING}::test_a_survivor_sends_what_a_dead_sender_held",
    ),
    Guard(
        "alarms: a notice that was taken over is not closed by who had it (I3)",
        SQL,
        "    where n.id = %(id)s and n.epoch = %(epoch)s\n    returning n.id\n",
        "    where n.id = %(id)s and 0 < %(epoch)s\n    returning n.id\n",
        f"{SENDING}::test_one_that_was_taken_over_is_not_closed_by_who_had_it",
    ),
    Guard(
        "alarms: a newer notice is not taken for the one that is being sent",
        SQL,
        "at = excluded.at, id = default\n",
        "at = excluded.at\n",
        f"{SENDING}::test_a_recovery_while_the_ringing_is_being_sent_is_sent_after_it",
    ),
    Guard(
        "alarms: what a dead future holds is due after a step back",
        SQL,
        "or n.held_until > clock.now + 2 * %(hold)s * interval '1 second')\n",
        "or false)\n",
        f"{SENDING}::test_a_clock_that_stepped_back_keeps_no_notice_waiting",
    ),
    Guard(
        "alarms: a rule is looked at after a step back",
        SQL,
        " or r.looked_at > clock.now + interval '1 second')\n",
        ")\n",
        f"{KINDS}::test_a_clock_that_steps_back_rings",
    ),
    Guard(
        "alarms: notices for targets of newer code wait for it",
        SQL,
        "        and n.target = any (%(targets)s::text[])\n",
        "",
        f"{SENDING}::test_a_target_that_only_newer_code_knows_waits_for_it",
    ),
    Guard(
        "alarms: an entry that code has dropped is not silent",
        "celery_pecker/alarms/looking.py",
        "if one.detail != UNSURE or self._declares(one.subject):",
        "if one.detail != UNSURE or self._declares is not None:",
        f"{KINDS}::test_silent_is_not_what_code_has_dropped",
    ),
    Guard(
        "alarms: what was counted before the first look is no news",
        SQL,
        "case when %(first)s then counted.value else 0 end",
        "0",
        f"{KINDS}::test_misfires_ring_when_they_are_many_within_the_window",
    ),
    Guard(
        "alarms: one target that fails holds up no other",
        "celery_pecker/alarms/sending.py",
        "            failed.add(notice.target)\n",
        "            raise error\n",
        f"{SENDING}::test_a_target_that_is_away_rests_and_holds_up_no_other",
    ),
    Guard(
        "alarms: what rings is read in each look, whichever part that reads",
        SQL,
        "where alarm.rule = %(rule)s and alarm.state <> 'recovered')))\n",
        "where alarm.rule = %(rule)s and false)))\n",
        f"{ROUNDS}::test_entries_are_read_a_part_at_a_time_and_what_rings_each_time",
    ),
    Guard(
        "alarms: each look goes on where the last one ended",
        "celery_pecker/alarms/looking.py",
        '        return turn.passed, high or ""\n',
        '        return "", self._tables.part("", self._part) or ""\n',
        f"{ROUNDS}::test_entries_are_read_a_part_at_a_time_and_what_rings_each_time",
    ),
    Guard(
        "alarms: a rule for a gate that cannot be asked is refused",
        "celery_pecker/replica/alarms.py",
        "            if rule.kind is Kind.SHUT and shut is None:\n",
        "            if rule.kind is Kind.SHUT and shut is Kind:\n",
        "tests/integration/alarms/test_start.py::test_a_rule_for_a_gate_that_cannot_be_asked",
    ),
    Guard(
        "alarms: a sender leaves what others may have taken meanwhile",
        "celery_pecker/alarms/sending.py",
        "self._clock.monotonic() - began > self._hold - self._timeout:\n",
        "self._clock.monotonic() < began:\n",
        f"{SENDING}::test_a_slow_target_gets_nothing_twice",
    ),
    Guard(
        "alarms: a target that hangs is not called until it has returned",
        "celery_pecker/alarms/sending.py",
        "                self._late[notice.target] = call\n",
        "                pass\n",
        f"{SENDING}::test_a_target_that_hangs_holds_up_no_other",
    ),
    Guard(
        "alarms: what was sent is closed when the database is back",
        "celery_pecker/alarms/sending.py",
        "        for notice in [*self._unsaid]:\n",
        "        for notice in []:\n",
        f"{SENDING}::test_what_was_sent_is_closed_when_the_database_is_back",
    ),
    Guard(
        "alarms: what is no Exception ends no thread",
        "celery_pecker/alarms/bounded.py",
        "user_code.raised(self._target, self.notice)\n",
        "user_code.tried(self._target, self.notice)[1]\n",
        f"{SENDING}::test_what_is_no_exception_is_a_failure_of_the_target",
    ),
    Guard(
        "alarms: a cool-down from a future that is gone is over",
        SQL,
        "judged.noticed_at > clock.now + interval '1 second' as tells",
        "false as tells",
        f"{ROUNDS}::test_a_cool_down_ends_with_the_future_that_it_counts_from",
    ),
    Guard(
        "alarms: a look that fails keeps no other",
        "celery_pecker/alarms/step.py",
        "            if isinstance(error, DatabaseUnavailable):\n",
        "            if error is not None:\n",
        f"{ROUNDS}::test_a_look_that_fails_keeps_no_other_and_nothing_recovers",
    ),
    Guard(
        "alarms: what rises after a window opens the next one",
        SQL,
        "case when past.over then mark.seen else mark.value end",
        "case when past.over then counted.value else mark.value end",
        f"{KINDS}::test_what_rises_after_a_window_opens_the_next_one",
    ),
    Guard(
        "alarms: a look that was cut lets nothing recover",
        SQL,
        "        and %(whole)s::boolean\n",
        "        and coalesce(%(whole)s::boolean, true) is not null\n",
        f"{ROUNDS}::test_a_look_that_was_cut_lets_nothing_recover",
    ),
    Guard(
        "alarms: notices for targets that no code has are forgotten",
        SQL,
        "        and n.at < clock.now - interval '1 day'\n",
        "        and n.at < clock.now - interval '1 year'\n",
        f"{ROUNDS}::test_what_no_code_has_any_more_is_forgotten",
    ),
    Guard(
        "alarms: crontabs that a look leaves out are first in the next one",
        "celery_pecker/replica/alarms.py",
        "                self._next = nth % len(self._entries)\n",
        "                self._next = 0\n",
        f"{INSTANTS}::test_crontabs_that_a_look_leaves_out_are_first_in_the_next_one",
    ),
    Guard(
        "alarms: a stored schedule that is no grid falls silent",
        "celery_pecker/alarms/looking.py",
        "            **self._stored(slots, now),\n",
        "",
        f"{INSTANTS}::test_silent_is_a_stored_schedule_that_is_no_grid",
    ),
    Guard(
        "alarms: a first look counts when it was recorded",
        SQL,
        "not r.recorded as first",
        "r.epoch = 0 as first",
        f"{KINDS}::test_a_first_look_that_was_not_recorded_is_not_the_first",
    ),
)
