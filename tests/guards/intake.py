"""The guards of the intake."""

from __future__ import annotations

from tests.guards.guard import Guard

TESTS = "tests/integration/intake/test_intake.py"
OUTAGES = "tests/integration/intake/test_outages.py"

GUARDS = (
    Guard(
        "services: no body is read without the token",
        "@stream_request_body\n",
        "",
        f"{TESTS}::test_no_body_is_read_without_the_token",
    ),
    Guard(
        "services: connections are limited",
        "if len(self._connections) >= CONNECTIONS:",
        "if False:",
        f"{TESTS}::test_connections_are_limited",
    ),
    Guard(
        "services: one question an interval, however many ask for health",
        "now - self._at >= self.interval",
        "True",
        f"{TESTS}::test_health_is_asked_for_once_an_interval",
    ),
    Guard(
        "intake: kombu makes no object of what a request brings",
        'if "__type__" in value:',
        "if False:",
        f"{TESTS}::test_what_is_wrong_is_named_and_nothing_is_recorded",
    ),
    Guard(
        "intake: a request that comes again records nothing",
        'if not database.run("keep_intake_key", now=None, **row):',
        'if database.run("keep_intake_key", now=None, **row) is None:',
        f"{TESTS}::test_requests_of_one_key_at_once_are_recorded_once",
    ),
    Guard(
        "intake: a key stands for one body",
        "if bytes(before) != digest:",
        "if False:",
        f"{TESTS}::test_a_request_that_comes_again_records_nothing",
    ),
    Guard(
        "intake: only tasks of the list are recorded",
        "if not any(fnmatchcase(order.task, pattern) for pattern in allowed):",
        "if not allowed:",
        f"{TESTS}::test_what_is_wrong_is_named_and_nothing_is_recorded",
    ),
    Guard(
        "intake: the tasks of a request are recorded together, or none",
        "        with self._outbox.transaction() as database:\n"
        "            ids = [self._one(order) for order in orders]\n",
        "        ids = [self._one(order) for order in orders]\n"
        "        with self._outbox.transaction() as database:\n",
        f"{TESTS}::test_the_tasks_of_a_request_are_recorded_together",
    ),
    Guard(
        "intake: who gets no answer is told when to come again",
        '            self.set_header("Retry-After", RETRY_AFTER)\n',
        "",
        OUTAGES,
    ),
    Guard(
        "intake: a commit whose answer is lost is known by its key",
        "if key is not None and (known := self._known(key, digest)):",
        "if False:",
        f"{OUTAGES}::test_a_commit_whose_answer_is_lost_is_recorded_once",
        also=(
            'if not database.run("keep_intake_key", now=None, **row):',
            'if database.run("keep_intake_key", now=None, **row) is None:',
        ),
    ),
)
