"""The guards of throttle: its guarantees are in two pages of docs/explanation.

docs/explanation/throttle-control.md and docs/explanation/throttle-windows.md.
"""

from __future__ import annotations

from tests.guards.guard import Guard

UNIT = "tests/unit/throttle"
REAL = "tests/integration/throttle"
EXCHANGE = f"{UNIT}/test_exchange.py"
ADMISSION = f"{UNIT}/test_admission.py"
METER = f"{UNIT}/meter/test_meter.py"
HOOK = f"{UNIT}/test_worker_hook.py"
OVERFLOW = f"{UNIT}/test_overflow.py"
LIMITS = "tests/integration/history/test_limits.py"
STORE = f"{REAL}/store/test_redis_store.py"
ON_REDIS = f"{REAL}/overflow/test_redis_broker.py"
ON_RABBITMQ = f"{REAL}/overflow/test_amqp_broker.py"

GUARDS = (
    # What is counted
    Guard(
        "throttle: a signal waits for the end of a frame that is read",
        "        reading.enter_context(deferral)\n",
        "",
        f"{UNIT}/test_deferral.py",
    ),
    Guard(
        "throttle: a signal does not wait for a frame that has not begun",
        "        _await_frame(transport)\n",
        "",
        f"{UNIT}/test_deferral.py",
    ),
    Guard(
        "throttle: what a handler of a signal sets is deferred, too",
        "        finally:  # a cold shutdown begins by setting others\n"
        "            self.watch()\n",
        "        finally:\n            pass\n",
        f"{UNIT}/test_deferral.py",
    ),
    Guard(
        "throttle: a handler of a signal may hold what comes",
        '        self._lock = RLock()\n        """Re-entrant for',
        "        self._lock = __import__('threading').Lock()\n"
        '        """Re-entrant for',
        f"{UNIT}/test_deferral.py",
    ),
    Guard(
        "throttle: a handler of a signal may admit what comes",
        "        self._lock = RLock()  # of a",
        "        self._lock = __import__('threading').Lock()  # of a",
        f"{UNIT}/test_deferral.py",
    ),
    Guard(
        "throttle: a handler of a signal may arm the timer",
        "        self._arming = RLock()",
        "        self._arming = __import__('threading').Lock()",
        f"{UNIT}/test_deferral.py",
    ),
    Guard(
        "throttle: a share is never more than the limit",
        "    return min(fields.number(field, value), 1.0)\n",
        "    return fields.number(field, value)\n",
        "tests/unit/throttle/service/test_wire.py",
    ),
    Guard(
        "redis: one client records and acknowledges all messages of a connection",
        "        keep_client(channel)\n",
        "",
        f"{ON_REDIS}::test_the_guard_on_redis_makes_one_client_for_all_messages",
    ),
    Guard(
        "redis: the client of a pool that is gone is not kept",
        "client = kept.get(pool)",
        "client = next(iter(kept.values()), None)",
        f"{ON_REDIS}::test_the_guard_on_redis_makes_one_client_for_all_messages",
    ),
    Guard(
        "throttle: a statement is told once",
        "            seen[at + OPERATIONS] += operations\n",
        "",
        f"{METER}::test_what_was_counted_is_told_once",
    ),
    Guard(
        "throttle: what a killed child left open is not its successor's",
        "                mine[at + STARTED] = 0\n",
        "                pass\n",
        f"{METER}::test_a_child_that_takes_over_a_row_goes_on_counting",
    ),
    Guard(
        "throttle: what finds no place is counted as dropped",
        "        sums.drop(dropped - self._dropped_reported)\n",
        "",
        f"{METER}::test_threads_beyond_the_lanes_are_dropped_and_counted",
    ),
    Guard(
        "throttle: runs larger than a second of the share start in turns",
        "        if not wait and large:\n",
        "        if False:\n",
        f"{ADMISSION}::test_a_run_larger_than_a_second_of_the_share_waits_for_its_turn",
    ),
    Guard(
        "throttle: a turn that was not used in time is the next worker's",
        "        if now - self._turn <= TRUSTED:\n",
        "        if self._turn > 0:\n",
        f"{ADMISSION}::test_a_turn_is_used_soon_or_not_at_all",
    ),
    Guard(
        "throttle: turns come at the pace at which the limit pays for them",
        "    if now < free and free <= now + LONGEST then return 0 end\n",
        "",
        f"{STORE}::test_large_runs_start_one_after_another",
    ),
    Guard(
        "throttle: what waited for turns does not start at one moment without them",
        "    return (now + phase * period) % period < START\n",
        "    return True\n",
        f"{ADMISSION}::test_while_the_store_is_away_large_runs_do_not_start_together",
    ),
    Guard(
        "throttle: revocations are seen though Celery forgets as many",
        "            full and not self._suspects",
        "            False and not self._suspects",
        f"{UNIT}/test_worker_parts.py"
        "::test_revocations_are_seen_when_celery_forgets_as_many",
    ),
    Guard(
        "throttle: the loop is woken when something has opened, and only then",
        "        if self._accounts.opened() and self.held and",
        "        if self.held and",
        f"{HOOK}::test_the_loop_is_left_alone_when_nothing_has_opened",
    ),
    Guard(
        "throttle: a limit that a person set ends by itself",
        "            if now < lowered[3] then\n",
        "            if true then\n",
        f"{STORE}::test_a_person_sets_a_limit_for_a_while",
    ),
    Guard(
        "throttle: what tasks cost outlives the worker that learned it",
        "            self._costs.recall(database, known)\n",
        "",
        f"{ADMISSION}::test_what_tasks_cost_outlives_a_worker",
    ),
    Guard(
        "throttle: what was dropped is told once, whatever databases there are",
        "        last.update(counts)\n",
        "",
        f"{UNIT}/test_metrics.py::test_what_was_dropped_is_summed_over_workers_once",
    ),
    Guard(
        "throttle: what was let in ahead and did not come is given back",
        "            self.end(kind, kind.passes)\n",
        "            pass\n",
        f"{ADMISSION}::test_runs_let_in_ahead_are_counted_when_they_come",
    ),
    Guard(
        "throttle: what was let in ahead is void when the store is away",
        "                if kind.passes and now < kind.until:\n",
        "                if kind.passes:\n",
        f"{ADMISSION}::test_what_was_let_in_ahead_is_void_when_the_store_is_away",
    ),
    Guard(
        "throttle: a task without an option is asked of the route",
        "        return not self.route.asks and getattr(",
        "        return None is getattr(",
        "tests/integration/throttle/worker/test_starts.py::test_tenants_take_turns",
    ),
    Guard(
        "throttle: what no route names is no run of anybody's",
        "        if not number:\n",
        "        number = number or 1\n        if not number:\n",
        f"{UNIT}/test_worker_parts.py::test_only_runs_that_were_let_in_are_counted",
    ),
    Guard(
        "throttle: runs are told apart after Celery made its tracers anew",
        "    consumer.update_strategies = update_strategies\n",
        "    update_strategies()\n",
        f"{UNIT}/test_worker_parts.py::test_only_runs_that_were_let_in_are_counted",
    ),
    Guard(
        "throttle: requests that are over are let go of as others come",
        "        self._look(2)\n",
        "",
        f"{UNIT}/test_worker_parts.py"
        "::test_requests_that_are_over_are_let_go_of_as_others_come",
    ),
    Guard(
        "throttle: a connection that was closed meanwhile costs no report",
        "        except Lost:\n",
        "        except ZeroDivisionError:\n",
        f"{REAL}/store/test_store_unavailable.py"
        "::test_a_connection_that_was_closed_meanwhile_costs_no_report",
    ),
    Guard(
        "throttle: runs that counted nothing are free at once, however many",
        "            self._accounts[kind.target.database].end(kind, plain)\n",
        "            self._accounts[kind.target.database].end(kind, 1)\n",
        f"{ADMISSION}::test_runs_that_no_reading_tells_of_are_free_at_once_together",
    ),
    Guard(
        "throttle: a report covers no more than Redis may be held for",
        "    if span > REPORT_SPAN:\n",
        "    if False:\n",
        "tests/unit/throttle/service/test_wire.py::test_a_wrong_field_is_named",
    ),
    Guard(
        "throttle: a process sends no more in a report than the service takes",
        "                if room < 0:\n",
        "                if False:\n",
        f"{EXCHANGE}::test_what_no_report_may_cover_is_told_in_several",
    ),
    Guard(
        "throttle: what reports does not change a limit, where people have a token",
        "state.settings.control_token or self.token",
        "self.token",
        "tests/integration/throttle/service/test_service.py::test_people_may_have_a_token_of_their_own",
    ),
    Guard(
        "throttle: a lost answer counts nothing twice, as it is told again",
        """        if not self._sent:
            if not self._waiting:
                return HeldBatch(0, {})
            room = REPORT_SPAN
""",
        """        if not self._sent and not self._waiting:
            return HeldBatch(0, {})
        if True:
            room = REPORT_SPAN
""",
        f"{EXCHANGE}::test_a_lost_answer_counts_nothing_twice",
    ),
    Guard(
        "throttle: a lost answer counts nothing twice, as Redis hears it again",
        "    fresh = last < tonumber(ARGV[5])\n",
        "    fresh = true\n",
        STORE,
    ),
    Guard(
        "throttle: a report that comes late makes the next one no new one",
        "local number = fresh and ARGV[5] or string.format('%.0f', last)",
        "local number = ARGV[5]",
        f"{STORE}::test_a_report_told_again_counts_once",
    ),
    Guard(
        "throttle: a child of a worker tells nothing that its parent tells",
        "            self._part = Part.CHILD\n        elif self._part is Part.OWN:\n",
        "            self._part = Part.OWN\n        if self._part is Part.OWN:\n",
        f"{REAL}/exchange/test_process.py::test_a_child_of_a_worker_never_reports",
    ),
    Guard(
        "throttle: a clock that is stepped back fills no second twice",
        "if now < latest then",
        "if false then",
        STORE,
    ),
    # What is given out
    Guard(
        "throttle: grants never add up to more than the limit, in Redis",
        "math.min(fair(all, want, wants, wanted), all - others)",
        "fair(all, want, wants, wanted)",
        STORE,
    ),
    Guard(
        "throttle: a share that may still be believed is nobody else's, in Redis",
        "math.max(granted, before), now",
        "granted, now",
        "tests/property/test_throttle_window.py",
    ),
    Guard(
        "throttle: a store without memory gives no shares at first",
        "if now - born < LEARNING then return 0 end",
        "",
        "tests/property/test_throttle_window.py",
    ),
    Guard(
        "throttle: an answer is as old as its question",
        "Snapshot(answer, sent, away=False)",
        "Snapshot(answer, self._clock(), away=False)",
        EXCHANGE,
    ),
    Guard(
        "throttle: a stale share is not believed",
        "now - self._answered_at > STALE",
        "False",
        f"{ADMISSION}::test_what_the_store_says_is_trusted_for_300_ms",
    ),
    Guard(
        "throttle: what was let in and not seen yet is not given out again",
        "            flow.admit(",
        "            (lambda *_: None)(",
        f"{ADMISSION}::test_what_was_let_in_and_has_not_been_seen_counts",
    ),
    Guard(
        "throttle: shadow holds nothing",
        "            if not self.limit.shadow:\n",
        "            if True:\n",
        f"{ADMISSION}::test_a_shadow_holds_nothing_and_counts",
    ),
    Guard(
        "throttle: only who is there is blamed by the second signal",
        "    if ours < OURS:\n",
        "    if False:\n",
        f"{UNIT}/watch/test_limit_factor.py",
    ),
    Guard(
        "throttle: one at a time watches a database",
        "if watcher[1] ~= ARGV[2] and now < watcher[2] then return 0 end",
        "",
        STORE,
    ),
    Guard(
        "throttle: a dispatcher starts nothing above the limit",
        " if lane.open else 0.0",
        "",
        f"{UNIT}/test_gate.py::test_nothing_starts_above_the_limit",
    ),
    Guard(
        "throttle: entries of a hot database wait",
        "if target is not None and not",
        "if target is not None and None is",
        f"{REAL}/gate/test_schedules.py"
        "::test_entries_of_a_hot_database_wait_and_others_run",
    ),
    # What is held
    Guard(
        "throttle: a newcomer does not overtake",
        "elif self._hold.must_wait(target):",
        "elif False:",
        HOOK,
    ),
    Guard(
        "throttle: a held request is not reserved",
        "    state.reserved_requests.discard(request)\n",
        "",
        HOOK,
    ),
    Guard(
        "throttle: revoked and expired tasks leave, and never start",
        "self.held.ended.sweep(until, len(self._hold))",
        "True",
        HOOK,
    ),
    Guard(
        "throttle: prefetch is lowered by what it really rose",
        "held.raised = self.broker.prefetch.rise(1)",
        "held.raised = 1 | self.broker.prefetch.rise(1)",
        HOOK,
    ),
    Guard(
        "throttle: prefetch is lowered again",
        "        self._lower(held)\n        scheduled.discard(held.request)\n",
        "        scheduled.discard(held.request)\n",
        HOOK,
    ),
    Guard(
        "throttle: prefetch is never raised so far that it is no limit",
        "max(min(count, MOST - self._qos.value - self.extra), 0)",
        "count",
        f"{REAL}/overflow/test_parking.py::test_prefetch_is_never_turned_off",
    ),
    Guard(
        "throttle: nothing of a lost connection is started",
        "        self.clear()\n        self._lose(error)\n",
        "        self._lose(error)\n",
        HOOK,
    ),
    Guard(
        "throttle: what was revoked meanwhile is not parked",
        "if is_scheduled(one.request)]",
        "if is_scheduled]",
        OVERFLOW,
    ),
    Guard(
        "throttle: the hold is bounded by messages",
        "if broker.elastic and not self._hold.full:",
        "if broker.elastic:",
        f"{OVERFLOW}::test_what_is_too_much_is_parked",
    ),
    Guard(
        "throttle: the hold is bounded by bytes",
        " or self.bytes >= self.max_bytes",
        "",
        f"{UNIT}/test_hold.py",
    ),
    Guard(
        "throttle: what Redis waits for is renewed",
        "            self._renew(broker)\n",
        "            pass\n",
        OVERFLOW,
    ),
    Guard(
        "throttle: after a standstill nothing runs that is another worker's",
        "if lapse > (STANDSTILL if broker.renewal is None else broker.renewal):",
        "if False:",
        OVERFLOW,
    ),
    Guard(
        "throttle: after a standstill nothing runs before the broker has answered",
        "        if self._doubted and not self._cleared(broker, lapse):\n"
        "            return False\n",
        "        if self._doubted:\n            self._cleared(broker, lapse)\n",
        OVERFLOW,
    ),
    Guard(
        "throttle: after a standstill who has heard of shares asks the broker, too",
        "if self.held and self.overflow.look() and not self._let_go():",
        "if self.held and not self._let_go():",
        HOOK,
    ),
    Guard(
        "throttle: after a standstill a newcomer lets nobody through unasked",
        "        if self.overflow.look():\n",
        "        if True:\n",
        HOOK,
    ),
    Guard(
        "throttle: what another worker has is not renewed",
        "if stamp and (stamp <= tonumber(ARGV[i + 1]) or asked[stamp]) then",
        "if stamp then",
        f"{ON_REDIS}::test_what_another_worker_has_is_not_renewed",
    ),
    Guard(
        "throttle: RabbitMQ gets back in time what is held",
        "self._hand_back(broker, broker.hold_timeout)",
        "pass",
        OVERFLOW,
    ),
    Guard(
        "throttle: on Redis a message is parked once",
        "        redis.call('HDEL', KEYS[2], tag)\n",
        "",
        f"{ON_REDIS}::test_a_lost_answer_moves_nothing_twice",
        also=("        redis.call('ZREM', KEYS[1], tag)\n", ""),
    ),
    Guard(
        "throttle: on Redis nothing is parked from under another worker",
        "stamp and (stamp <= till or asked[stamp])",
        "stamp",
        f"{ON_REDIS}::test_what_another_worker_has_is_not_moved",
    ),
    Guard(
        "throttle: on Redis no worker acknowledges what another has",
        "    self._qos._quick_ack(message.delivery_tag)  # noqa: SLF001\n",
        "    self._qos.ack(message.delivery_tag)\n",
        f"{ON_REDIS}::test_what_another_worker_has_is_not_renewed",
    ),
    Guard(
        "throttle: on RabbitMQ a message is confirmed before it is acknowledged",
        "            mandatory=True,\n        )\n",
        "            mandatory=True,\n        )\n        held.request.acknowledge()\n",
        f"{ON_RABBITMQ}::test_nothing_is_acknowledged_before_it_is_confirmed",
    ),
    Guard(
        "throttle: on RabbitMQ what no queue took is kept",
        "            if sent.returned:\n",
        "            if False:\n",
        f"{ON_RABBITMQ}::test_a_parking_queue_that_was_deleted_is_made_again",
    ),
    Guard(
        "throttle: what is held goes back at a warm end, in its order",
        "for one in reversed(held):",
        "for one in ():",
        f"{REAL}/worker/test_ends.py::test_they_go_back_in_their_order",
    ),
    Guard(
        "throttle: a route that fails lets the task through",
        "type(error).__name__, error)\n            return otherwise",
        "type(error).__name__, error)\n            raise",
        f"{UNIT}/test_route.py",
    ),
    Guard(
        "throttle: a signal waits for the end of a write to RabbitMQ",
        "        with deferral:\n            return write_frame(*args)",
        "        return write_frame(*args)",
        f"{UNIT}/test_deferral.py",
    ),
    # The service
    Guard(
        "throttle: without its token the service tells nothing",
        'if same and kind.lower() == "bearer":',
        "if token:",
        f"{REAL}/service/test_service.py::test_without_the_token_nothing_is_told",
    ),
    Guard(
        "throttle: the service's loop does not wait for Redis",
        "return await asyncio.get_running_loop().run_in_executor(self._pool, asked)",
        "return asked()",
        f"{REAL}/service/test_service.py"
        "::test_redis_that_hangs_does_not_stop_the_service",
    ),
    Guard(
        "throttle: a project's own module of that name is not hidden",
        "    hidden = other(words)\n    if hidden is None:",
        "    hidden = other(words)\n    if True:",
        "tests/unit/throttle/test_namesake.py",
    ),
    Guard(
        "throttle: what a process that is a fresh interpreter does is counted",
        "worker.app.conf.include = (*worker.app.conf.include, SPAWNED)",
        "pass",
        f"{REAL}/worker/test_spawn.py",
        within="throttle/worker/pool.py",
    ),
    Guard(
        "throttle: runs are told apart in a child that was forked",
        "            tell_runs_apart(worker.app)\n",
        "",
        f"{REAL}/worker/test_spawn.py",
    ),
    Guard(
        "throttle: in the history what all workers hear alike is no sum",
        "part = passed / max(seen.holders, 1)",
        "part = passed",
        LIMITS,
    ),
    Guard(
        "throttle: one worker folds the history",
        "return self.store.elect(FOLDER, self.holder.hex, EVERY)",
        "return True",
        LIMITS,
    ),
)
