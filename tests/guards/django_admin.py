"""Guards of stored schedules in Django's admin."""

from __future__ import annotations

from tests.guards.guard import Guard

TESTS = "tests/integration/django/test_schedules.py"

GUARDS = (
    Guard(
        "django: the right to change schedules pauses no entry of code",
        "if self._only is not None and name not in self._only:",
        "if False:",
        f"{TESTS}::test_entries_of_code_are_not_paused_by_an_address",
    ),
    Guard(
        "django: who may only add changes nothing",
        "adding = self.known is None",
        "adding = False",
        f"{TESTS}::test_a_name_that_is_there_is_not_overwritten",
    ),
    Guard(
        "django: a page of a message is of the outbox of its list",
        'parse_qs(query.get(PRESERVED, ""))',
        'parse_qs("")',
        "tests/integration/django/test_outboxes.py"
        "::test_the_page_of_a_message_is_of_the_same_outbox",
    ),
    Guard(
        "django: problems behind thousands of schedules are found",
        "rows.iterator(chunk_size=CHUNK):\n",
        "rows[:EXAMINED]:\n",
        f"{TESTS}::test_a_problem_is_found_behind_thousands_or_it_is_said",
    ),
    Guard(
        "django: an edit is part of the request's transaction",
        "if project.why_without_tables(alias) is not None:",
        "if True:",
        f"{TESTS}::test_an_edit_is_part_of_the_requests_transaction",
    ),
    Guard(
        "django: an edit is in the name of Django's user",
        "schedules().set(**fields, by=self.by, connection=connection)",
        "schedules().set(**fields, connection=connection)",
        f"{TESTS}::test_a_schedule_is_added_by_its_form",
    ),
    Guard(
        "django: a form is for the version that it showed",
        "self.store.change(old, **options)",
        'self.store.change(old, **{**options, "version": None})',
        f"{TESTS}::test_an_edit_of_an_old_version_shows_both",
    ),
    Guard(
        "django: a preview writes nothing",
        "            if self.previewing:\n                return\n",
        "",
        f"{TESTS}::test_the_next_runs_are_shown_before_anything_is_saved",
    ),
    Guard(
        "django: the form of a definition does not resume",
        'del self.fields["paused"]',
        'self.fields["paused"].required = False',
        f"{TESTS}::test_a_schedule_is_changed_by_its_form",
    ),
    Guard(
        "django: buttons of a schedule need the permission to change",
        "        if not self.has_change_permission(request):\n"
        "            raise PermissionDenied\n"
        "        name, word",
        "        name, word",
        f"{TESTS}::test_who_may_not_change_only_looks",
    ),
    Guard(
        "django: actions on schedules need the permission to change",
        "@admin.action(description=act.label, permissions=[act.permission])",
        "@admin.action(description=act.label)",
        f"{TESTS}::test_who_may_not_change_only_looks",
    ),
)
