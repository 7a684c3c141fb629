"""The guards of celery_pecker: its guarantees are in docs/maintainers/invariants.md."""

from __future__ import annotations

from tests.guards.guard import Guard

CLAIMS = "tests/integration/schedules/test_claim.py"
REPLICAS = "tests/integration/schedules"
PAUSE = f"{REPLICAS}/test_pause.py"
ASKED = f"{REPLICAS}/test_requested_runs.py"
HISTORY = "tests/integration/history"
MACHINE = "tests/property/test_claim_on_real_sql.py"
STRIKES = "tests/unit/deadline/test_enforcement.py"
BLACK_HOLES = "tests/integration/deadline/test_black_holes.py"
IN_CLIENTS = "tests/integration/deadline/test_interrupts_in_clients.py"
RUNS = "tests/integration/runs/test_guard.py"
LOCAL = "tests/integration/local/test_runner.py"
FENCE = "tests/integration/runs/test_fence.py"
WORKERS = "tests/integration/worker"
ODD = "tests/contract/publisher/test_odd_entries.py"
REFUSING = "tests/contract/publisher/test_refusing_redis.py"
HOSTS = "tests/integration/test_hosts.py"

CONNECTIONS = "tests/integration/test_connections.py"
CHANGED = f"{REPLICAS}/test_changed_schedules.py"
PREPARE = f"{REPLICAS}/test_prepare.py"
GATES = f"{REPLICAS}/test_gate.py"

OUTCOMES = "tests/integration/overview/test_unreported.py"
UNREPORTED = f"{OUTCOMES}::test_what_no_worker_reports_of_is_unreported"
WAKEUP = "tests/unit/kernel/test_wakeup.py"

CALENDARS = "tests/property/test_calendar_zones.py"
CALENDAR_UNITS = "tests/unit/calendars"

