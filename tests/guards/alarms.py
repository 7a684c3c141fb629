"""The guards of alarms: once per cluster, none lost, none of what is well."""

from __future__ import annotations

from tests.guards.guard import Guard

ACTS = "tests/integration/alarms/test_acts.py"
ROUNDS = "tests/integration/alarms/test_rounds.py"
SENDING = "tests/integration/alarms/test_sending.py"
INSTANTS = "tests/integration/alarms/test_instants.py"
STORMS = "tests/integration/alarms/test_storms.py"
KINDS = "tests/integration/alarms/test_kinds.py"

GUARDS = (
    Guard(
        "alarms: a name with line breaks forges no line of the log",
        'return "".join(one if one.isprintable() else " " for one in text)',
        "return text",
        "tests/unit/alarms/test_rules.py::test_a_notice_in_the_log_is_one_line",
    ),
    Guard(
        "alarms: what is silent and what fails is said without any setting",
        "read_rules({**LOGGED, **(settings.alarms or {})}, settings.alarms_to)",
        "read_rules(settings.alarms, settings.alarms_to)",
        "tests/integration/alarms/test_processes.py"
        "::test_without_any_setting_the_log_says_what_is_silent_and_what_fails",
    ),
    Guard(
        "settings: one that there once was is refused with what became of it",
        "_renamed(key, name) or _refusal(wrong, name, known)",
        "_refusal(wrong, name, known)",
        "tests/unit/kernel/test_settings.py"
        "::test_a_setting_that_there_once_was_is_refused_with_what_became_of_it",
    ),
    Guard(
        "heartbeat: a folder that others may write into shows nothing",
        " or status.st_uid != os.geteuid() or mode & 0o22:",
        ":",
        "tests/unit/schedules/test_heartbeat.py::test_a_folder_that_others_may_write_into_is_none",
    ),
    Guard(
        "alarms: a look that was overtaken writes nothing (I3)",
        "    where rule = %(rule)s and epoch = %(epoch)s\n",
        "    where rule = %(rule)s and 0 < %(epoch)s\n",
        f"{ROUNDS}::test_a_look_that_was_overtaken_writes_nothing",
    ),
    Guard(
        "alarms: a look that outlasts an interval is overtaken by nobody",
        "clock.now + greatest(%(interval)s, %(lease)s) * interval",
        "clock.now + %(interval)s * interval",
        f"{ROUNDS}::test_a_look_that_outlasts_an_interval_is_overtaken_by_nobody",
    ),
    Guard(
        "alarms: a replica whose looks fail keeps no rule",
        "case when due.again then",
        "case when false then",
        f"{ROUNDS}::test_a_replica_whose_looks_fail_keeps_no_rule",
    ),
    Guard(
        "alarms: what rings is noticed once",
        "(judged.woke or not judged.noticed and (\n",
        "(judged.woke or (\n",
        f"{ROUNDS}::test_two_replicas_that_see_the_same_ring_once",
    ),
    Guard(
        "alarms: what comes back within the cool-down is not noticed",
        "judged.noticed_at + judged.cooldown * interval '1 second' <= clock.now,\n",
        "null,\n",
        f"{ROUNDS}::test_what_comes_back_within_the_cool_down_rings_after_it",
    ),
    Guard(
        "alarms: of two who take one at once one has it",
        "case when %(act)s = 'take' then coalesce(a.taken_by, %(by)s) = %(by)s\n",
        "case when %(act)s = 'take' then true\n",
        f"{ACTS}::test_of_two_who_take_it_at_once_one_has_it",
    ),
    Guard(
        "alarms: of what is quiet nothing is sent",
        "judged.rings and not judged.quiet and (judged.woke",
        "judged.rings and (judged.woke",
        f"{ACTS}::test_what_is_quiet_sends_nothing_and_stays_visible[mute]",
    ),
    Guard(
        "alarms: the end of what is muted is not sent either",
        "                  and known.muted_by is null\n",
        "",
        f"{ACTS}::test_the_end_of_what_was_noticed_and_is_quiet_is_not_sent",
    ),
    Guard(
        "alarms: what is muted is not forgotten",
        "< clock.now - interval '1 day' and alarm.muted_by is null",
        "< clock.now - interval '1 day'",
        f"{ACTS}::test_what_is_muted_is_not_forgotten",
    ),
    Guard(
        "alarms: an end whose beginning was not noticed is not noticed either",
        "known.state = 'ringing' and known.noticed and known.recovery\n",
        "known.state = 'ringing' and known.recovery\n",
        f"{ROUNDS}::test_what_comes_back_within_the_cool_down_rings_after_it",
    ),
    Guard(
        "alarms: a notice that is being sent is left to its sender",
        "set held_until = clock.now + %(hold)s * interval '1 second',\n    holder",
        "set held_until = clock.now,\n    holder",
        f"{SENDING}::test_a_survivor_sends_what_a_dead_sender_held",
    ),
    Guard(
        "alarms: a notice that was taken over is not closed by who had it (I3)",
        "    where n.id = %(id)s and n.epoch = %(epoch)s\n    returning n.id\n",
        "    where n.id = %(id)s and 0 < %(epoch)s\n    returning n.id\n",
        f"{SENDING}::test_one_that_was_taken_over_is_not_closed_by_who_had_it",
    ),
    Guard(
        "alarms: a newer notice is not taken for the one that is being sent",
        "since, at, subjects)}, id = default\n",
        "since, at, subjects)}\n",
        f"{SENDING}::test_a_recovery_while_the_ringing_is_being_sent_is_sent_after_it",
    ),
    Guard(
        "alarms: what a dead future holds is due after a step back",
        "or n.held_until > clock.now + 2 * %(hold)s * interval '1 second')\n",
        "or false)\n",
        f"{SENDING}::test_a_clock_that_stepped_back_keeps_no_notice_waiting",
    ),
    Guard(
        "alarms: a rule is looked at after a step back",
        "            or r.looked_at > clock.now + interval '1 second'\n",
        "",
        f"{KINDS}::test_a_clock_that_steps_back_rings",
    ),
    Guard(
        "alarms: notices for targets of newer code wait for it",
        "        and n.target = any (%(targets)s::text[])\n",
        "",
        f"{SENDING}::test_a_target_that_only_newer_code_knows_waits_for_it",
    ),
    Guard(
        "alarms: an entry that code has dropped is not silent",
        "if one.detail != UNSURE or look.seams.declares(one.subject):",
        "if one.detail != UNSURE or look.seams.declares is not None:",
        f"{KINDS}::test_silent_is_not_what_code_has_dropped",
    ),
    Guard(
        "alarms: an entry that code drops while it is silent rings no more",
        "       case when declared.declared_until >= clock.now\n",
        "       case when true\n",
        f"{KINDS}::test_an_entry_that_code_drops_while_it_is_silent_rings_no_more",
    ),
    Guard(
        "alarms: what was counted before the first look is no news",
        "case when %(first)s then counted.value else 0 end",
        "0",
        f"{KINDS}::test_misfires_ring_when_they_are_many_within_the_window",
    ),
    Guard(
        "alarms: one target that fails holds up no other",
        "            failed.add(notice.target)\n",
        "            raise error\n",
        f"{SENDING}::test_a_target_that_is_away_rests_and_holds_up_no_other",
    ),
    Guard(
        "alarms: what rings is read in each look, whichever part that reads",
        "        or declared.name = any (array(select open.subject from open)))\n",
        "        or false)\n",
        f"{ROUNDS}::test_entries_are_read_a_part_at_a_time_and_what_rings_each_time",
    ),
    Guard(
        "alarms: each look goes on where the last one ended",
        '        return due.passed, high or ""\n',
        '        return "", self.tables.part("", self.part) or ""\n',
        f"{ROUNDS}::test_entries_are_read_a_part_at_a_time_and_what_rings_each_time",
    ),
    Guard(
        "alarms: a rule for a gate that cannot be asked is refused",
        "            if rule.kind.asks_gate and shut is None:\n",
        "            if rule.kind.asks_gate and shut is rule:\n",
        "tests/integration/alarms/test_start.py::test_a_rule_for_a_gate_that_cannot_be_asked",
    ),
    Guard(
        "alarms: a sender leaves what others may have taken meanwhile",
        "self.clock.monotonic() - began > HOLD - timeout:\n",
        "self._clock.monotonic() < began:\n",
        f"{SENDING}::test_a_slow_target_gets_nothing_twice",
    ),
    Guard(
        "alarms: a target that hangs is not called until it has returned",
        "                self._late[notice.target] = notice, call\n",
        "                pass\n",
        f"{SENDING}::test_a_target_that_hangs_holds_up_no_other",
    ),
    Guard(
        "alarms: what was sent is closed when the database is back",
        "        for notice in [*self._unsent]:\n",
        "        for notice in []:\n",
        f"{SENDING}::test_what_was_sent_is_closed_when_the_database_is_back",
    ),
    Guard(
        "alarms: what is no Exception ends no thread",
        "except BaseException as error:  # noqa: BLE001  # the caller's to judge",
        "except Exception as error:",
        f"{SENDING}::test_what_is_no_exception_is_a_failure_of_the_target",
    ),
    Guard(
        "alarms: a cool-down from a future that is gone is over",
        "judged.noticed_at > clock.now + interval '1 second')) as tells",
        "false)) as tells",
        f"{ROUNDS}::test_a_cool_down_ends_with_the_future_that_it_counts_from",
    ),
    Guard(
        "alarms: a look that fails keeps no other",
        "            if isinstance(error, DatabaseUnavailable):\n",
        "            if error is not None:\n",
        f"{ROUNDS}::test_a_look_that_fails_keeps_no_other_and_nothing_recovers",
    ),
    Guard(
        "alarms: what rises after a window opens the next one",
        "case when past.over then mark.seen else mark.value end",
        "case when past.over then counted.value else mark.value end",
        f"{KINDS}::test_what_rises_after_a_window_opens_the_next_one",
    ),
    Guard(
        "alarms: a look that was cut lets nothing recover",
        "        and %(whole)s::boolean\n",
        "        and coalesce(%(whole)s::boolean, true) is not null\n",
        f"{ROUNDS}::test_a_look_that_was_cut_lets_nothing_recover",
    ),
    Guard(
        "alarms: notices for targets that no code has are forgotten",
        "        and n.at < clock.now - interval '1 day'\n",
        "        and n.at < clock.now - interval '1 year'\n",
        f"{ROUNDS}::test_what_no_code_has_any_more_is_forgotten",
    ),
    Guard(
        "alarms: crontabs that a look leaves out are first in the next one",
        "                self._next = nth % len(self._entries)\n",
        "                self._next = 0\n",
        f"{INSTANTS}::test_crontabs_that_a_look_leaves_out_are_first_in_the_next_one",
    ),
    Guard(
        "alarms: who does not know an instant yet lets nothing recover",
        "            greatest(given.due, open.since)) as due\n",
        "            given.due) as due\n",
        f"{INSTANTS}::test_a_process_that_does_not_know_an_instant_yet_lets_nothing_recover",
    ),
    Guard(
        "alarms: a stored schedule that is no grid falls silent",
        "for name, due in stored if due <= until}",
        "for name, due in stored if due < due}",
        f"{INSTANTS}::test_silent_is_a_stored_schedule_that_is_no_grid",
    ),
    Guard(
        "alarms: a first look counts when it was recorded",
        "not r.recorded as first",
        "r.epoch = 0 as first",
        f"{KINDS}::test_a_first_look_that_was_not_recorded_is_not_the_first",
    ),
    Guard(
        "alarms: many at once are one notice",
        "    ) > %(storm)s\n",
        "    ) > %(storm)s + 1000000\n",
        f"{STORMS}::test_a_thousand_are_one_notice_and_so_is_their_end",
    ),
    Guard(
        "alarms: a storm that comes in drops is one",
        "between clock.now - interval '1 minute' and clock.now\n",
        "between clock.now and clock.now\n",
        f"{STORMS}::test_those_that_follow_within_a_minute_are_one_notice_a_look",
    ),
    Guard(
        "alarms: a storm that waits keeps what it had",
        "select old.subject from unnest(waits.subjects) as old (subject)\n",
        "select old.subject from unnest('{}'::text[]) as old (subject)\n",
        f"{STORMS}::test_a_storm_whose_target_is_away_loses_none_and_says_nothing_that_is_over",
    ),
    Guard(
        "alarms: a storm that waits loses what is so no more",
        "where (stormy.event = 'ringing') = exists (\n",
        "where true or exists (\n",
        f"{STORMS}::test_an_end_that_waits_leaves_out_what_rings_anew",
    ),
    Guard(
        "alarms: what a gate holds back is not silent",
        "    and (task.name in (select held.name from held)) = %(wanted)s::boolean\n",
        "    and (0 = any ('{}'::integer[])) = (%(wanted)s::boolean and false)\n",
        f"{KINDS}::test_what_the_gate_holds_back_is_held_and_not_silent",
    ),
    Guard(
        "alarms: what any gate holds back is held, whoever looks",
        "            held=sorted(self.held())[:MOST_HELD],\n",
        "",
        "tests/integration/alarms/test_processes.py"
        "::test_what_workers_hold_is_not_silent_to_a_beat_that_cannot_know",
    ),
    Guard(
        "alarms: what a dead scheduler held is silent",
        "    where replica.seen_at > clock.now - interval '20 seconds'\n),\nopen as",
        "    where true\n),\nopen as",
        f"{KINDS}::test_what_any_gate_holds_back_is_held_whoever_looks",
    ),
    Guard(
        "alarms: shards of a worker that is gone do not wait to be begun",
        "case when ticket.leased_until < clock.now then 403 else 402 end",
        "402",
        f"{KINDS}::test_jobs_hang_by_their_codes",
    ),
    Guard(
        "alarms: a job whose worker dies while it rings has not recovered",
        "shard.claimed_at < edge.at and ticket.leased_until >= edge.at\n",
        "shard.claimed_at < edge.at and ticket.leased_until >= clock.now\n",
        f"{KINDS}::test_jobs_hang_by_their_codes",
    ),
    Guard(
        "alarms: an outbox that gives no answer lets nothing recover",
        "[*findings.values()], whole and complete\n",
        "[*findings.values()], whole or complete\n",
        f"{KINDS}::test_other_outboxes_are_asked_and_one_that_is_away_lets_nothing_recover",
    ),
    Guard(
        "alarms: a look marks so many counters that a statement can",
        "case when %(kind)s::text = 'misfire' or not %(first)s then 20000 end\n",
        "null\n",
        f"{STORMS}::test_misfires_of_all_entries_are_bounded_work_and_none_is_lost",
    ),
    Guard(
        "alarms: counters that rose ring as many at once as others",
        "order by 1\nlimit 1000\n",
        "order by 1\n",
        f"{STORMS}::test_misfires_of_all_entries_are_bounded_work_and_none_is_lost",
    ),
    Guard(
        "alarms: a scheduler looks when its gate has been asked",
        "            self._first = SYSTEM.monotonic() + WARM_UP\n",
        "            self._first = 0.0\n",
        "tests/integration/alarms/test_processes.py"
        "::test_what_is_held_is_not_silent_to_a_scheduler_that_has_just_begun",
    ),
    Guard(
        "alarms: instants of entries that are gone are forgotten",
        "= self._known, {}, now\n",
        "= self._known, self._known, now\n",
        f"{INSTANTS}::test_instants_of_what_is_gone_are_forgotten",
    ),
)
