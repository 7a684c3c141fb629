"""The guards of schedules that people edit on Flower's pages."""

from __future__ import annotations

from tests.guards.guard import Guard

TESTS = "tests/integration/flower/test_stored.py"

GUARDS = (
    Guard(
        "flower: data is not for a name that another site gives to this address",
        "if not (options.basic_auth or options.auth or name in known or is_ip(name)):",
        "if not name:",
        "tests/integration/flower/test_install.py::test_data_is_not_for_other_sites",
    ),
    Guard(
        "flower: data is not for scripts of other sites",
        '            self.clear_header(f"Access-Control-Allow-{name}")\n',
        "            pass\n",
        "tests/integration/flower/test_install.py::test_data_is_not_for_other_sites",
    ),
    Guard(
        "flower stored: nobody acts without Flower's authentication",
        '    @authenticated\n    async def post(self) -> None:\n        """Do it',
        '    async def post(self) -> None:\n        """Do it',
        f"{TESTS}::test_who_is_signed_out_edits_nothing",
    ),
    Guard(
        "flower stored: a form is shown to nobody without Flower's authentication",
        '    @authenticated\n    async def get(self) -> None:\n        """Show it',
        '    async def get(self) -> None:\n        """Show it',
        f"{TESTS}::test_who_is_signed_out_edits_nothing",
    ),
    Guard(
        "flower stored: the page's own token is asked for, also where Flower would not",
        "        RequestHandler.check_xsrf_cookie(self)\n",
        "",
        f"{TESTS}::test_a_forged_form_changes_nothing",
    ),
    Guard(
        "flower stored: a page of another site changes nothing",
        '"Sec-Fetch-Site", "same-origin") != "same-origin"',
        '"Sec-Fetch-Site", "same-origin") == "nowhere"',
        f"{TESTS}::test_a_forged_form_changes_nothing",
    ),
    Guard(
        "flower stored: a read-only Flower edits nothing",
        "        if self.refusal:\n            answer(self, 403",
        "        if False:\n            answer(self, 403",
        f"{TESTS}::test_a_read_only_flower_edits_nothing",
    ),
    Guard(
        "flower stored: nothing is edited unless tasks are allowed",
        "    if why:\n        raise Refused(why",
        "    if False:\n        raise Refused(why",
        f"{TESTS}::test_nothing_is_edited_unless_tasks_are_allowed",
    ),
    Guard(
        "flower stored: a task that is not allowed is not scheduled",
        "any(fnmatchcase(task, one) for one in allow_list)",
        "True",
        f"{TESTS}::test_a_task_that_is_not_allowed_is_not_scheduled",
    ),
    Guard(
        "flower stored: a form without a version is not saved over somebody's edit",
        '    if arguments.get("version") is None:\n',
        "    if False:\n",
        f"{TESTS}::test_what_is_not_allowed_is_refused_at_its_field",
    ),
    Guard(
        "flower stored: a form changes the schedule that it is of, and no other",
        'schedules.change(name or arguments["name"], **arguments, by=by)',
        "schedules.set(**arguments, by=by)",
        f"{TESTS}::test_another_name_in_the_form_renames",
    ),
    Guard(
        "flower stored: a schedule that cannot be read stands in the form to be mended",
        "    if row.problem not in {None, BY_CODE}:\n",
        "    if row.problem is ...:\n",
        f"{TESTS}::test_a_row_that_cannot_be_read_is_shown_and_can_be_mended",
    ),
    Guard(
        "flower stored: who edits is noted as Flower knows them",
        ", **arguments, by=by)",
        ", **arguments)",
        f"{TESTS}::test_a_schedule_is_added_changed_and_removed",
    ),
)