GUARDS = (
    Guard(
        "outcomes: a run that raised SystemExit has failed, and is not lost",
        "isinstance(error, LOST) and exited(error) is None",
        "isinstance(error, LOST)",
        "tests/unit/runs/test_outcomes.py",
    ),
    Guard(
        "outcomes: why a message was not sent is kept",
        "self._give_up(rest, error.why, error.refused)",
        "self._give_up(rest, error.why)",
        f"{WORKERS}/test_outcomes.py::test_every_pool_says_what_became_of_runs",
    ),
    Guard(
        "unreported: messages that follow put nothing off",
        "coalesce(kept.unreported_at, excluded.report_by)",
        "excluded.report_by",
        UNREPORTED,
    ),
    Guard(
        "unreported: nothing follows from silence where no worker reports",
        "sent.over and (workers.report or entry.reported_due is not null or exists (",
        "sent.over and (true or entry.reported_due is not null or exists (",
        UNREPORTED,
    ),
    Guard(
        "unreported: workers that reported once, and are gone, are awaited no more",
        ">= (clock.now at time zone 'UTC')::date - 7, false) as report",
        "is not null, false) as report",
        f"{OUTCOMES}::test_reports_of_long_ago_say_nothing_of_today",
    ),
    Guard(
        "unreported: one whose messages were all reported of is awaited, however rare",
        "                       <= (before.reported_era, before.reported_due))) then\n",
        "                       < (before.sent_era, before.sent_due))) then\n",
        f"{OUTCOMES}::test_an_entry_of_each_month_is_awaited",
    ),
    Guard(
        "unreported: a message that waits for its countdown is not awaited",
        "greatest(declared.countdown_us, 0) * interval",
        "0 * interval",
        f"{OUTCOMES}::test_a_message_that_waits_for_its_countdown_is_not_awaited",
    ),
    Guard(
        "unreported: the countdown of an entry of code is known",
        "    return int(min(countdown, YEAR) * SECOND)\n",
        "    return None\n",
        "tests/unit/schedules/test_declarations.py::test_a_countdown_is_known_where_celery_has_one",
    ),
    Guard(
        "unreported: the countdown of a stored schedule is known",
        "wanted.run, written.countdown_us,\n",
        "wanted.run, null,\n",
        "tests/integration/stored_schedules/test_countdowns.py"
        "::test_a_countdown_is_declared_under_either_name",
    ),
    Guard(
        "unreported: a stored schedule that code gives back has its countdown",
        "        countdown_us = held.countdown_us,\n",
        "",
        "tests/integration/schedules/test_stored_rules.py"
        "::test_code_takes_a_stored_name_over_and_gives_it_back",
    ),
    Guard(
        "outcomes: without a history nothing old is shown as of now",
        "            self._drops_reports = dropped > 0\n",
        "            self._drops_reports = False\n",
        f"{OUTCOMES}::test_without_a_history_nothing_old_is_shown",
    ),
    Guard(
        "outcomes: a scheduler knows whether there is a history",
        "keeps_reports = self.settings.history > 0",
        "keeps_reports = True",
        f"{OUTCOMES}::test_a_scheduler_knows_whether_there_is_a_history",
    ),
    Guard(
        "unreported: a local run is no report of a worker",
        "       case when sent.over then entry.reported_era end,\n"
        "       case when sent.over then entry.reported_due end,\n",
        "       entry.reported_era, entry.reported_due,\n",
        f"{OUTCOMES}::test_a_local_run_is_no_report_of_a_worker",
    ),
    Guard(
        "unreported: a local run is not awaited of a worker",
        "       case when sent.over and (workers",
        "       case when (workers",
        f"{OUTCOMES}::test_a_local_run_is_no_report_of_a_worker",
    ),
    Guard(
        "unreported: whether any worker reports is found by an index",
        "(select max(reported_day) from {schema}.pecker_outcomes)\n",
        "(select max(reported_due) from {schema}.pecker_outcomes)::date\n",
        "tests/plans/test_outcomes_use_their_index.py",
    ),
    Guard(
        "unreported: the index changes once a day, so that updates stay in the page",
        "on {schema}.pecker_outcomes (reported_day)\n",
        "on {schema}.pecker_outcomes (reported_day, reported_due)\n",
        "tests/plans/test_outcomes_use_their_index.py"
        "::test_reports_of_one_day_stay_in_the_page",
    ),
    Guard(
        "unreported: a run that is retried later has begun",
        "            self._reports.put_off(run)\n",
        "",
        f"{WORKERS}/test_outcomes.py::test_messages_that_no_worker_takes_are_known",
    ),
    Guard(
        "database: a connection that was idle for long is not used",
        "self.clock.monotonic() - used < IDLE_TIMEOUT and ",
        "",
        f"{CONNECTIONS}::test_a_connection_that_was_idle_for_long_is_made_anew",
    ),
    Guard(
        "database: a place goes to who has waited longest for it",
        "                self._queue.popleft().set()\n",
        "                self._queue.pop().set()\n",
        f"{CONNECTIONS}::test_a_place_goes_to_who_has_waited_longest",
    ),
    Guard(
        "database: a connection that its server ended is not used",
        " and database.alive():\n",
        ":\n",
        f"{CONNECTIONS}::test_a_connection_that_its_server_ended_is_made_anew",
    ),
    Guard(
        "database: a write of one row that changes more is a bug (I3)",
        "        if rows > 1:\n",
        "        if False:\n",
        "tests/integration/test_database.py::test_the_row_of_a_write_is_one_or_none",
        within="celery_pecker/kernel/database.py",
    ),
    Guard(
        "calendars: a local time that does not exist is moved on, not lost",
        "    if one.before >= one.offset or ",
        "    if True or one.before >= one.offset or ",
        CALENDARS,
    ),
    Guard(
        "calendars: a local time that exists twice counts once",
        "            if one.before > one.offset and not rule.hourly:",
        "            if False:",
        CALENDARS,
    ),
    Guard(
        "calendars: rules of every hour count both passes of an hour",
        "            if one.before > one.offset and not rule.hourly:",
        "            if one.before > one.offset:",
        CALENDARS,
    ),
    Guard(
        "calendars: a schedule that never comes is refused",
        "        if trial.instant_after(TRIED_FROM - MICROSECOND) is None:",
        "        if False:",
        CALENDAR_UNITS,
    ),
    Guard(
        "calendars: swapped working days count",
        "Workdays(name, known.is_working_day)",
        "Workdays(name, lambda one: one.weekday() < 5 and one not in known)",
        f"{CALENDAR_UNITS}/test_recurrence.py",
    ),
    Guard(
        "calendars: a jitter keeps the order of instants",
        "        longest = base.shortest\n",
        "        longest = LONGEST\n",
        f"{CALENDAR_UNITS}/test_splay_and_jitter.py",
    ),
    Guard(
        "calendars: the work of a rule is bounded",
        "        if next(self.steps, None) is None:\n",
        "        if False:\n",
        f"{CALENDAR_UNITS}/test_rules.py",
    ),
    Guard(
        "calendars: a rule of RFC 5545 keeps its phase however old its start",
        "self._rule(start + behind * period if behind > 0 else start)",
        "self._rule(local - period)",
        f"{CALENDAR_UNITS}/test_rules.py",
    ),
    Guard(
        "pecker: a sleep whose time is over ends",
        "min(max(seconds, 0.0), _MOST)",
        "_MOST if seconds < 2e-6 else seconds",
        WAKEUP,
    ),
    Guard(
        "pecker: a wake-up before the sleep counts",
        "        until = self._clock.monotonic() + seconds\n",
        "        until = self._clock.monotonic() + seconds\n"
        "        self._wakeup.sleep(0)\n",
        WAKEUP,
    ),
    Guard(
        "pecker: a loop of which nobody would tell does not end (I12)",
        "if self._may_end and self.turned is None:",
        "if self.turned is None:",
        "tests/unit/kernel/test_loop.py"
        "::test_bad_configuration_does_not_end_a_loop_of_which_nobody_would_tell",
    ),
    Guard(
        "pecker: no wake ends the back-off of a loop that fails (I12)",
        "if self._wakeup.sleep(seconds) and not self.failing:",
        "if self._wakeup.sleep(seconds):",
        "tests/unit/kernel/test_loop.py::test_no_wake_ends_a_back_off",
    ),
    Guard(
        "local: no event ends the wait for a broker",
        "if left > 0 and not self._loop.stopping:",
        "if False:",
        "tests/integration/local/test_events.py"
        "::test_no_event_ends_the_wait_for_a_broker",
    ),
    Guard(
        "deadline: a watch that fails does not end the watchdog (I12)",
        'self._failed.call("a watch of deadlines", None, watch.due)',
        "watch.due()",
        WAKEUP,
    ),
    Guard(
        "pecker: a new schedule counts from its first declaration",
        "            kept.schedule <> wanted.schedule\n",
        "            false\n",
        CHANGED,
        also=("            or kept.period_us <> wanted.period_us\n", ""),
    ),
    Guard(
        "pecker: an entry that was out runs none of the slots of that time",
        "            or kept.declared_until < clock.now and exists (",
        "            or false and exists (",
        CHANGED,
    ),
    Guard(
        "pecker: an outage of all is no change of schedules",
        "and replica.seen_at > greatest(replica.started_at, kept.declared_until)",
        "and replica.seen_at + interval '1 day' > replica.started_at",
        CHANGED,
    ),
    Guard(
        "pecker: what is due is built before it is claimed",
        "self.sending.prepare([name for name in names if name not in held])",
        "set[str]()",
        PREPARE,
    ),
    Guard(
        "pecker: a gate with an odd answer holds nothing",
        "    if not is_answer(answer):\n",
        "    if False:\n",
        GATES,
        within="celery_pecker/kernel/gate.py",
    ),
    Guard(
        "pecker: sys.exit of an entry's code ends no replica",
        '        raise Exited(f"{what} raised {error!r}") from error\n',
        "        raise\n",
        "tests/contract/publisher/test_slow_lane.py",
        within="celery_pecker/kernel/user_code.py",
    ),
    Guard(
        "pecker: a crontab goes on after two hours that come twice",
        "REPEATED = 24 * 60\n",
        "REPEATED = 60\n",
        "tests/unit/schedules/test_recurrence.py",
    ),
    Guard(
        "epoch rises with every claim (I3)",
        "epoch = greatest(task.epoch + 1, {us(due.now)}),",
        "epoch = task.epoch,",
        CLAIMS,
    ),
    Guard(
        "epoch survives a failover that lost grants (I3)",
        "epoch = greatest(task.epoch + 1, {us(due.now)}),",
        "epoch = task.epoch + 1,",
        CLAIMS,
    ),
    Guard(
        "a confirmation names its epoch (I3)",
        " and pending.epoch = given.epoch\n",
        "\n",
        CLAIMS,
        also=("    and pending.epoch = sent.epoch\n", ""),
    ),
    Guard(
        "era: a clock that stepped back is noticed (I1)",
        "+ wanted.ahead * interval '1 microsecond' then true",
        "+ wanted.ahead * interval '1 microsecond' then false",
        f"{REPLICAS}/test_misfire_and_clock.py",
    ),
    Guard(
        "era: slots of the new era are new slots (I1, I5)",
        "era = task.era + due.stepped::integer,",
        "era = task.era,",
        MACHINE,
    ),
    Guard(
        "SKIP LOCKED: a loser never waits (I4)",
        "            for update skip locked\n        ) as held,",
        "            for update\n        ) as held,",
        CLAIMS,
    ),
    Guard(
        "a slot is taken only when due (I5)",
        "+ wanted.period * interval '1 microsecond' <= clock.now",
        "<= clock.now",
        MACHINE,
    ),
    Guard(
        "a computed slot is taken from the row that was seen (I5)",
        "task.executed_at = wanted.seen\n                        and ",
        "",
        CLAIMS,
    ),
    Guard(
        "trust window: a claim given up by its sender takes nothing (I2)",
        "and clock.now < %(until)s::timestamptz\n                and case",
        "and case",
        MACHINE,
    ),
    Guard(
        "trust window: what a frozen holder has is dropped (I2)",
        "slot.until_us) > now_us:",
        "slot.until_us):",
        f"{REPLICAS}/test_pace.py",
    ),
    Guard(
        "trust window: asked once more right before the write (I2)",
        "if self._trust.closed(self.clock.monotonic()):",
        "if False:",
        "tests/contract/publisher/test_trust.py",
    ),
    Guard(
        "a connection to RabbitMQ over TLS that was cut says no goodbye",
        "                amqp._transport.sock = None  # noqa: SLF001 (as above)\n",
        "                pass\n",
        "tests/integration/surroundings/test_tls.py::test_rabbitmq",
    ),
    Guard(
        "whatever fails in the middle, no entry falls asleep",
        """            except BaseException:
""",
        """            except DatabaseUnavailable:
""",
        f"{REPLICAS}/test_failures.py",
        within="celery_pecker/schedules/engine/service.py",
    ),
    Guard(
        "without a token nothing uncertain is tried again",
        "if error.retry_safe:",
        "if True:",
        f"{REPLICAS}/test_broker_away.py",
    ),
    Guard(
        "with a token what is uncertain is tried again",
        "if error.retry_safe:",
        "if False:",
        f"{REPLICAS}/test_broker_away.py",
    ),
    Guard(
        "a claim without answer is looked up",
        "slots = self._unanswered.resolve()",
        "slots: list[Slot] = []",
        f"{REPLICAS}/test_failures.py",
    ),
    Guard(
        "nothing is claimed that could not be sent",
        "            return False\n        return True",
        "            return True\n        return True",
        f"{REPLICAS}/test_broker_away.py",
        within="celery_pecker/schedules/engine/sending.py",
    ),
    Guard(
        "token: the broker ignores a second copy of a batch",
        "'NX', ",
        "",
        "tests/contract/publisher",
    ),
    Guard(
        "a run starts once (I13)",
        "excluded.attempt > fence.attempt and excluded.epoch >= fence.epoch",
        "true",
        RUNS,
    ),
    Guard(
        "a slot does not start again after a younger one (I13)",
        "and (%(asked)s or",
        "and (true or",
        RUNS,
    ),
    Guard(
        "a run that is late does not start (I13)",
        "where clock.now < %(deadline)s::timestamptz\n",
        "where true\n",
        RUNS,
    ),
    Guard(
        "a run that is overtaken does not start (I13)",
        "where claimed.epoch > %(epoch)s",
        "where false",
        RUNS,
    ),
    Guard(
        "a slot that the row has not reached does not start (I13)",
        "        and exists (select from claimed where claimed.reached)\n",
        "",
        RUNS,
    ),
    Guard(
        "a slot that the row has not reached guards no writes (I3)",
        "                and {reached}\n",
        "                and (%(era)s, %(due)s::timestamptz) <= (task.era, greatest("
        "task.executed_at, clock.now + interval '5 seconds'))\n",
        RUNS,
    ),
    Guard(
        "trust window: what stood still after the start check does not run (I2)",
        "if self.clock.monotonic() >= ends:\n                    self._refuse",
        "if False:\n                    self._refuse",
        RUNS,
    ),
    Guard(
        "a guarded write of a run that was overtaken is refused (I3)",
        "where task.name = %(name)s and task.epoch > %(epoch)s",
        "where false",
        FENCE,
    ),
    Guard(
        "a guarded write of an earlier attempt is refused (I3)",
        "where (excluded.epoch, excluded.attempt) >= (fence.epoch, fence.attempt)",
        "",
        FENCE,
    ),
    Guard(
        "the server ends a guarded transaction at the deadline (I9)",
        "set_config('transaction_timeout', left_ms::text, true)",
        "'0'",
        FENCE,
        also=("least(left_ms, idle_ms)::text", "'0'"),
    ),
    Guard(
        "a message that is revoked before it starts is reported",
        "if terminated or sender not in self._tasks:",
        "if not expired or sender not in self._tasks:",
        "tests/unit/runs/test_outcomes.py::test_a_message_that_never_starts_is_reported",
    ),
    Guard(
        "one that fails in a fork leaves no other its connection",
        'user_code.call("giving up connections in a fork", None, holder.abandon)',
        "holder.abandon()",
        "tests/unit/kernel/test_forks.py",
    ),
    Guard(
        "a process of a pool holds none of the scheduler's connections",
        "for holder in [*_ALL]:",
        "for holder in ():",
        f"{WORKERS}/test_schedulers.py",
    ),
    Guard(
        "a worker does not live on without its scheduler (I12)",
        "state.should_stop = EX_FAILURE",
        "state.should_stop = None",
        f"{WORKERS}/test_refusals.py",
    ),
    Guard(
        "a worker that was told to stop wins nothing more, whatever Celery waits for",
        "self._on_signal, sender=parent.hostname, weak=False",
        "self._on_signal, sender=object(), weak=False",
        f"{WORKERS}/test_ends.py",
    ),
    Guard(
        "the deadline ends the task, and brings about no retry",
        "task._orig_run = past_autoretry(task, inner)",
        "pass",
        RUNS,
    ),
    Guard(
        "a paused entry's slots are not run",
        "paused if win.paused else slots",
        "slots",
        PAUSE,
    ),
    Guard(
        "a paused entry's slots are not counted as missed",
        "case when task.paused then 0 else due.passed end",
        "due.passed",
        PAUSE,
    ),
    Guard(
        "a paused entry's slots are not pending",
        "where kept and not paused",
        "where kept",
        PAUSE,
    ),
    Guard(
        "a paused slot whose claim had no answer is not run",
        "if not row.paused:",
        "if True:",
        PAUSE,
    ),
    Guard(
        "a run is taken only from the row that was read (I5)",
        "                and row.epoch = wanted.epoch\n",
        "",
        ASKED,
    ),
    Guard(
        "a run is taken once (I5)",
        "                and asked.epoch = 0\n",
        "",
        ASKED,
        also=("                and row.epoch = wanted.epoch\n", ""),
    ),
    Guard(
        "a take raises the epoch of the row (I3)",
        "    set epoch = greatest(task.epoch + 1, {us(held.now)})",
        "    set epoch = greatest(task.epoch, 1)",
        ASKED,
    ),
    Guard(
        "a run that was sent rests until its deadline",
        "done = self._rested if rests else self._confirmed",
        "done = self._confirmed",
        ASKED,
    ),
    Guard(
        "a run waits for the last slot's deadline",
        "    if free_us > now_us:\n",
        "    if False:\n",
        ASKED,
    ),
    Guard(
        "a run ends before the next slot",
        "ends_us = min(now_us + timeout_us, next_us)",
        "ends_us = now_us + timeout_us",
        ASKED,
    ),
    Guard(
        "a take is not mistaken for a claim without answer",
        " and row.executed_us != due_us",
        "",
        ASKED,
    ),
    Guard(
        "a step of the history that rests is no success after a failure",
        "if not idle and not self._loop.failing:",
        "if not idle:",
        HISTORY,
    ),
    Guard(
        "a late report takes no old page's place",
        "first_us = max(due_us, old.first_us + 1)",
        "first_us = due_us",
        HISTORY,
    ),
    Guard(
        "the history is bounded in its table (I9)",
        'database.change("prune_history"',
        'print("prune_history"',
        HISTORY,
    ),
    Guard(
        "the history is bounded in memory (I9)",
        "if len(self._waiting) >= WAITING:",
        "if False:",
        HISTORY,
    ),
    Guard(
        "the history waits for nobody (I4)",
        "for update of page skip locked",
        "for update of page",
        HISTORY,
    ),
    Guard(
        "the history is written while nothing is due",
        "if not idle and not self._loop.failing:",
        "if False:",
        HISTORY,
    ),
    Guard(
        "reports of a slot are merged forward only (I7)",
        "top=max(told, key=_weight)",
        "top=told[-1]",
        "tests/property/test_merge.py",
    ),
    Guard(
        "a local run does not start once its deadline is over (I2)",
        "if deadline.remaining() == 0.0:",
        "if False:",
        LOCAL,
    ),
    Guard(
        "a local slot is not started once trust in it is over (I2)",
        "elif began >= order.latest:",
        "elif False:",
        LOCAL,
    ),
    Guard(
        "a local deadline counts from before the clock was asked (I2)",
        "moment = instant_us / SECOND - self._high",
        "moment = instant_us / SECOND - self._low",
        "tests/unit/kernel/test_lease.py",
    ),
    Guard(
        "what still runs in one worker is left to the others",
        "return names if behind else [order.name for order in still]",
        "return names if behind else []",
        "tests/integration/local/test_replicas.py",
    ),
    Guard(
        "one local run of an entry at a time",
        "if other is not None:",
        "if False:",
        LOCAL,
    ),
    Guard(
        "no local run waits for a result backend",
        '"ignore_result": True,',
        '"ignore_result": False,',
        LOCAL,
        within="celery_pecker/schedules/local/tracer.py",
    ),
    Guard(
        "no failed local run waits for a result backend",
        "store_errors=False",
        "store_errors=True",
        LOCAL,
    ),
    Guard(
        "a local run publishes no retry",
        "    refuse_retries(task)\n",
        "",
        LOCAL,
    ),
    Guard(
        "nothing that a task raises ends its thread (I12)",
        "except BaseException as error:",
        "except Exception as error:",
        LOCAL,
        within="celery_pecker/kernel/user_code.py",
    ),
    Guard(
        "events that wait for the broker are bounded (I9)",
        "if len(self._events) >= self.most:",
        "if False:",
        "tests/integration/local/test_events.py",
    ),
    Guard(
        "deadline: a strike leaves the code alone that sets deadlines",
        "        if _runs_in(frame, UNTOUCHABLE, OUR_DEPTH):",
        "        if False:",
        STRIKES,
    ),
    Guard(
        "deadline: a strike that was swallowed comes again",
        "if handled and now - since < CLEAN_UP:",
        "if self.budget is budget:",
        STRIKES,
    ),
    Guard(
        "deadline: a loop that swallows every exception is ended",
        "monotonic() > whole.at + LAST",
        "False",
        STRIKES,
    ),
    Guard(
        "deadline: a stricter bound of the session stays",
        "(name, min(most, theirs))",
        "(name, most)",
        "tests/integration/deadline/test_psycopg.py",
    ),
    Guard(
        "hosts: a silent one leaves time for the next",
        "share = min(left / (len(places) - tried), longest)",
        "share = min(left, longest)",
        f"{HOSTS}::test_a_silent_host_leaves_time_for_the_next",
    ),
    Guard(
        "hosts: a silent one is tried last for a minute",
        "avoid(_address(place))",
        "pass",
        f"{HOSTS}::test_a_silent_host_is_asked_once_a_minute_by_a_process",
    ),
    Guard(
        "hosts: who has no time calls none silent",
        " and share >= FAIR",
        "",
        f"{HOSTS}::test_a_host_is_not_called_silent_by_who_has_no_time",
    ),
    Guard(
        "hosts: a client under a deadline divides its time",
        "        return timeout()\n\n    @classmethod\n    def connect(",
        "        return None\n\n    @classmethod\n    def connect(",
        f"{HOSTS}::test_a_client_under_a_deadline_reaches_the_next_host",
    ),
    Guard(
        "hosts: start checks leave a primary that froze",
        "self.close()  # the others lead to the same host",
        "pass",
        "tests/integration/runs/test_start.py",
    ),
    Guard(
        "runs are guarded in a pool that spawns",
        'if kind == "prefork" and spawns(worker):',
        "if False:",
        f"{WORKERS}/test_spawn.py",
    ),
    Guard(
        "Sentinels are asked once, each for its share of the time",
        """        **shares,
        **{name: own[name] for name in names if own and own.get(name) is not None},
        "retry": Retry(NoBackoff(), 0),
""",
        "",
        "tests/contract/publisher/test_sentinel.py",
    ),
    Guard(
        "a Redis without scripts: the slow lane sends",
        "if isinstance(error, NoPermissionError):",
        "if False:",
        f"{REFUSING}::test_a_user_without_scripts_sends_by_the_slow_lane",
        within="celery_pecker/brokers/redis/script.py",
    ),
    Guard(
        "a Redis that takes no writes is known before a claim",
        "if takes_no_writes(error):",
        "if False:",
        f"{REFUSING}::test_a_redis_that_takes_no_writes_is_known_before_a_claim",
    ),
    Guard(
        "an entry that cannot be built is not taken for a broker that is away",
        "        raise producer.failure or Unbuildable(why) from error\n",
        "        raise BrokerUnavailable(why) from error\n",
        f"{ODD}::test_one_that_cannot_be_built_holds_no_other_up",
    ),
    Guard(
        "a stored schedule whose message cannot be built is parked",
        "        if wrong is not None:\n",
        "        if False:\n",
        "tests/integration/schedules/test_stored_rules.py",
    ),
    Guard(
        "a run of a parked entry that was asked for ends",
        "and request_timing.waited_too_long(one, now_us)",
        "and False",
        "tests/integration/schedules/test_stored_rules.py",
    ),
    Guard(
        "what py-amqp cannot frame breaks no connection",
        "return isinstance(error, FrameSyntaxError)",
        "return False",
        f"{ODD}::test_one_that_cannot_be_framed_holds_no_other_up",
    ),
    Guard(
        "an entry whose list Redis refuses holds no other up",
        "            if not takes_no_writes(error):\n",
        "            if False:\n",
        f"{ODD}::test_one_that_redis_refuses_holds_no_other_up",
    ),
    Guard(
        "a Redis that lets its user send nothing: nothing is claimed for a while",
        "self._broker.refused(outcome.broken.__cause__ or outcome.broken)",
        "pass",
        f"{REFUSING}::test_a_user_that_may_send_nothing_claims_nothing_for_a_while",
    ),
    Guard(
        "what was refused is known not to be sent",
        "if not outcome.uncertain and outcome.broken is None:",
        "if False:",
        f"{REFUSING}::test_arguments_that_cannot_be_encoded_are_known_not_to_be_sent",
    ),
    Guard(
        "a crontab's run has to end before its next slot",
        "ends_us = min(deadline_us, recurrence.next(win.due_us, sent_us))",
        "ends_us = deadline_us",
        "tests/integration/schedules/test_misfire_and_clock.py",
    ),
    Guard(
        "a slot that is sent again is above all of its entry (I3)",
        "(select task.epoch + 1 from {schema}.pecker_tasks as task",
        "(select 0 from {schema}.pecker_tasks as task",
        "tests/integration/schedules/test_at_least_once.py",
    ),
    Guard(
        "a header named headers hides no run from its start check",
        "beside, collected = vars(request), request.headers",
        "beside, collected = {}, request.headers",
        RUNS,
    ),
    Guard(
        "what a library makes of a strike is DeadlineExceeded again",
        "if isinstance(cause, DeadlineExceeded):",
        "if False:",
        RUNS,
        within="celery_pecker/runs/guard.py",
    ),
    Guard(
        "deadline: a clean-up is not struck in its middle",
        "if handled and now - since",
        "if False and handled and now - since",
        STRIKES,
    ),
    Guard(
        "deadline: the clean-up after a client that ended by itself is not struck",
        "if self.budget is budget else budget.raised",
        "if self.budget is budget else 0.0",
        STRIKES,
    ),
    Guard(
        "deadline: a statement that is given up is cancelled on the server",
        "            cancel_in_thread(self.pgconn)\n",
        "            pass\n",
        f"{IN_CLIENTS}::test_a_statement_that_is_given_up_is_cancelled",
    ),
    Guard(
        "deadline: a client is left alone while it ends by itself",
        "return self.waiting > 0 and now < self.at + CLIENT_GRACE",
        "return False",
        f"{IN_CLIENTS}"
        "::test_a_statement_that_the_server_ends_leaves_its_connection_in_use",
    ),
    Guard(
        "deadline: steps of a client that belong together are not struck in between",
        "indivisible and now",
        "False and now",
        IN_CLIENTS,
    ),
    Guard(
        "deadline: a client that does not come back is struck all the same",
        "(indivisible and now < budget.at + CLIENT_GRACE)",
        "indivisible",
        IN_CLIENTS,
    ),
    Guard(
        "deadline: a transaction block that begins too late breaks no connection",
        '{"_enter_gen", ',
        "{",
        "tests/integration/deadline/test_psycopg.py",
    ),
    Guard(
        "deadline: nothing is committed after it",
        """            yield transaction
            check()
""",
        """            yield transaction
""",
        "tests/integration/deadline/test_psycopg.py",
    ),
    Guard(
        "deadline: a wait that trickles ends all the same",
        "    if own is not None and own <= left:",
        "    if own is not None:",
        BLACK_HOLES,
    ),
    Guard(
        "deadline: retries and their pauses end with it",
        "return timeout(self._own.compute(failures)) or 0.0",
        "return float(self._own.compute(failures))",
        BLACK_HOLES,
        also=("with ending(*self._supported_errors):", "if True:"),
    ),
    Guard(
        "health: stored schedules that no live scheduler claims keep no pace",
        "where runs and not claimed",
        "where false",
        "tests/integration/cli/test_health.py",
    ),
    Guard(
        "health: code's entries that no live scheduler claims keep no pace",
        "kept = not late and not unclaimed and not both",
        "kept = not late and not both",
        "tests/integration/cli/test_health.py",
    ),
    Guard(
        "schedules: what replicas declare differently is seen",
        "        self._note_differing(differing)\n",
        "",
        "tests/integration/schedules/test_changed_schedules.py",
    ),
    Guard(
        "bridge: a row is read again before its slot is taken",
        "            refresh()\n",
        "            pass\n",
        "tests/integration/beat/test_bridge.py",
    ),
    Guard(
        "app: its modules are imported before it is finalized",
        "            loader.import_default_modules()\n",
        "",
        "tests/integration/cli/test_import_schedules.py",
    ),
    Guard(
        "packaging: what kombu's Redis transport imports is declared",
        """    "packaging>=23",
""",
        "",
        "tests/packaging/test_dependencies.py",
        within="pyproject.toml",
    ),
    Guard(
        "runs: every end is seen in the worker's main process",
        "        self.watch.wrap(task)\n",
        "",
        f"{WORKERS}/test_outcomes.py",
    ),
    Guard(
        "explain: messages that nobody reports of are told of, however often it runs",
        '            return slot if last and slot.state == "published" else None\n',
        "            return None\n",
        "tests/unit/schedules/test_explain.py"
        "::test_the_verdict_is_the_nearest_root[nobody takes its messages]",
    ),
    Guard(
        "runs: a message that no task is known for is a run that failed",
        "            signal.connect(self._on_dropped, weak=True)\n",
        "            pass\n",
        f"{WORKERS}/test_outcomes.py::test_every_pool_says_what_became_of_runs",
    ),
    Guard(
        "runs: a copy that comes at the same moment is a repetition",
        "            if answer.verdict is StartVerdict.OVERTAKEN:\n",
        "            if False:\n",
        f"{RUNS}::test_a_copy_that_comes_at_the_same_moment_is_a_repetition",
    ),
    Guard(
        "health: the pace is not kept while nothing is sent",
        "return not (self.overdue or self.unclaimed or self.undelivered or self.stuck)",
        "return not self.overdue",
        f"{WORKERS}/test_deliveries.py",
    ),
    Guard(
        "health: slots that are not confirmed are seen",
        "where (pending.attempt > 0 or pending.claimed_at",
        "where (pending.claimed_at",
        "tests/integration/cli/test_health.py",
    ),
    Guard(
        "outcomes: the last slot is a maximum, whoever writes first",
        """as slot (era, due, at, report, host, error)
    order by era desc nulls last, due desc, at desc""",
        """as slot (era, due, at, report, host, error)
    order by era nulls last, due, at desc""",
        f"{HISTORY}/test_recorder.py",
    ),
    Guard(
        "lost: a life that is renewed while somebody sweeps has lost nothing (I3)",
        "    where life.holder = silent.holder and life.seen_at = silent.seen_at",
        "    where life.holder = silent.holder",
        f"{HISTORY}/test_lives.py",
    ),
    Guard(
        "lost: a process that comes back takes it back",
        "            if self._written:\n",
        "            if False:\n",
        f"{HISTORY}/test_lives.py",
    ),
    Guard(
        "lost: of running and lost the later one holds",
        "one.at_us if one.report in _GOES_ON else -one.at_us",
        "-one.at_us",
        "tests/property/test_merge.py",
    ),
    Guard(
        "lost: a run is in hand until its end is reported",
        "        elif report in ENDED:",
        "        elif False:",
        f"{HISTORY}/test_lives.py",
    ),
    Guard(
        "lost: who was frozen, or had no database, calls nobody lost",
        "if now - self._looked < LONGEST_GAP else {}",
        "if True else {}",
        f"{REPLICAS}/test_killed_workers.py",
    ),
    Guard(
        "lost: a table that refuses is left alone for a while",
        "        if now < self._not_before:\n            return now_us, falsely_lost\n",
        "",
        f"{HISTORY}/test_lives.py",
    ),
    Guard(
        "lost: schedulers sweep",
        "        self._sweep()\n",
        "",
        f"{REPLICAS}/test_killed_workers.py",
    ),
    Guard(
        "lost: a worker renews what it has in hand",
        "        return min(rest, self._renew(), self._figures.step())",
        "        return min(rest, self._figures.step())",
        f"{WORKERS}/test_outcomes.py",
    ),
    Guard(
        "outcomes: good news waits, or each run would be a write",
        'now - self._counted_at.get(name, float("-inf")) >= CALM',
        "True",
        f"{HISTORY}/test_recorder.py",
    ),
    Guard(
        "explain: it is asked first whether anybody lives",
        "    if without_winner is not None:\n        yield without_winner\n",
        "",
        "tests/unit/schedules/test_explain.py",
    ),
    Guard(
        "metrics: the series of alerts are there from the start",
        "for outcome, n in counts.items())\n",
        "for outcome, n in counts.items() if n)\n",
        "tests/integration/metrics/test_metrics.py",
    ),
    Guard(
        "console: a server that is away is no refusal",
        "    exit_code = UNKNOWN",
        "    exit_code = NO",
        "tests/integration/cli/test_all_commands.py",
    ),
)
