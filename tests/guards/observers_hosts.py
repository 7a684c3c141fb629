"""The guards of hosts of observers: against what the code that they run does."""

from __future__ import annotations

from tests.guards.guard import Guard

LIFE = "celery_pecker/observers/hosts/lives.py"
FOREIGN = "tests/unit/observers/test_foreign_code.py"
GROWN = "tests/unit/observers/test_grown_hosts.py"
MEMORY = "tests/integration/observers/test_memory.py"
TABLES = "tests/integration/observers/test_lives_in_tables.py"

LOST = "tests/integration/observers/test_lost_rows.py"

GUARDS = (
    Guard(
        "observers: a drain goes on in the host that takes over",
        "        beside = not self.follows and first\n",
        "        beside = False\n",
        f"{TABLES}::test_a_drain_goes_on_in_the_host_that_takes_over",
    ),
    Guard(
        "observers: a drain goes on in the process that follows one that died",
        "self._drained = (True,) in ended\n",
        "pass\n",
        "tests/integration/observers/test_host_failures.py"
        "::test_a_drained_host_that_dies_comes_back_drained",
    ),
    Guard(
        "observers: the successor of a host that ends does not drain",
        " and n.left_at is null\n",
        "\n",
        f"{TABLES}::test_a_host_that_ends_has_no_successor_that_drains",
    ),
    Guard(
        "observers: a drained host that was buried takes nothing",
        "            drains=self.draining,\n",
        "",
        "tests/unit/observers/test_looks.py::test_a_drained_host_that_was_buried_drains",
    ),
    Guard(
        "observers: two supervisors of one machine have names of their own",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(file, fcntl.LOCK_UN)",
        "tests/integration/observers/test_supervisors.py"
        "::test_two_on_one_machine_have_names_of_their_own",
    ),
    Guard(
        "observers: what no table knows ends",
        "        gone = [one for one in lives if one.claimed.id in lost]\n",
        "        gone = [one for one in lives if one.claimed.id not in known]\n",
        f"{LOST}::test_what_no_table_knows_ends",
    ),
    Guard(
        "observers: a life is known by its epoch and its host, not by its id alone",
        "        where o.id = l.id and o.epoch = l.epoch and o.node = %(node)s::uuid\n",
        "        where o.id = l.id\n",
        f"{LOST}::test_lives_are_compared_with_their_rows",
    ),
    Guard(
        "observers: an epoch that a failover lost is not given out again",
        "    set epoch = lost.epoch\n",
        "    set epoch = o.epoch\n",
        f"{LOST}::test_lives_are_compared_with_their_rows",
    ),
    Guard(
        "observers: a life is not forgotten for another one of its id",
        "            if one.id in self.by_id:\n                continue",
        "            if self.by_id is None:\n                continue",
        f"{LOST}::test_a_life_is_not_forgotten_for_another_one_of_its_id",
    ),
    Guard(
        "observers: one that cannot replace a host that has grown ends no other",
        "                if code == CANNOT_START and self._replaced_process is None:\n",
        "                if code == CANNOT_START:\n",
        f"{GROWN}::test_one_that_cannot_start_ends_no_other",
    ),
    Guard(
        "observers: one beside a host that has grown does not bury it",
        "            or %(follows)s::boolean\n                and n.name",
        "            or n.name",
        f"{TABLES}::test_one_beside_a_host_that_has_grown_does_not_bury_it",
    ),
    Guard(
        "observers: one is started beside a host that has grown, and knows that",
        "follows = self._replaced_process is None",
        "follows = True",
        f"{GROWN}::test_it_hands_over_once_the_next_one_is_up",
    ),
    Guard(
        "observers: a host that begins anew follows nobody",
        "        self.follows = self.follows and first\n",
        "",
        f"{TABLES}::test_one_that_begins_anew_follows_nobody",
    ),
    Guard(
        "observers: a host that has grown is replaced",
        "            if self._has_grown(process):\n",
        "            if self._stopping.is_set():\n",
        f"{GROWN}::test_it_hands_over_once_the_next_one_is_up",
    ),
    Guard(
        "observers: a host that has grown hands over once the next one is up",
        "            if large is not None and process.node and not relieved:\n",
        "            if large is not None and not relieved:\n",
        f"{GROWN}::test_it_hands_over_once_the_next_one_is_up",
    ),
    Guard(
        "observers: a host that is large from its start on is not replaced for ever",
        "            or monotonic() - process.begun < LIVED\n",
        "",
        f"{GROWN}::test_one_that_is_young_stays",
    ),
    Guard(
        "observers: a host beats with its memory",
        "        return capacity.used(lives.pids)\n\n    def leave",
        "        return 0\n\n    def leave",
        f"{MEMORY}::test_a_host_that_has_grown_hands_over_to_one_that_is_up",
    ),
    Guard(
        "observers: the processes of observers count as memory of their host",
        "        return capacity.used(lives.pids)\n\n    def leave",
        "        return capacity.used()\n\n    def leave",
        f"{MEMORY}::test_a_process_of_an_observer_counts",
    ),
    Guard(
        "observers: a host that drains is not replaced, whatever its memory is",
        "        if limit is None or host.draining:\n",
        "        if limit is None:\n",
        f"{MEMORY}::test_a_host_that_drains_is_not_replaced",
    ),
    Guard(
        "observers: a task that exits does not end its host",
        "        except (SystemExit, KeyboardInterrupt):\n",
        "        except KeyboardInterrupt:\n",
        f"{FOREIGN}::test_what_a_task_of_an_observer_raises_does_not_end_the_event_loop",
    ),
    Guard(
        "observers: an interrupt of one ends no other",
        "    except (SystemExit, KeyboardInterrupt) as error:\n",
        "    except SystemExit as error:\n",
        f"{FOREIGN}::test_whatever_code_raises_has_failed_and_can_be_stored",
    ),
    Guard(
        "observers: an error can be stored whatever its text is",
        "        shown = user_code.shown(error)\n",
        '        shown = f"{type(error).__name__}: {error}"\n',
        f"{FOREIGN}::test_whatever_code_raises_has_failed_and_can_be_stored",
        within=LIFE,
    ),
    Guard(
        "observers: a fork of a host is no second host",
        "        abandon_in_forks(self)\n",
        "",
        f"{FOREIGN}::test_a_fork_of_a_host_is_no_second_host",
        within=LIFE,
    ),
    Guard(
        "observers: a host that died is missed while what it forked lives",
        "        elif self._process.poll() is not None:\n",
        "        elif self._process is None:\n",
        "tests/unit/observers/test_host_process.py",
    ),
    Guard(
        "observers: a process that died is missed while what it forked lives",
        "        self._output_read.wait(LAST_WORDS)\n",
        "        self._output_read.wait()\n",
        "tests/integration/observers/test_processes.py"
        "::test_a_process_that_died_is_missed_while_what_it_forked_lives",
    ),
    Guard(
        "observers: a host finds the app where its supervisor has found it",
        '    sys.path += [one for one in config["path"] if one not in sys.path]\n',
        "",
        "tests/integration/observers/test_supervisors.py"
        "::test_a_host_finds_the_app_where_its_supervisor_has_found_it",
    ),
    Guard(
        "observers: code that holds up the event loop has failed by that",
        "            self.lives.fail_blocking(life, error)\n",
        "",
        "tests/unit/observers/test_looks.py"
        "::test_code_that_holds_up_the_event_loop_has_failed_by_that",
    ),
    Guard(
        "observers: a host knows whose code holds up its event loop",
        "life.running.task is task:\n",
        "life.running is task:\n",
        "tests/integration/observers/test_hosts.py"
        "::test_one_that_blocks_each_of_its_hosts_is_parked",
    ),
)
