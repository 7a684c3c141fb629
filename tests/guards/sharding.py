"""The guards of celery_sharding: its guarantees are in docs/how-to/sharding.md.

Reasons are in docs/maintainers/design-notes.md and docs/maintainers/sharding-plan.md.
Many lines stand in several statements: a text is as long as tells which of them is
meant.
"""

from __future__ import annotations

from tests.guards.guard import Guard

SQL = "celery_sharding/sql"
TICKETS, SHARDS = f"{SQL}/tickets.sql", f"{SQL}/shards.sql"
PLANS, OUTCOMES = f"{SQL}/plans.sql", f"{SQL}/outcomes.sql"
SUBMISSIONS, UPKEEP = f"{SQL}/submissions.sql", f"{SQL}/upkeep.sql"

UNIT = "tests/unit/sharding"
REAL = "tests/integration/sharding"
LEDGER = f"{REAL}/ledger"
OF_TICKETS = f"{LEDGER}/test_tickets.py"
OF_SHARDS = f"{LEDGER}/test_shards.py"
OF_PLANS = f"{LEDGER}/test_plans.py"
OF_OUTCOMES = f"{LEDGER}/test_outcomes.py"
OF_SUBMISSIONS = f"{LEDGER}/test_submissions.py"
RACES = f"{LEDGER}/test_races.py"
FORGETTING = f"{LEDGER}/test_forgetting.py"
PLANNING = f"{REAL}/stages/test_planning.py"
POST = f"{REAL}/flow/test_post.py"
NOTIFY = f"{REAL}/flow/test_notify.py"
GO_ON = f"{REAL}/flow/test_next_step.py"
SWEEP = f"{REAL}/flow/test_sweep.py"
WORK = f"{REAL}/runner/test_work.py"
PASSING_ON = f"{REAL}/runner/test_releasing_tickets.py"
LIMITS = f"{REAL}/runner/test_limits.py"
RESULTS = f"{REAL}/flow/test_results.py"
SENT_AGAIN = f"{REAL}/canvas/test_sent_again.py"
DEATHS = f"{REAL}/worker/test_deaths.py"
SHORT = f"{REAL}/worker/test_short.py"
MESSAGES = f"{REAL}/worker/test_messages_of_jobs.py"
STOPS = f"{REAL}/worker/test_stops.py"
RECORDED = f"{REAL}/worker/test_recorded.py"
CALLS = f"{REAL}/canvas/test_calls.py"
SENDING = f"{REAL}/canvas/test_sending.py"
REFUSED = f"{REAL}/canvas/test_refused.py"
UNKNOWN = f"{REAL}/canvas/test_unknown.py"
EAGER = f"{REAL}/canvas/test_eager.py"
OWNED = f"{REAL}/placement/test_tickets_of_workers.py"
ORPHANS = f"{REAL}/placement/test_orphans.py"
SUSPECTS = f"{UNIT}/runner/test_suspects.py"
FAILING = f"{UNIT}/runner/test_failing.py"
VALUES = f"{UNIT}/runner/test_values.py"
OUTSIDE = f"{UNIT}/runner/test_outside_of_items.py"
LAYERS = f"{UNIT}/plan/test_layers.py"
QUERY = f"{REAL}/sources/test_query.py"
PLAN = "tests/property/test_sharding_plan.py"
WINDOW = "tests/property/test_sharding_window.py"
RENEWING = "tests/unit/sharding/runner/test_renewing.py"

