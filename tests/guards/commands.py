"""The guards of commands about stored schedules."""

from __future__ import annotations

from tests.guards.guard import Guard

IMPORTED = "tests/integration/cli/test_import_schedules.py"
EMBEDDED = "tests/unit/testing/test_embedded_servers.py"
EDITED = "tests/integration/cli/test_schedules.py"
PASSWORDS = "tests/integration/cli/test_passwords.py"
READ = "tests/integration/cli/test_other_schedulers_read.py"
NOW = "tests/integration/cli/test_now.py"
ROOTS = "tests/unit/findings/test_roots.py"
WATCH = "tests/unit/flower/test_now.py"
RIGHTS = "tests/docs/test_rights.py"

GUARDS = (
    Guard(
        "passwords: `celery report` hides our settings",
        "hidden_settings.hide()\n",
        "",
        f"{PASSWORDS}::test_a_report_has_no_passwords",
        within="celery_pecker/surfaces/cli/__init__.py",
    ),
    Guard(
        "passwords: a worker that Python code starts hides our settings",
        "    hidden_settings.hide()\n",
        "",
        f"{PASSWORDS}::test_a_worker_answers_without_passwords",
        within="celery_pecker/worker/__init__.py",
    ),
    Guard(
        "passwords: libpq's own words of what is no DSN are not printed by doctor",
        "parameters_of(project.settings.dsn)",
        "conninfo.conninfo_to_dict(project.settings.dsn)",
        f"{PASSWORDS}::test_doctor_refuses_what_is_no_dsn",
    ),
    Guard(
        "doctor: each table's rights are looked at",
        r'r"create table \{schema\}\.(\w+)"',
        r'r"create table \{schema\}\.(pecker_t\w+)"',
        f"{RIGHTS}::test_doctor_sees_each_right_that_is_lacking",
    ),
    Guard(
        "import of schedules: a second one changes nothing",
        '"changed" if one.changes else "same"',
        '"changed"',
        f"{IMPORTED}::test_schedules_come_over_once",
    ),
    Guard(
        "import of schedules: a dry run stores nothing",
        "force_rollback=dry_run",
        "force_rollback=False",
        f"{IMPORTED}::test_schedules_come_over_once",
    ),
    Guard(
        "import of schedules: what was stored meanwhile is not overwritten",
        '"version": step.version}',
        '"version": None}',
        f"{IMPORTED}::test_a_change_in_between_is_refused",
    ),
    Guard(
        "import of schedules: slots count from the last run there",
        "                    _carry(page, connection, last)\n",
        "",
        f"{IMPORTED}::test_what_ran_there_does_not_run_again_and_what_is_due_does",
    ),
    Guard(
        "import of schedules: policies that were chosen here stay",
        "one.fields |= {**policies, ",
        "one.fields |= {",
        f"{IMPORTED}::test_a_difference_is_shown_and_taken_over",
    ),
    Guard(
        "import of schedules: what was to run once and has run is not imported",
        '    if row.get("total_run_count"):\n',
        "    if False:\n",
        f"{READ}::test_tables_come_over",
    ),
    Guard(
        "import of schedules: a RedBeat that still runs is named",
        "    if runs(*_of_redbeat(context, place), lock):\n",
        "    if False:\n",
        "tests/integration/cli/test_redbeat_hands_over.py",
    ),
    Guard(
        "celery: no command waits for PostgreSQL's driver before it is read",
        "from celery_pecker.kernel.settings import Settings\n",
        "from celery_pecker.kernel.database import Database\n"
        "from celery_pecker.kernel.settings import Settings\n",
        "tests/packaging/test_wheel.py"
        "::test_each_celery_command_loads_next_to_nothing_of_ours",
        within="celery_pecker/worker/remote_control.py",
    ),
    Guard(
        "pecker: an option before a command is not dropped without a word",
        "is ParameterSource.COMMANDLINE:\n",
        "is None:\n",
        "tests/integration/cli/test_outbox.py::test_another_outbox_is_another_table",
    ),
    Guard(
        "set: what somebody has changed since it was read is not overwritten",
        "version=known if version is None else version",
        "version=version",
        f"{EDITED}::test_an_edit_in_between_is_not_overwritten",
    ),
    Guard(
        "testing: another user of the machine does not enter an embedded PostgreSQL",
        '"-A", "scram-sha-256"',
        '"-A", "trust"',
        f"{EMBEDDED}::test_other_users_of_the_machine_are_refused",
    ),
    Guard(
        "testing: another user of the machine does not enter an embedded Redis",
        'f"requirepass {self.password}\\n"',
        '""',
        f"{EMBEDDED}::test_other_users_of_the_machine_are_refused",
    ),
    Guard(
        "now: a session is ended by its start, too",
        "where session.pid || '.' || {us(session.backend_start)} = %(key)s",
        "where session.pid::text = split_part(%(key)s, '.', 1)",
        f"{NOW}::test_the_session_that_holds_rows_is_ended_and_no_other",
    ),
    Guard(
        "now: what is only worth a look causes nothing",
        "if cause.grade is Grade.FAIL or hint:",
        "if cause:",
        f"{ROOTS}::test_what_is_only_worth_a_look_causes_nothing",
    ),
    Guard(
        "now: nothing is well before the first look has ended",
        "if not self.findings:",
        "if self.causes:",
        f"{WATCH}::test_before_the_first_look_nothing_is_said_to_be_well",
    ),
)
