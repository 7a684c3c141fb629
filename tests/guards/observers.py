"""The guards of observers."""

from __future__ import annotations

from tests.guards.guard import Guard

LIVES = "tests/integration/observers/test_lives_in_tables.py"
STEPS_BACK = "tests/integration/observers/test_clocks_and_versions.py"
STARTS = "tests/integration/observers/test_start_and_stop.py"
NOTICES = "tests/integration/observers/test_notices.py"
FULL = "tests/unit/observers/test_no_more_threads.py"
PURE = "tests/unit/observers/test_retry_and_placement.py"
PLANS = "tests/plans/test_observers_use_their_indexes.py"

TRUST = "tests/unit/observers/test_trust.py"
LAPSED = "tests/unit/observers/test_lost_trust.py"
LOOKS = "tests/unit/observers/test_looks.py"
REAL = "tests/integration/observers/test_hosts.py"

GUARDS = (
    Guard(
        "observers: a host trusts its lease for a part of it (I2)",
        "self.trust.renew(sent, TRUSTED * self.plan.lease)",
        "self.trust.renew(sent, self.plan.lease)",
        TRUST,
    ),
    Guard(
        "observers: a host that is asked to end while it is started hears it",
        "        if self._stopping.is_set():  # stop()",
        "        if False:  # whoever",
        f"{FULL}::test_a_stop_while_a_host_is_being_started_reaches_it",
    ),
    Guard(
        "observers: a host that has left does not join once more",
        "        if self._gone:",
        "        if False:",
        f"{TRUST}::test_a_host_that_has_left_does_not_join_once_more",
    ),
    Guard(
        "observers: an awaited guard refuses an overtaken life",
        "        if not held:\n",
        "        if held is None:\n",
        f"{LIVES}::test_an_awaited_guard_refuses_an_overtaken_life",
        within="celery_pecker/observers/lease.py",
    ),
    Guard(
        "observers: history is bounded",
        "            select max(id) - %(keep)s from",
        "            select min(id) - 1 - %(keep)s from",
        f"{LIVES}::test_history_is_bounded",
    ),
    Guard(
        "observers: who has no unbroken lease buries nobody",
        "        and (me.since <= clock.now - me.ttl\n",
        "        and (true\n",
        f"{LIVES}::test_after_an_outage_nobody_buries_anybody",
    ),
    Guard(
        "observers: a dead host does not renew its lease",
        "    where n.node = %(node)s::uuid and n.state <> 'dead'\n"
        "    returning n.state, n.since,",
        "    where n.node = %(node)s::uuid\n    returning n.state, n.since,",
        f"{LIVES}::test_who_was_buried_learns_it",
    ),
    Guard(
        "observers: a host buries without a witness only who has its name",
        "                and n.name = me.name and n.leased_until - n.ttl <",
        "                and n.leased_until - n.ttl <",
        f"{LIVES}::test_a_host_follows_the_life_of_its_own_name",
    ),
    Guard(
        "observers: a host buries without a witness only who was before it",
        "n.name = me.name and n.leased_until - n.ttl < me.started_at)",
        "n.name = me.name)",
        f"{LIVES}::test_of_two_hosts_of_one_name_none_buries_the_other",
    ),
    Guard(
        "observers: a guard names its epoch",
        "        and o.epoch = %(epoch)s::bigint\n",
        "        and o.epoch >= %(epoch)s::bigint\n",
        f"{LIVES}::test_what_a_host_does_not_run_any_more_begins_anew",
    ),
    Guard(
        "observers: a guard names its host",
        "        and o.node::text = %(node)s::text\n        and (select",
        "        and (select",
        f"{LIVES}::test_of_two_lives_only_the_newer_one_writes",
    ),
    Guard(
        "observers: a guard locks the row",
        "    for share of o\n",
        "",
        f"{LIVES}::test_no_life_begins_while_a_guard_is_held",
    ),
    Guard(
        "observers: a report names its epoch",
        "    where o.id = r.id and mine.id = r.id and mine.epoch = r.epoch\n",
        "    where o.id = r.id and mine.id = r.id\n",
        f"{LIVES}::test_a_report_of_an_overtaken_life_changes_nothing",
        also=(
            (
                "    where o.id = any (array(select id from reports))"
                " and o.node = %(node)s::uuid\n"
            ),
            "    where o.id = any (array(select id from reports))\n",
        ),
    ),
    Guard(
        "observers: what was asked to end does not begin anew",
        "            when r.report in ('returned', 'stopped') or o.status ="
        " 'on_deleting'\n",
        "            when r.report in ('returned', 'stopped')\n",
        LIVES,
    ),
    Guard(
        "observers: a stop between two hosts is obeyed",
        "        status = case o.status when 'on_deleting' then 'deleted'"
        " else o.status end,\n",
        "        status = o.status,\n",
        f"{LIVES}::test_a_stop_that_arrives_between_two_hosts_is_obeyed",
    ),
    Guard(
        "observers: under a long lease a host that settles looks soon",
        "        look = min(placement.SETTLING, self.plan.look) if settles else"
        " self.plan.look\n",
        "        look = self.plan.look\n",
        f"{LOOKS}::test_a_host_that_waits_for_others_to_join_looks_soon",
    ),
    Guard(
        "observers: after a step back only what failed waits on its host",
        "       case when o.failures = 0 then 0\n            else ",
        "       case when false then 0\n            else ",
        f"{STEPS_BACK}::test_a_clock_that_stepped_back_keeps_nobody_waiting",
    ),
    Guard(
        "observers: after a step back what a dead host held is taken",
        "        not_before = case when o.failures = 0 then least(o.not_before,",
        "        not_before = case when false then least(o.not_before,",
        f"{STEPS_BACK}::test_a_clock_that_stepped_back_keeps_nobody_waiting",
    ),
    Guard(
        "observers: after a step back what was handed over is taken",
        "                case when o.failures = 0 then clock.now\n",
        "                case when false then clock.now\n",
        f"{STEPS_BACK}::test_one_that_was_handed_over_after_a_step_is_taken",
    ),
    Guard(
        "observers: after a step back what waits is taken",
        "            and w.modified_at > (select now from clock)\n",
        "            and false\n",
        f"{STEPS_BACK}::test_one_that_waits_while_the_clock_steps_back_is_taken",
    ),
    Guard(
        "observers: a lease of before a step back is cut",
        "    set leased_until = clock.now + n.ttl\n    from ahead, clock\n",
        "    set leased_until = n.leased_until\n    from ahead, clock\n",
        f"{STEPS_BACK}::test_a_clock_that_stepped_back_keeps_nobody_waiting",
    ),
    Guard(
        "observers: after a step back some thousand at a time are set right (I9)",
        "            and w.modified_at > (select now from clock)\n"
        "        limit %(most)s\n        for update skip locked\n",
        "            and w.modified_at > (select now from clock)\n",
        f"{STEPS_BACK}::test_after_a_step_back_some_at_a_time_are_set_right",
    ),
    Guard(
        "observers: a standby that lost the last grant gives none twice (I3)",
        "        epoch = greatest(o.epoch + 1, {us(clock.now)}),\n        moves",
        "        epoch = o.epoch + 1,\n        moves",
        f"{STEPS_BACK}::test_a_standby_that_lost_the_last_grant_gives_none_twice",
    ),
    Guard(
        "observers: lives begin one after another",
        "            wait = max(number * apart, life.claimed.delay)\n",
        "            wait = life.claimed.delay\n",
        "tests/unit/observers/test_spread.py",
    ),
    Guard(
        "observers: a claim locks no more than it may take of all kinds (I9)",
        "    order by o.not_before\n    limit least(%(most)s, %(room)s)\n"
        "    for update of o skip locked\n",
        "    order by o.not_before\n    for update of o skip locked\n",
        f"{PLANS}::test_a_claim_walks_no_more_of_a_kind_than_it_may_take",
    ),
    Guard(
        "observers: a claim walks no more of a kind than it may take",
        "        order by w.not_before\n"
        "        limit greatest(100, 4 * least(%(most)s, %(room)s))\n",
        "",
        f"{PLANS}::test_a_claim_walks_no_more_of_a_kind_than_it_may_take",
    ),
    Guard(
        "observers: hosts that claim at once find others",
        "        limit greatest(100, 4 * least(%(most)s, %(room)s))\n    ) as one\n"
        "    order by one.not_before\n"
        "    limit greatest(100, 4 * least(%(most)s, %(room)s))\n",
        "        limit least(%(most)s, %(room)s)\n    ) as one\n"
        "    order by one.not_before\n    limit least(%(most)s, %(room)s)\n",
        f"{LIVES}::test_a_claim_passes_by_what_another_host_takes",
    ),
    Guard(
        "observers: a host that is not alive takes nothing",
        "            and exists (select from alive)\n",
        "",
        f"{LIVES}::test_a_host_that_may_not_takes_nothing",
    ),
    Guard(
        "observers: a claim keeps to the room",
        "    where total <= %(room)s\n",
        "",
        f"{LIVES}::test_a_claim_takes_no_more_than_there_is_room_for",
    ),
    Guard(
        "observers: what waits takes its room before it runs",
        "(select sum(free) from hosts) - waiting.weight >=",
        "(select sum(free) from hosts) >=",
        f"{STARTS}::test_where_nobody_has_room_it_waits_or_is_refused",
    ),
    Guard(
        "observers: a host leaves the others their share",
        "    return max(min(free, most), 0)\n",
        "    return max(free, 0)\n",
        f"{PURE}::test_the_first_host_that_looks_leaves_the_others_their_share",
    ),
    Guard(
        "observers: what the dead held is found in the order of the index",
        "    order by o.node\n",
        "",
        f"{PLANS}::test_what_the_dead_held_is_found_by_their_ids",
    ),
    Guard(
        "observers: hosts that start wait for the others",
        "            now - self._newest < SETTLING\n            and waiting",
        "            waiting < 0\n            and waiting",
        f"{PURE}::test_after_a_cold_start_nothing_moves_again",
    ),
    Guard(
        "observers: what others take is not left by them",
        "        if not self._count or count < self._count or self.settling",
        "        if not self._count or self.settling",
        f"{PURE}::test_what_others_take_is_not_left_by_them",
    ),
    Guard(
        "observers: of two hosts with one notice, one asks the outbox",
        "            if gone:  # this was slow, and another host has sent it\n"
        "                return\n",
        "",
        f"{NOTICES}::test_of_two_hosts_with_one_notice_one_asks_the_outbox",
    ),
    Guard(
        "observers: the wait of a broken notice does not overflow",
        "least(30 * 2 ^ least(n.tries, 10), 3600)",
        "least(30 * 2 ^ n.tries, 3600)",
        f"{NOTICES}::test_one_that_was_tried_for_months_holds_no_other_up",
    ),
    Guard(
        "observers: a restart outlives the report of a failure",
        "        restart = case when r.report = 'failed' then o.restart end,\n",
        "        restart = null,\n",
        f"{LIVES}::test_a_restart_is_not_lost_to_a_report_on_its_way",
    ),
    Guard(
        "observers: what moves between two tries waits for the next",
        "                     else greatest(o.not_before, clock.now) end\n",
        "                     else clock.now end\n",
        f"{LIVES}::test_one_that_moves_between_two_tries_waits_for_the_next",
    ),
    Guard(
        "observers: what no host takes does not hold up the rest",
        "any(one.age <= LEFT_OVER for one in survey.waiting)",
        "any(survey.waiting)",
        f"{PURE}::test_what_no_host_takes_does_not_keep_the_others_where_they_are",
    ),
    Guard(
        "observers: what cannot begin has failed",
        "        error = user_code.tried(self._run, life)[1]\n",
        "        error: Exception | None = None\n        self._run(life)\n",
        f"{FULL}::test_what_cannot_begin_has_failed_and_the_next_begins",
    ),
    Guard(
        "observers: a host that cannot be started is tried again",
        "                except OSError as error:  # no more processes or files\n",
        "                except KeyError as error:\n",
        f"{FULL}::test_a_host_that_cannot_be_started_is_tried_again",
    ),
    Guard(
        "observers: what fails is tried as often as its policy says, then parked",
        "        if self.times is not None and failures > self.times:\n",
        "        if self.times is None and failures > LONGEST:\n",
        f"{REAL}::test_what_fails_is_tried_again_in_place_and_then_parked",
    ),
    Guard(
        "observers: what fails keeps its host",
        "            when r.report in ('again', 'failed') and o.status <>"
        " 'on_deleting' then o.node\n",
        "            when r.report = 'again' and o.status <> 'on_deleting'"
        " then o.node\n",
        f"{LIVES}::test_what_failed_stays_where_it_is",
    ),
    Guard(
        "observers: a long life forgives its failures",
        "        return 1 if was_well else before + 1\n",
        "        return before + 1\n",
        PURE,
    ),
    Guard(
        "observers: a host whose event loop hangs does not renew",
        "        if self.blocked or self._gave_up:\n",
        "        if self._gave_up:\n",
        f"{LOOKS}::test_a_host_whose_event_loop_hangs_does_not_renew",
    ),
    Guard(
        "observers: a host whose event loop hangs does not beat",
        "        if not host.blocked:\n",
        "        if host is not None:\n",
        f"{REAL}::test_a_lone_host_that_a_callback_blocks_is_replaced",
    ),
    Guard(
        "observers: a plain function may have a process of its own",
        "        if life.observer.options.isolation is Isolation.PROCESS:\n",
        "        if life.observer.options.isolation is None:\n",
        f"{REAL}::test_a_process_of_its_own_goes_on_from_its_cursor",
    ),
    Guard(
        "observers: a process of its own that ends without trust is not deleted",
        "self._lease.lapse()\n",
        "pass\n",
        "tests/integration/observers/test_processes.py",
    ),
    Guard(
        "observers: a lease lost in a process of its own is no failure",
        '    if message["lost"]:\n',
        '    if message["lost"] is None:\n',
        "tests/integration/observers/test_processes.py",
    ),
    Guard(
        "observers: one that exits ends no other",
        "    except (SystemExit, KeyboardInterrupt) as error:\n",
        "    except KeyboardInterrupt as error:\n",
        f"{REAL}::test_one_that_exits_ends_no_other",
    ),
    Guard(
        "observers: what returns without trust is not deleted",
        "            return life.lease.lapsed\n",
        "            return False\n",
        f"{LAPSED}::test_what_returns_without_trust_is_not_deleted",
    ),
    Guard(
        "observers: code that says its lease is lost waits as what failed",
        "        return isinstance(error, LeaseLost) and untrusted\n",
        "        return isinstance(error, LeaseLost)\n",
        f"{LAPSED}::test_what_says_that_a_trusted_lease_is_lost_has_failed",
    ),
    Guard(
        "observers: a drained host that is empty rests",
        "                self._begin(self.tables.retake([], ENDING_AT_ONCE),"
        " spread=True)\n            return self.plan.look\n",
        "                self._begin(self.tables.retake([], ENDING_AT_ONCE),"
        " spread=True)\n",
        f"{LOOKS}::test_a_drained_host_that_is_empty_looks_as_seldom_as_any",
    ),
    Guard(
        "observers: a drained host ends what it holds and does not run",
        "    where n.node = %(node)s::uuid and n.state <> 'dead' and n.leased_until >"
        " clock.now\n",
        "    where n.node = %(node)s::uuid and n.state = 'up' and n.leased_until >"
        " clock.now\n",
        f"{LIVES}::test_a_draining_host_takes_what_it_holds_to_end_it",
    ),
    Guard(
        "observers: a host that leaves ends where its tables are gone",
        "        failed=host.failed,\n",
        "",
        "tests/integration/observers/test_processes.py"
        "::test_a_host_that_leaves_ends_where_its_tables_are_gone",
    ),
)