GUARDS = (
    Guard(
        "sharding: PreProcess and Post of a dead process wait for no lease",
        "            self._leave(ledger, process)\n",
        "",
        f"{DEATHS}::test_stages_of_a_killed_child_begin_anew_at_once",
    ),
    Guard(
        "sharding: a death is blamed on the shard that was in hand alone",
        "    deaths = shard.deaths + (caught.blamed and %(died)s)::integer,\n",
        "    deaths = shard.deaths + (%(died)s)::integer,\n",
        f"{OF_TICKETS}::test_a_death_is_that_of_the_shard_in_hand_where_it_is_known",
    ),
    Guard(
        "sharding: a short job waits behind no other",
        "            begin = partial(runner.begin, app) if unlimited else None\n",
        "            begin = None\n",
        f"{SHORT}::test_jobs_that_wait_end_one_after_the_other",
    ),
    Guard(
        "sharding: no time limit ends shards in the message of their job",
        "    return not executor_of(app).limited and not any(limits)\n",
        "    return True\n",
        f"{SHORT}::test_a_time_limit_of_the_worker_keeps_shards_in_messages_of_their_own",
    ),
    # Very many open jobs
    Guard(
        "sharding: a lost ticket is sent again without a look at its job",
        "        and coalesce(ticket.resend_at, ticket.sent_at) <= (select",
        "        and false and ticket.sent_at <= (select",
        f"{SWEEP}::test_what_is_lost_is_found_among_very_many_open_jobs",
        within=TICKETS,
    ),
    Guard(
        "sharding: a job whose tickets rest is not due",
        """                    or spare.wake_at <= (select clock.now from clock)
""",
        "                    or true\n",
        f"{SWEEP}::test_jobs_whose_tickets_rest_take_no_sweep_from_others",
    ),
    Guard(
        "sharding: a job's option throttle asks the gate of the app",
        "    database = processor.options.database or _named(processor.throttle)\n",
        "    database = processor.options.database\n",
        "tests/integration/sharding/runner/test_releasing_tickets.py"
        "::test_the_option_throttle_asks_the_gate_of_the_app",
    ),
    # Tickets: one holder each, and no more of them than the concurrency
    Guard(
        "sharding: a message that comes late takes no ticket",
        """        and ticket.seq = %(seq)s
        and ticket.state in ('idle', 'sent')
""",
        "        and ticket.state in ('idle', 'sent')\n",
        f"{OF_TICKETS}::test_a_hold_that_is_not_renewed_is_lost",
    ),
    Guard(
        "sharding: a ticket that is held is not taken",
        "        and ticket.state in ('idle', 'sent')\n",
        "",
        f"{OF_TICKETS}::test_one_copy_of_a_message_takes_the_ticket",
        within=TICKETS,
    ),
    Guard(
        "sharding: the number of a ticket rises as it is taken",
        "        seq = ticket.seq + job.open::integer,\n",
        "",
        f"{OF_TICKETS}::test_one_copy_of_a_message_takes_the_ticket",
    ),
    Guard(
        "sharding: a job that is paused, decided or limited takes no ticket",
        "           job.stage = 'sharding' and not job.paused\n"
        "               and %(ticket)s <= job.concurrency as open\n",
        "           true as open\n",
        f"{OF_TICKETS}::test_a_job_that_wants_none_leaves_its_tickets_idle",
    ),
    Guard(
        "sharding: whoever was followed renews nothing",
        """    where {held_ticket}
    returning ticket.job
)
select job.stage""",
        """    where ticket.job = %(job)s and ticket.ticket = %(ticket)s
        and ticket.state = 'held'
    returning ticket.job
)
select job.stage""",
        f"{OF_TICKETS}::test_a_ticket_that_is_handed_on_is_the_next_ones",
    ),
    Guard(
        "sharding: whoever was followed passes nothing on",
        "    where {held_ticket}\n    returning ticket.job, ticket.ticket, ticket.seq",
        "    where ticket.job = %(job)s and ticket.ticket = %(ticket)s"
        " and ticket.state = 'held'\n"
        "    returning ticket.job, ticket.ticket, ticket.seq",
        f"{OF_TICKETS}::test_a_ticket_that_is_handed_on_is_the_next_ones",
    ),
    Guard(
        "sharding: who lets a ticket go frees shards of that ticket only",
        "        and shard.ticket = gone.ticket\n",
        "",
        f"{OF_TICKETS}::test_who_lets_a_ticket_go_frees_its_own_shards",
    ),
    Guard(
        "sharding: tickets that are held count as out",
        "least(job.concurrency, %(slots)s::integer + 1) - out.held - out.sent,",
        "least(job.concurrency, %(slots)s::integer + 1) - out.sent,",
        f"{OF_TICKETS}::test_tickets_above_a_concurrency_that_was_lowered_count_until_they_end",
    ),
    Guard(
        "sharding: no more tickets are out than shards are ready",
        "               ready.shards - out.sent\n",
        "               ready.shards\n",
        f"{OF_TICKETS}::test_no_more_tickets_are_out_than_are_of_use",
    ),
    Guard(
        "sharding: a hold lasts as long as its lease",
        "        and ticket.leased_until <= (select clock.now from clock)\n",
        "",
        f"{OF_TICKETS}::test_a_hold_that_is_not_renewed_is_lost",
        within=TICKETS,
    ),
    Guard(
        "sharding: a lapsed hold has a number that never comes back",
        "state = 'idle',\nseq = ticket.seq + 1,\n",
        "state = 'idle',\n",
        f"{OF_TICKETS}::test_a_hold_that_is_not_renewed_is_lost",
    ),
    Guard(
        "sharding: a hold of a dead process has a number that never comes back",
        "state = 'idle',\nseq = ticket.seq + 1,\n",
        "state = 'idle',\n",
        f"{OF_TICKETS}::test_holds_of_a_process_that_is_known_dead_end_at_once",
    ),
    Guard(
        "sharding: shards of a living hold are no orphans",
        "                and hold.state = 'held'\n        )\n),\ncaught",
        "                and false\n        )\n),\ncaught",
        f"{RACES}::test_what_a_late_claim_of_who_has_let_go_took_is_found",
    ),
    Guard(
        "sharding: shards of an earlier hold of a ticket are orphans",
        "                and hold.seq = shard.epoch\n",
        "",
        f"{RACES}::test_what_a_late_claim_of_who_has_let_go_took_is_found",
    ),
    Guard(
        "sharding: an orphan that was claimed anew is its new holder's",
        "        and shard.epoch = orphaned.epoch\n",
        "",
        f"{RACES}::test_an_orphan_that_was_claimed_anew_is_its_new_holders",
    ),
    Guard(
        "sharding: a shard counts the processes that died over it",
        "    deaths = shard.deaths + (caught.blamed and %(died)s)::integer,\n",
        "    deaths = shard.deaths,\n",
        f"{OF_TICKETS}::test_a_hold_that_is_not_renewed_is_lost",
    ),
    # Claims
    Guard(
        "sharding: whoever was followed claims nothing",
        "    where {held_ticket}\n    returning ticket.job\n)",
        "    where ticket.job = %(job)s and ticket.ticket = %(ticket)s"
        " and ticket.state = 'held'\n"
        "    returning ticket.job\n)",
        f"{OF_TICKETS}::test_a_ticket_that_is_handed_on_is_the_next_ones",
        within=SHARDS,
    ),
    Guard(
        "sharding: whoever let its ticket go claims nothing",
        "    where {held_ticket}\n    returning ticket.job\n)",
        "    where ticket.job = %(job)s and ticket.ticket = %(ticket)s"
        " and ticket.seq = %(seq)s\n    returning ticket.job\n)",
        f"{OF_TICKETS}::test_a_ticket_that_is_handed_on_is_the_next_ones",
        within=SHARDS,
    ),
    Guard(
        "sharding: a claim waits for who is ending its hold",
        """fence as (
    update {schema}.pecker_tickets as ticket
    set leased_until = coalesce(
            clock.now + %(lease)s::float8 * interval '1 second', ticket.leased_until
        )
    from clock
    where {held_ticket}
    returning ticket.job
)""",
        """fence as (
    select ticket.job from {schema}.pecker_tickets as ticket
    where {held_ticket}
)""",
        f"{RACES}::test_a_claim_behind_the_end_of_its_hold_claims_nothing",
    ),
    Guard(
        "sharding: a paused job is claimed no more",
        "        and not job.paused\n",
        "",
        f"{OF_SHARDS}::test_a_job_that_wants_no_more_is_claimed_no_more",
        within=SHARDS,
    ),
    Guard(
        "sharding: no shard begins before its layer",
        "        and job.layer = %(layer)s\n",
        "",
        f"{OF_SHARDS}::test_shards_are_claimed_in_order_and_once",
        within=SHARDS,
    ),
    Guard(
        "sharding: a ticket above the concurrency claims nothing",
        "        and %(ticket)s <= job.concurrency\n",
        "",
        f"{OF_SHARDS}::test_a_job_that_wants_no_more_is_claimed_no_more",
    ),
    Guard(
        "sharding: a shard is claimed by one",
        "        and shard.status = 100\n        and shard.shard > %(after)s\n",
        "        and shard.shard > %(after)s\n",
        f"{OF_SHARDS}::test_shards_are_claimed_in_order_and_once",
    ),
    Guard(
        "sharding: items are not tried again before their time",
        "        and shard.shard > %(after)s\n        and {shard_is_ready}\n",
        "        and shard.shard > %(after)s\n",
        f"{OF_SHARDS}::test_items_to_be_tried_again_are_a_shard_of_their_own",
    ),
    Guard(
        "sharding: a shard that was dealt to a worker is claimed by no other",
        """        and (shard.owner is null or shard.owner = %(hostname)s)
    order by shard.shard
    limit 1
""",
        "    order by shard.shard\n    limit 1\n",
        f"{OF_SHARDS}::test_a_shard_that_was_dealt_to_a_worker_is_claimed_by_it",
    ),
    Guard(
        "sharding: a shard over which a process died is claimed alone",
        "    limit (select (%(most)s - 1) * (first.deaths = 0)::integer from first)\n",
        "    limit %(most)s - 1\n",
        f"{OF_SHARDS}::test_a_shard_over_which_a_process_died_comes_alone",
    ),
    Guard(
        "sharding: a shard over which a process died is claimed with no other",
        "        and shard.deaths = 0\n",
        "",
        f"{OF_SHARDS}::test_a_suspect_between_others_waits_for_its_turn",
    ),
    Guard(
        "sharding: what may have killed a process is still known at the next claim",
        "case when shard.deaths = 0 then shard.cursor else shard.ahead end",
        "shard.cursor",
        f"{OF_SHARDS}::test_a_shard_over_which_a_process_died_comes_alone",
    ),
    # Writes
    Guard(
        "sharding: whoever was followed writes nothing",
        "    where {held_ticket}\n    returning ticket.job, ticket.hostname",
        "    where ticket.job = %(job)s and ticket.ticket = %(ticket)s"
        " and ticket.state = 'held'\n"
        "    returning ticket.job, ticket.hostname",
        f"{OF_TICKETS}::test_a_ticket_that_is_handed_on_is_the_next_ones",
    ),
    Guard(
        "sharding: whoever let its ticket go writes nothing",
        "    where {held_ticket}\n    returning ticket.job, ticket.hostname",
        "    where ticket.job = %(job)s and ticket.ticket = %(ticket)s"
        " and ticket.seq = %(seq)s\n    returning ticket.job, ticket.hostname",
        f"{OF_TICKETS}::test_a_ticket_that_is_handed_on_is_the_next_ones",
    ),
    Guard(
        "sharding: a write is to shards that this hold has claimed",
        "        and shard.epoch = %(seq)s\n",
        "",
        f"{RACES}::test_what_a_late_claim_of_who_has_let_go_took_is_found",
    ),
    Guard(
        "sharding: a write is to shards of this ticket",
        "        and shard.ticket = %(ticket)s\n",
        "",
        f"{OF_SHARDS}::test_a_shard_of_another_ticket_is_not_written",
    ),
    Guard(
        "sharding: a shard that has ended is written no more",
        "        and shard.status in (201, 202)\n    returning shard.job",
        "    returning shard.job",
        f"{OF_SHARDS}::test_a_write_that_is_repeated_counts_once",
    ),
    Guard(
        "sharding: a repeated write stores its results once",
        """    on conflict (job, shard, at) do update
    set body = excluded.body
    where result.at = -1
""",
        "",
        f"{OF_SHARDS}::test_a_write_that_is_repeated_counts_once",
    ),
    Guard(
        "sharding: a repeated write leaves what it stored as it was",
        "    where result.at = -1\n",
        "",
        f"{OF_SHARDS}::test_results_that_were_stored_at_a_cursor_stay",
    ),
    Guard(
        "sharding: a repeated write has lost nothing",
        "           where not coalesce(given.repeated, false)\n"
        "               and not exists",
        "           where not exists",
        f"{OF_SHARDS}::test_a_write_that_is_repeated_counts_once",
    ),
    Guard(
        "sharding: what was made good is no error any more",
        "    where wrote.shard = input.step\n",
        "    where false and wrote.shard = input.step\n",
        f"{OF_SHARDS}::test_items_to_be_tried_again_are_a_shard_of_their_own",
    ),
    Guard(
        "sharding: items to be tried again keep their layer open",
        "open = layer.open - sums.closed + sums.retried,",
        "open = layer.open - sums.closed,",
        f"{OF_SHARDS}::test_items_to_be_tried_again_are_a_shard_of_their_own",
    ),
    Guard(
        "sharding: deaths count from the last item that ended",
        "deaths = case when given.cursor > shard.cursor then 0 else shard.deaths end",
        "deaths = shard.deaths",
        f"{OF_SHARDS}::test_a_suspect_between_others_waits_for_its_turn",
    ),
    # Submitting and planning
    Guard(
        "sharding: nobody follows a job that was decided",
        "        and leader.stage not in ('delivering', 'ended')\n",
        "",
        f"{OF_SUBMISSIONS}::test_who_follows_waits_for_whoever_decides",
    ),
    Guard(
        "sharding: a job that was begun is not withdrawn",
        " and job.stage = 'submitted' and job.epoch = 0\n",
        "\n",
        f"{OF_SUBMISSIONS}::test_a_call_that_was_begun_or_is_followed_stays",
    ),
    Guard(
        "sharding: a job that is followed is not withdrawn",
        "where other.follows = job.job\n",
        "where false\n",
        f"{OF_SUBMISSIONS}::test_a_call_that_was_begun_or_is_followed_stays",
    ),
    Guard(
        "sharding: a message that comes late does not change what follows",
        "\n        and job.stage = 'submitted'\n        and job.continuation <>",
        "\n        and job.continuation <>",
        f"{OF_SUBMISSIONS}::test_a_message_that_comes_late_changes_nothing",
    ),
    Guard(
        "sharding: one plans at a time",
        " and job.leased_until <= clock.now)\n",
        ")\n",
        f"{OF_PLANS}::test_one_plans_at_a_time",
    ),
    Guard(
        "sharding: a planner that was followed has no lease",
        "    and job.epoch = %(epoch)s\n    and job.stage = any(%(stages)s::text[])\n\n"
        "/* celery_sharding:free_stage */",
        "    and job.stage = any(%(stages)s::text[])\n\n"
        "/* celery_sharding:free_stage */",
        f"{OF_PLANS}::test_a_planner_that_is_heard_no_more_is_followed_by_another",
    ),
    Guard(
        "sharding: a planner that was followed writes nothing",
        "    where job.job = %(job)s and job.epoch = %(epoch)s and job.stage",
        "    where job.job = %(job)s and job.stage",
        f"{OF_PLANS}::test_a_planner_that_is_followed_while_it_writes_writes_nothing",
    ),
    Guard(
        "sharding: a job that was cancelled is not planned",
        " and job.stage = 'planning'\n    returning",
        "\n    returning",
        f"{OF_PLANS}::test_a_job_that_was_cancelled_meanwhile_stays_so",
    ),
    Guard(
        "sharding: what kills its process in PreProcess is not begun without end",
        "    if turn.attempts > BEGUN:\n",
        "    if False:\n",
        f"{PLANNING}::test_what_kills_its_process_is_begun_three_times",
        within="celery_sharding/stages/planning.py",
    ),
    Guard(
        "sharding: the lease is kept while PreProcess runs",
        "Spool(PLAN_BYTES) as spool, renewal:",
        "Spool(PLAN_BYTES) as spool:",
        f"{PLANNING}::test_the_lease_is_kept_while_pre_process_runs",
    ),
    Guard(
        "sharding: a planner that was followed fails nothing",
        "ledger.plans.renew(turn, turn.lease) and ",
        "",
        f"{PLANNING}::test_who_was_followed_meanwhile_fails_nothing",
    ),
    # What is cut covers all, once
    Guard(
        "sharding: every item is in one shard",
        "        start += count\n",
        "        start += count - 1\n",
        f"{PLAN}::test_every_item_of_a_list_is_in_one_shard",
    ),
    Guard(
        "sharding: every item of an iterator is in one shard",
        "            del held[: measure.most]\n",
        "            del held[: measure.most + 1]\n",
        f"{PLAN}::test_every_item_of_an_iterator_is_in_one_shard",
    ),
    Guard(
        "sharding: shards are balanced within one",
        "[each + 1] * over + [each] * (parts - over)",
        "[each] * (parts - 1) + [each + over]",
        f"{PLAN}::test_sizes",
    ),
    Guard(
        "sharding: items that wait for one another in a circle are refused",
        "    if left:\n",
        "    if False:\n",
        f"{LAYERS}::test_a_cycle_is_named",
        within="celery_sharding/layers.py",
    ),
    Guard(
        "sharding: rows that are no more are missed",
        'if len(rows) != part["count"]:',
        "if False:",
        f"{QUERY}::test_rows_that_are_no_more_are_missed_where_keys_are_not_known",
    ),
    Guard(
        "sharding: a query changes nothing in the database that it reads",
        "connection.read_only = True",
        "pass",
        f"{QUERY}::test_a_query_that_cannot_be_cut_is_refused",
        within="celery_sharding/sources/query.py",
    ),
    # Which item killed
    Guard(
        "sharding: two deaths are nobody's fault",
        "    if deaths < DEATHS:\n",
        "    if deaths < 1:\n",
        f"{WINDOW}::test_before_the_third_death_nobody_is_blamed",
    ),
    Guard(
        "sharding: of suspects a part is begun at a time",
        "self.limit = until if not deaths or accused_with_others else cursor",
        "self.limit = until",
        f"{WINDOW}::test_killers_are_found_and_nobody_else",
    ),
    Guard(
        "sharding: who cannot read its items is blamed as a whole",
        "return WHOLE if suspects > left else None",
        "return None",
        f"{WINDOW}::test_a_shard_that_cannot_be_read_is_blamed_as_a_whole",
    ),
    Guard(
        "sharding: a suspect is written down before it is begun",
        "due = self.at >= self.window.limit or now >= self.writer.due",
        "due = now >= self.writer.due",
        f"{SUSPECTS}::test_a_suspect_is_written_down_before_it_is_begun",
    ),
    Guard(
        "sharding: an item that killed three processes is not run again",
        "        if guilty is None:\n",
        "        if True:\n",
        f"{SUSPECTS}::test_who_is_guilty_of_deaths_is_recorded_and_not_run",
    ),
    # Running
    Guard(
        "sharding: a holder whose lease is over writes nothing, by its own clock",
        "                if self._trust.closed(sent):\n",
        "                if False:\n",
        f"{PASSING_ON}::test_a_holder_whose_lease_is_over_writes_nothing",
    ),
    Guard(
        "sharding: a shard stops when its job is paused",
        "        elif reply.paused:\n",
        "        elif False:\n",
        f"{WORK}::test_a_running_shard_hears_at_its_next_item",
    ),
    Guard(
        "sharding: a shard stops when its job is cancelled",
        "        if reply.stage is not Stage.SHARDING:\n",
        "        if False:\n",
        f"{WORK}::test_a_running_shard_hears_at_its_next_item",
    ),
    Guard(
        "sharding: a shard stops when its ticket is above the concurrency",
        "        elif self.hold.ticket > reply.concurrency:\n",
        "        elif False:\n",
        f"{WORK}::test_a_running_shard_hears_at_its_next_item",
    ),
    Guard(
        "sharding: shards behind a slow one are free for others",
        "        if self._behind and over:\n",
        "        if self._behind and self.stop is not None:\n",
        f"{PASSING_ON}::test_shards_that_wait_behind_a_slow_one_are_given_back",
    ),
    Guard(
        "sharding: a gate that is closed lets no shard begin",
        "    return None if passes else retry_in\n",
        "    return None\n",
        f"{PASSING_ON}::test_a_closed_gate_lays_the_ticket_down",
    ),
    Guard(
        "sharding: what a dead holder was to try again is tried again",
        "            retry=retry if _ended_in_failed_call(record) else (),\n",
        "",
        f"{WORK}::test_what_a_dead_holder_was_to_try_again_is_tried_again",
    ),
    Guard(
        "sharding: results of an item that failed do not count",
        "            results.pop()\n",
        "            return\n",
        f"{FAILING}::test_what_is_raised_is_the_failure_of_the_item_in_hand",
    ),
    Guard(
        "sharding: what is raised outside of items undoes what is not confirmed",
        "            shard_run.take_back(error, code, further=further)\n",
        "",
        OUTSIDE,
    ),
    Guard(
        "sharding: what is undone does not count as done, though it was written so",
        "            self._done -= self._cursor - cursor\n",
        "",
        f"{OUTSIDE}::test_all_items_of_the_call_have_failed",
    ),
    Guard(
        "sharding: items without a result are not confirmed by one that follows",
        """            self._failed(index, error, code)
        self.buffer.rewind(end)
""",
        """            pass
        self.buffer.rewind(end)
""",
        f"{OUTSIDE}::test_what_ok_confirmed_stays_done",
    ),
    Guard(
        "sharding: a value that belongs to no item confirms none",
        "            self._buffer.drop_beyond(self._whole_from)\n",
        "            pass\n",
        f"{OUTSIDE}::test_what_ok_confirmed_stays_done",
    ),
    Guard(
        "sharding: items that are collected end when their call returns",
        "            self.collect()\n",
        "            pass\n",
        f"{OUTSIDE}::test_items_that_are_collected_end_together",
    ),
    Guard(
        "sharding: work that hangs with no item in hand is undone",
        "            self.take_back(HANGS, Code.TIMED_OUT)\n",
        "            pass\n",
        f"{REAL}/runner/test_outside_of_items.py",
    ),
    Guard(
        "sharding: in the caller, too, each undone item counts",
        '        failed = counts["failed"] + self.whole\n',
        "        failed = len(self.failures)\n",
        f"{REAL}/canvas/test_eager.py",
    ),
    Guard(
        "sharding: a value that went with a call that raised is had once more",
        "        if self._value_lost(stop):\n",
        "        if stop is Stop.LOST:\n",
        VALUES,
    ),
    Guard(
        "sharding: what is run again for its value leaves no result behind",
        "        and result.shard = wrote.shard\n),\n",
        "        and result.shard = -1\n),\n",
        f"{REAL}/runner/test_values.py",
    ),
    Guard(
        "sharding: the ledger knows which items ended in calls that returned",
        "        returned = given.returned,\n",
        "",
        f"{REAL}/runner/test_values.py",
    ),
    Guard(
        "sharding: items that failed are not run again for a value",
        "            failed=frozenset(place for place, _ in pending),\n",
        "",
        f"{REAL}/runner/test_values.py",
    ),
    Guard(
        "sharding: a row that is deleted after planning stands in its place",
        "    left join (\n",
        "    join (\n",
        f"{QUERY}::test_a_row_that_is_no_more_stands_in_its_place",
        within="celery_sharding/sources/query.py",
    ),
    Guard(
        "sharding: a query is one statement",
        'LIMIT = "\\nlimit %(pecker_limit)s"\n',
        'LIMIT = ""\n',
        f"{QUERY}::test_a_query_is_one_statement_that_only_reads",
    ),
    Guard(
        "sharding: an item has the headers and properties of its job",
        "            **as_called(turn.continuation),\n",
        "",
        f"{REAL}/worker/test_requests.py",
    ),
    Guard(
        "sharding: a parameter that is never passed is refused",
        "        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):\n",
        "        if False:\n",
        f"{REFUSED}::test_a_parameter_that_is_never_passed_is_refused",
    ),
    Guard(
        "sharding: whatever gives keys one by one names several",
        "    if isinstance(value, single) or not isinstance(value, Iterable):\n",
        "    if not isinstance(value, (list, AbstractSet, Iterator)):\n",
        f"{LAYERS}::test_whatever_gives_keys_names_several",
    ),
    Guard(
        "sharding: a key of which there are several rows by now moves no other item",
        """            for key, same in groupby(rows, itemgetter("pecker_key")):
                yield self._listed(key, *same)
""",
        """            for row in rows:
                yield self._listed(row["pecker_key"], row)
""",
        f"{QUERY}::test_a_key_of_which_there_are_several_rows_by_now_fails_alone",
    ),
    Guard(
        "sharding: shards of a query are read by the keys of their plan",
        "else [*read(reference, conf, stored)]\n",
        "else [*read(reference, conf)]\n",
        f"{WORK}::test_a_row_that_is_deleted_after_planning_fails_alone",
    ),
    Guard(
        "sharding: rows of a table are no layers",
        "            _check_rows(data)\n",
        "",
        f"{UNIT}/plan/test_data.py",
    ),
    Guard(
        "sharding: items that a failed shard never reached have failed",
        "            self._failed += len(self.items) - cursor\n",
        "            pass\n",
        FAILING,
    ),
    Guard(
        "sharding: a shard ends at its deadline",
        "return Stop.TIMED_OUT if now >= self.shard_until else None",
        "return None",
        f"{LIMITS}::test_a_shard_that_takes_too_long_ends_timed_out",
    ),
    Guard(
        "sharding: the time of an item is its own",
        "budget.at = until if until < hard else hard  # noqa: FURB136  # a call",
        "pass",
        f"{LIMITS}::test_items_that_are_quick_may_take_longer_together",
    ),
    Guard(
        "sharding: an item that hangs is done without",
        "        if hung_item.due <= now:\n",
        "        if False:\n",
        f"{LIMITS}::test_a_thread_that_hangs_is_done_without",
    ),
    Guard(
        "sharding: shards of a killed child go on at once",
        "            if look:\n",
        "            if False:\n",
        f"{DEATHS}::test_shards_of_a_killed_child_go_on_at_once",
    ),
    Guard(
        "sharding: a pool that cannot be looked at ends no heartbeat",
        """            look = self._failed.call(
                "looking at the pool", False, self._children.look, self._worker.pool
            )
""",
        "            look = self._children.look(self._worker.pool)\n",
        "tests/integration/sharding/worker/test_presence.py",
    ),
    # Layers, outcomes, Post
    Guard(
        "sharding: a layer with a shard that runs is not closed",
        """               and shard.layer = job.layer
               and shard.status in (201, 202)
""",
        "               and false\n",
        f"{OF_OUTCOMES}::test_a_layer_with_an_open_shard_is_not_closed",
        also=(
            """                and shard.layer = job.layer
                and shard.status in (100, 201, 202)
""",
            "                and false\n",
        ),
    ),
    Guard(
        "sharding: no layer is gone back to",
        "        and job.stage = 'sharding'\n        and job.layer = %(layer)s\n",
        "        and job.stage = 'sharding'\n",
        f"{OF_OUTCOMES}::test_what_is_open_is_asked_again_as_a_layer_is_closed",
    ),
    Guard(
        "sharding: what is open is asked again as a layer is closed",
        "                and shard.layer = job.layer\n"
        "                and shard.status in (100, 201, 202)\n",
        "                and false\n",
        f"{OF_OUTCOMES}::test_what_is_open_is_asked_again_as_a_layer_is_closed",
    ),
    Guard(
        "sharding: what is open is asked again as the last layer is closed",
        "        where shard.job = job.job and shard.status in (100, 201, 202)\n",
        "        where false\n",
        f"{OF_OUTCOMES}::test_what_is_open_is_asked_again_as_a_layer_is_closed",
    ),
    Guard(
        "sharding: a job is decided once",
        " and job.stage = any (%(stages)s::text[])",
        "",
        f"{OF_OUTCOMES}::test_a_job_is_decided_once",
        within=OUTCOMES,
    ),
    Guard(
        "sharding: one runs Post at a time",
        "    and (job.leased_until is null or job.leased_until <= clock.now)\n"
        "returning job.job, job.epoch, job.task, job.call",
        "returning job.job, job.epoch, job.task, job.call",
        f"{OF_OUTCOMES}::test_one_posts_at_a_time",
    ),
    Guard(
        "sharding: Post of a paused job waits",
        "    and not job.paused\n",
        "",
        f"{OF_OUTCOMES}::test_post_of_a_paused_job_waits",
        within=OUTCOMES,
    ),
    Guard(
        "sharding: what Post came to counts once",
        "    and job.epoch = %(epoch)s\n    and job.holder = %(holder)s\n",
        "",
        f"{OF_OUTCOMES}::test_one_posts_at_a_time",
    ),
    Guard(
        "sharding: a Post that kills its process is not begun without end",
        "    if turn.attempts > BEGUN:\n",
        "    if False:\n",
        f"{POST}::test_a_post_that_kills_its_process_is_not_begun_without_end",
        within="celery_sharding/stages/__init__.py",
    ),
    Guard(
        "sharding: one tells Celery the outcome at a time",
        "    and (job.leased_until is null or job.leased_until <= clock.now)\n"
        "returning job.job, job.epoch, job.task, job.outcome",
        "returning job.job, job.epoch, job.task, job.outcome",
        f"{OF_OUTCOMES}::test_an_outcome_is_told_by_one_at_a_time",
    ),
    Guard(
        "sharding: a success that Celery could not go on after is told again",
        "        not %(troubled)s\n",
        "        true\n",
        f"{OF_OUTCOMES}::test_a_success_that_celery_made_a_failure_of_is_told_again",
    ),
    Guard(
        "sharding: a message of an earlier run does nothing",
        "    if run != int(headers.get(RUN, 1)):\n",
        "    if False:\n",
        f"{POST}::test_a_job_that_is_run_again_has_a_new_result_and_nothing_follows",
    ),
    Guard(
        "sharding: after a later run nothing follows",
        "dict(continuation) if run == 1 else without_links(continuation)",
        "dict(continuation)",
        f"{GO_ON}::test_a_later_run_has_nothing_to_follow",
    ),
    Guard(
        "sharding: a threshold is told once",
        " and job.notified = %(step)s - 1",
        "",
        f"{OF_OUTCOMES}::test_thresholds_are_told_one_by_one_and_never_back",
    ),
    Guard(
        "sharding: what was not told is told before Post",
        "            notify(app, task_id, waits=NOTIFIES)\n",
        "            pass\n",
        f"{NOTIFY}::test_what_was_not_told_is_told_before_post",
    ),
    # Messages
    Guard(
        "sharding: a message of a job is not sent again at once",
        "    or clock.now - job.sent_at >= greatest(\n",
        "    or true or clock.now - job.sent_at >= greatest(\n",
        f"{OF_OUTCOMES}::test_a_job_message_has_one_sender",
    ),
    Guard(
        "sharding: nobody is sent to where somebody is at work",
        "and (job.leased_until is null or job.leased_until <= clock.now)\n"
        "and (\n    job.sent_at is null\n",
        "and (\n    job.sent_at is null\n",
        f"{OF_OUTCOMES}::test_a_job_message_is_sent_at_once_when_its_worker_died",
    ),
    Guard(
        "sharding: a message does not inherit the deadline of who sends it",
        "with deadline.detached(), app.producer_pool",
        "with app.producer_pool",
        f"{SWEEP}::test_what_is_sent_does_not_inherit_the_senders_deadline",
    ),
    Guard(
        "sharding: a job has no deadline of who calls it",
        "        with deadline.detached():\n",
        "        if True:\n",
        f"{SENDING}::test_a_job_has_no_deadline_of_who_calls_it",
    ),
    Guard(
        "sharding: a broker that is away leaves no job",
        "            undo.push(partial(self._undone, call))\n",
        "            pass\n",
        f"{SENDING}::test_a_broker_that_is_away_leaves_no_job",
    ),
    Guard(
        "sharding: a message that is to wait is not sent again before",
        ", after=wait_of(options)",
        "",
        f"{SENDING}::test_a_message_that_is_to_wait_is_not_sent_again_before",
    ),
    Guard(
        "sharding: a call that an outbox records makes no job before its commit",
        "        if recorded(app, self.name, ",
        "        if False and recorded(app, self.name, ",
        f"{RECORDED}::test_a_job_in_a_block_of_an_outbox_is_part_of_its_transaction",
    ),
    Guard(
        "sharding: a Source in a message is read only if the ledger lists it",
        '    if at(app, role="caller").submissions.is_listed(_ref(task, apart)):\n',
        "    if True:\n",
        "tests/integration/sharding/canvas/test_conformance.py"
        "::test_shape_that_differs[sources_of_unknown_origin-redis-prefork]",
    ),
    Guard(
        "sharding: an outbox lists the Sources of a call",
        "            sources.listed()\n",
        "            pass\n",
        f"{RECORDED}::test_a_job_in_a_block_of_an_outbox_is_part_of_its_transaction",
    ),
    Guard(
        "sharding: options of a call that is not submitted yet travel with it",
        "            ours = {HEADER: sources, OPTIONS: chosen}\n",
        "            ours = {HEADER: sources}\n",
        f"{RECORDED}::test_a_job_in_a_block_of_an_outbox_is_part_of_its_transaction",
    ),
    Guard(
        "sharding: a message whose job is gone makes no other",
        "            if sent_by is None:\n",
        "            if True:\n",
        f"{SENDING}::test_a_message_whose_job_is_gone_makes_no_other",
    ),
    Guard(
        "sharding: no message of a canvas has items",
        '            self["args"] = (inline.put(ledger, items, limit=limit), *rest)\n',
        "            pass\n",
        f"{CALLS}::test_no_message_of_a_canvas_has_items",
    ),
    Guard(
        "sharding: a second positional argument is refused, not dropped",
        "    elif len(args) > 1 and (",
        "    elif False and (",
        "tests/integration/sharding/canvas/test_refused.py"
        "::test_a_second_positional_argument_is_refused",
    ),
    Guard(
        "sharding: code that a call would not run is refused",
        "    if kind is not None:\n",
        "    if False:\n",
        f"{REFUSED}::test_code_that_a_call_would_not_run_is_refused",
    ),
    Guard(
        "sharding: items above the limit are refused",
        "    if size > limit:\n",
        "    if False:\n",
        f"{REFUSED}::test_items_above_the_limit_are_refused_with_their_size",
        within="celery_sharding/canvas/inline.py",
    ),
    Guard(
        "sharding: jobs under Django can be called on commit",
        "        **_on_commit(app),\n",
        "",
        f"{REAL}/canvas/test_django.py",
    ),
    # Calls of any task
    Guard(
        "sharding: self.retry of a called task is another attempt at the item",
        "            self._retry(error, args)\n",
        "            raise error\n",
        f"{EAGER}::test_shape[a_task_that_asks_for_retries]",
    ),
    Guard(
        "sharding: what asks to be tried again is, whatever the policy",
        "        return asked or (",
        "        return (",
        f"{FAILING}::test_what_asks_for_it_is_tried_again_whatever_the_policy",
    ),
    Guard(
        "sharding: a called task that fails an item fails the job",
        '"on_error": Isolate(max_failed=0)',
        '"on_error": Isolate()',
        f"{EAGER}::test_shape[a_task_that_fails]",
    ),
    Guard(
        "sharding: self.replace of a called task is refused",
        "        if task.request.get(ITEM):\n",
        "        if False:\n",
        f"{EAGER}::test_shape[an_item_that_is_replaced]",
    ),
    Guard(
        "sharding: items that come second are refused",
        "    elif len(args) > 1 and (",
        "    elif False and (",
        f"{EAGER}::test_shape[items_that_come_second]",
    ),
    Guard(
        "sharding: an iterator's items are there for a second call",
        "            self._read += part\n",
        "            yield from part\n",
        f"{EAGER}::test_shape[an_iterator_that_is_called_twice]",
    ),
    # A call whose answer was lost
    Guard(
        "sharding: a call whose answer was lost is asked for again",
        "TRIES = 2\n",
        "TRIES = 1\n",
        f"{UNKNOWN}::test_an_answer_that_is_lost_once_is_asked_for_again",
    ),
    Guard(
        "sharding: a call that may run is called unknown",
        "                asked = asked or error.asked\n",
        "",
        f"{UNKNOWN}::test_a_job_that_may_stand_is_called_unknown_and_can_be_called_again",
    ),
    Guard(
        "sharding: a job that stands whatever is withdrawn is the sweeper's to send",
        "fresh=done.fresh and not asked",
        "fresh=done.fresh",
        f"{UNKNOWN}::test_a_job_that_stood_before_its_call_is_sent_by_the_sweeper",
    ),
    # Data is never a Source
    Guard(
        "sharding: no item of a call or of PreProcess is a Source",
        """        if data and all(isinstance(one, (list, Source)) for one in data):
            _check_rows(data)
            yield from data
""",
        """        if data and not any(isinstance(it, int | str) for it in data):
            yield from [from_json(it) if isinstance(it, dict) else it for it in data]
""",
        f"{EAGER}::test_shape[items_that_look_like_sources]",
    ),
    Guard(
        "sharding: no layer that came as JSON is a Source",
        "        yield from _lists(data[MARK])\n",
        "        yield from from_stored(data)\n",
        f"{EAGER}::test_shape[values_that_are_no_items]",
    ),
    Guard(
        "sharding: a Source gets into JSON by no other way than ours",
        "@dataclass(frozen=True, slots=True)\nclass Unreadable:",
        "Source.__json__ = lambda self: {MARK: self.kind, **self.as_json()}\n\n\n"
        "@dataclass(frozen=True, slots=True)\nclass Unreadable:",
        f"{UNIT}/plan/test_data.py::test_a_source_travels_as_json",
    ),
    Guard(
        "sharding: a call whose Source was lost is refused",
        "    arguments.check(args, kwargs)\n",
        "",
        f"{EAGER}::test_shape[a_source_and_headers]",
    ),
    # The purge, and readings
    Guard(
        "sharding: a leader is kept for who follows it",
        "            where other.follows = job.job and other.stage <> 'ended'\n",
        "            where false\n",
        f"{SWEEP}::test_a_leader_is_kept_for_who_follows_it",
    ),
    Guard(
        "sharding: items that a job has yet to read are kept",
        "                and job.stage in ('submitted', 'planning')\n"
        "                and job.submitted_at <= old.at\n",
        "                and false\n",
        f"{SWEEP}::test_items_of_a_job_that_waits_for_long_are_kept",
    ),
    Guard(
        "sharding: a job that is half gone does not run again",
        "        and job.holder is null\n",
        "",
        f"{FORGETTING}::test_a_job_that_is_half_gone_does_not_run_again",
    ),
    Guard(
        "sharding: the purge passes over a job that begins to run again",
        "    for update of job skip locked\n",
        "",
        f"{FORGETTING}::test_a_job_that_runs_is_not_chosen",
    ),
    Guard(
        "sharding: a child does not talk on its parent's connection",
        "    if _own.process != os.getpid():\n",
        "    if False:\n",
        f"{LEDGER}/test_per_thread.py::test_a_fork_has_a_connection_of_its_own",
    ),
    Guard(
        "sharding: progress of a follower is that of its leader",
        "coalesce(lead.job, own.job) as job",
        "own.job as job",
        f"{REAL}/reading/test_reading.py::test_progress_of_a_follower_is_that_of_its_leader",
    ),
    Guard(
        "sharding: a list does not look at all shards for each job that has ended",
        "where layer.job = listed.job and layer.open > 0",
        "where layer.job = listed.job",
        "tests/plans/test_sharding_uses_its_indexes.py"
        "::test_a_list_looks_at_the_shards_of_a_large_job_once",
    ),
    # Placement
    Guard(
        "sharding: what is left over goes by parity",
        "upward = len(numbers) % 2 == 1",
        "upward = True",
        f"{UNIT}/plan/test_placement.py::test_what_is_left_over_goes_by_parity",
    ),
    Guard(
        "sharding: a silent worker keeps its shards where nobody else was heard",
        "else not exists (select from known as other where other.witness)\n",
        "else false\n",
        f"{ORPHANS}::test_silence_counts_only_where_another_was_heard",
    ),
    Guard(
        "sharding: who just began to speak is no witness",
        "executor.seen_at > past.moment and executor.started_at <= past.moment",
        "executor.seen_at > past.moment",
        f"{ORPHANS}::test_silence_counts_only_where_another_was_heard",
    ),
    Guard(
        "sharding: a shard that has ended is not dealt anew",
        """    and shard.shard = dealt.shard
    and (shard.status = 100 or shard.status in (201, 202))
""",
        "    and shard.shard = dealt.shard\n",
        f"{ORPHANS}::test_who_holds_an_orphan_may_end_it",
    ),
    Guard(
        "sharding: a ticket for a worker that is gone is sent to another",
        "                   or ticket.hostname in (select reach.hostname from reach)\n",
        "                   or true\n",
        f"{OWNED}::test_a_ticket_for_a_worker_that_is_gone_is_sent_to_another_at_once",
    ),
    # Messages of jobs in a worker
    Guard(
        "sharding: no message is held while Post runs",
        "        if self.request_dict.get(SENT_BY) in STORED:\n",
        "        if False:\n",
        MESSAGES,
    ),
    Guard(
        "sharding: a hard time limit calls errbacks once",
        "        if return_ok or not isinstance(error, TimeLimitExceeded):\n",
        "        if True:\n",
        MESSAGES,
    ),
    Guard(
        "sharding: a SIGTERM in Post is no failure of the job",
        """    if isinstance(error, SystemExit) and error.code in BY_SIGNAL:
        return error
""",
        "",
        f"{POST}::test_a_worker_that_ends_in_post_has_not_failed_the_job",
    ),
    Guard(
        "sharding: what a pool's process runs when it is ended goes on elsewhere",
        "                call_logging_errors(what, self._free, ledger, turn.hold)\n",
        "",
        f"{STOPS}::test_what_runs_when_its_worker_is_ended_runs_elsewhere_at_once",
    ),
    Guard(
        "sharding: an item in hand when its worker is ended is blamed for no death",
        """            if is_cold():
""",
        "            if False:\n",
        f"{STOPS}::test_what_runs_when_its_worker_is_ended_runs_elsewhere_at_once",
    ),
    Guard(
        "sharding: an item that ends its own process by a signal ends no others",
        "            if process_end(error) is not None and executor.stops_soon():\n",
        "            if process_end(error) is not None:\n",
        f"{STOPS}::test_an_item_that_ends_its_process_by_a_signal_does_not_do_so_for_ever",
    ),
    Guard(
        "sharding: a process that was to end ends, whatever its code catches",
        "    if ended_by_signal():\n",
        "    if False:\n",
        f"{STOPS}::test_a_child_that_is_ended_alone_is_replaced",
        within="celery_sharding/runner/tickets.py",
    ),
    Guard(
        "sharding: whatever an item raises is its own failure",
        "    except BaseException as error:  # noqa: BLE001  # whatever it is\n",
        "    except Exception as error:\n",
        f"{STOPS}::test_whatever_an_item_raises_is_its_own_failure",
    ),
    Guard(
        "sharding: what an ended process has not confirmed has not failed",
        "                self._retries.ask(index, error, 0.0)\n",
        "                pass\n",
        f"{REAL}/runner/test_outside_of_items.py"
        "::test_what_an_ended_process_had_not_confirmed_is_run_again",
    ),
    Guard(
        "sharding: a message that is sent again waits and expires as the first one did",
        """        eta=None if begun else fields.get("eta"),
        expires=None if begun else fields.get("expires"),
""",
        "",
        f"{SENT_AGAIN}::test_all_that_the_call_said_is_said_again",
    ),
    Guard(
        "sharding: an eta without a zone is UTC, whatever the zone of the host",
        "        eta = eta.replace(tzinfo=UTC)\n",
        "        eta = eta.astimezone()\n",
        f"{UNIT}/messages/test_continuation_and_route.py"
        "::test_an_eta_without_a_zone_is_utc",
    ),
    Guard(
        "sharding: a job that has begun does not expire",
        "        if expires and SYSTEM.now() > expires and self._begun():\n",
        "        if False:\n",
        f"{SENT_AGAIN}::test_a_copy_that_comes_when_its_job_has_begun_is_not_expired",
    ),
    Guard(
        "sharding: outages of PostgreSQL in Post are no deaths",
        "    if 0 < times <= MOST:\n",
        "    if False:\n",
        f"{POST}::test_outages_of_the_ledger_are_no_deaths",
    ),
    Guard(
        "sharding: what always fails like an outage is not begun without end",
        "    if 0 < times <= MOST:\n",
        "    if times:\n",
        f"{POST}::test_what_always_fails_like_an_outage_is_not_begun_without_end",
    ),
    Guard(
        "sharding: a mistake at one holding leaves the others renewed (I12)",
        'self._failed.call("renewing a hold", True, self._look, ledger, *one)',
        "self._look(ledger, *one)",
        f"{RENEWING}::test_a_mistake_at_one_holding_leaves_the_others_renewed",
    ),
    Guard(
        "sharding: work that begins does not end the pause after a mistake (I12)",
        "threading.Event().wait(RETRY)",
        "with self._changed:\n                    self._changed.wait(RETRY)",
        f"{RENEWING}::test_work_that_begins_does_not_end_the_pause_after_a_mistake",
    ),
    Guard(
        "sharding: a mistake does not end the renewal of a stage (I12)",
        'self._failed.call("renewing a stage", None, self._ask, ledger)',
        "self._ask(ledger)",
        f"{RENEWING}::test_a_mistake_does_not_end_the_renewal_of_a_stage",
    ),
    Guard(
        "sharding: PreProcess of a job that is decided is ended",
        "                over = self._lost.is_set()\n",
        "                over = False\n",
        f"{PLANNING}::test_pre_process_of_a_job_that_is_cancelled_is_ended",
    ),
    Guard(
        "sharding: PreProcess that is ended from outside has not failed",
        "                self.ended = True\n                return\n",
        "                raise\n",
        f"{PLANNING}::test_pre_process_of_a_job_that_is_cancelled_is_ended",
    ),
    Guard(
        "sharding: PreProcess without end lets other greenlets run",
        "                pause(LET)\n",
        "",
        f"{DEATHS}::test_pre_process_without_end_stops_no_greenlet",
    ),
    Guard(
        "sharding: an iterable without end is ended as a generator is",
        "        if isinstance(data, Collection) or not isinstance(data, Iterable):\n",
        "        if not isinstance(data, Iterator):\n",
        f"{PLANNING}::test_an_iterable_without_end_is_looked_at_as_a_generator_is",
    ),
    Guard(
        "sharding: PreProcess of a worker that stops is ended",
        "                    over = over or self.stopping()\n",
        "                    pass\n",
        f"{PLANNING}::test_pre_process_of_a_worker_that_stops_is_for_another",
    ),
    Guard(
        "plan: an endless iterator that is cut by hash is bounded",
        '            self._check(f"{len(self)} items of layer {layer}")\n',
        "",
        "tests/integration/sharding/stages/test_planning.py"
        "::test_a_plan_is_no_larger_than_it_may_be",
    ),
    Guard(
        "sharding: PreProcess fills no disk",
        "        if self._file.tell() > self.limit:\n",
        "        if self._file.tell() > 100 * self.limit:\n",
        "tests/unit/sharding/test_spool.py",
    ),
    Guard(
        "plan: shards that are dealt to workers are bounded",
        "    with Spool(limit) as spool:\n",
        "    with Spool(100 * limit) as spool:\n",
        "tests/unit/sharding/plan/test_placement.py",
    ),
    Guard(
        "sharding: the ledger answers where the result backend has nothing",
        "        if decided is None or decided.stage is not Stage.ENDED:\n",
        "        if True:\n",
        f"{RESULTS}::test_the_ledger_answers_where_the_backend_has_nothing",
    ),
    Guard(
        "sharding: a job that ends between two looks has its result",
        '            "task_id": self._named,',
        "           ",
        f"{RESULTS}::test_a_job_that_ends_between_two_looks_has_its_result",
    ),
    Guard(
        "sharding: a job that others rerun is waited for",
        "        if self._repeated or self._rerun():\n",
        "        if self._repeated:\n",
        f"{RESULTS}::test_a_job_that_others_rerun_is_waited_for",
    ),
    Guard(
        "sharding: a value that was read is asked after",
        "        if not super().ready():\n",
        "        if self._cache is not None or not super().ready():\n",
        f"{RESULTS}::test_a_job_that_others_rerun_is_waited_for",
    ),
    Guard(
        "sharding: a rerun that ended between two calls of get has its value read",
        "        return self._stands != self._read\n",
        "        return self._stands != self._read and stands[0] is not Stage.ENDED\n",
        f"{RESULTS}::test_a_job_that_others_rerun_is_waited_for",
    ),
    Guard(
        "sharding: the deadline of a result's reader passes",
        "            raise\n        except PeckerError:\n",
        "            return None\n        except PeckerError:\n",
        f"{RESULTS}::test_a_result_whose_reader_is_struck_leaves_no_statement_behind",
    ),
    Guard(
        "sharding: a result's reader that is struck leaves no statement behind",
        "                self.close()\n",
        "                pass\n",
        f"{RESULTS}::test_a_result_whose_reader_is_struck_leaves_no_statement_behind",
    ),
    Guard(
        "sharding: a result after another run is not that of the run before",
        "            self._drop_buffered()\n            self._get_task_meta()\n",
        "",
        f"{RESULTS}::test_a_result_after_another_run_is_that_runs",
    ),
    Guard(
        "sharding: one process at a time calls Notify, and Post waits for it",
        """        job.notifier is null
        or job.notifier = %(holder)s
""",
        "        true\n",
        f"{NOTIFY}::test_post_waits_for_a_notify_that_another_process_calls",
    ),
    Guard(
        "sharding: a sweep that is struck leaves no statement to the next one",
        "                self.close()\n",
        "                pass\n",
        f"{SWEEP}::test_a_sweep_that_is_struck_leaves_no_statement_behind",
    ),
    Guard(
        "sharding: a process that is a fresh interpreter holds in its worker's name",
        "worker.app.conf.include = (*worker.app.conf.include, SPAWNED)",
        "pass",
        f"{REAL}/worker/test_spawn.py",
        within="celery_sharding/worker/step.py",
    ),
    Guard(
        "sharding: in fresh interpreters every app knows a sharded task",
        'getattr(celerys, "USING_EXECV", None)',
        "False",
        f"{REAL}/worker/test_spawn.py",
    ),
)
