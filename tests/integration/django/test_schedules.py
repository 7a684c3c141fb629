"""Stored schedules in Django's admin, as Django's own client gets them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.schedules import Schedules
from tests.integration.django.conftest import Site
from tests.integration.django.test_admin import column, listed

LIST = "schedule/"
CHANGES = "schedulechange/"
DANGEROUS = "<script>hacked()</script>"
FORM = {
    "name": "report",
    "task": "proj.report",
    "kind": "cron",
    "value": "0 7 * * mon",
    "zone": "Europe/Paris",
    "args": '[1, "two"]',
    "version": "0",
}


@pytest.fixture(scope="module")
def django(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Django whose admin's database is the one of the schedules."""
    allowed = {"pecker_allowed_tasks": ["proj.*", DANGEROUS]}
    return start(
        shared_dsn, PROJECT_PECKER_DSN=shared_dsn, PROJECT_CONF=json.dumps(allowed)
    )


@pytest.fixture
def site(django: Site) -> Iterator[Site]:
    """Give the Django; no schedule is there before a test."""
    yield django
    with psycopg.connect(django.dsn) as connection:
        connection.execute(
            "truncate pecker_schedules, pecker_schedule_changes, pecker_tasks,"
            " pecker_declarations, pecker_pending, pecker_acts"
        )


@pytest.fixture(scope="module")
def schedules(shared_dsn: str) -> Iterator[Schedules]:
    """Give the same schedules, edited by somebody else."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = shared_dsn
    schedules = Schedules(app)
    yield schedules
    schedules.close()
    app.close()


def store(schedules: Schedules, name: str, schedule: Any = 60, **fields: Any) -> None:
    """Store a schedule as another person."""
    fields = {"task": "proj.report", "by": "alice", **fields}
    schedules.set(name, schedule=schedule, **fields)


def text(answer: dict[str, Any], element: str) -> str:
    """Return the text of an element of a page, by its id."""
    found = re.search(rf'<(\w+)[^>]* id="{element}".*?</\1>', answer["html"], re.DOTALL)
    assert found is not None, answer["html"]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def errors(answer: dict[str, Any]) -> dict[str, str]:
    """Return the errors of a form by field; "" is that of the whole."""
    page = answer["html"]
    found = {}
    for match in re.finditer(
        r'<ul class="errorlist( nonfield)?"[^>]*>(.*?)</ul>', page, re.DOTALL
    ):
        # The list itself names its field from Django 5.2 on; its label, in all of them
        label = re.search(r'for="id_([a-z]+)', page[match.end() :])
        field = "" if match[1] or label is None else label[1]
        text = re.sub(r"<[^>]+>", " ", match[2])
        found[field] = " ".join(html.unescape(text).split())
    return found


def value(answer: dict[str, Any], field: str) -> str:
    """Return what stands in an input of a form."""
    found = re.search(rf'<input[^>]*name="{field}"[^>]*>', answer["html"])
    assert found is not None
    inner = re.search(r'value="([^"]*)"', found[0])
    return html.unescape(inner[1]) if inner else ""


def test_a_schedule_is_added_by_its_form(site: Site, schedules: Schedules) -> None:
    """As `set` would do it, in the name of Django's user."""
    answer = site.post(f"{LIST}add/", **FORM, paused="on")
    assert answer["path"] == "/admin/celery_pecker/schedule/", errors(answer)
    row = schedules.get("report")
    assert row is not None
    assert (row.task, row.args, row.version) == ("proj.report", [1, "two"], 1)
    assert row.schedule == {"cron": "0 7 * * mon", "zone": "Europe/Paris"}
    assert (row.changed_by, row.paused) == ("boss", True)
    [listing] = listed(site.get(LIST))
    assert "Monday" in listing[3]
    assert listing[4] == "paused"
    assert listing[7].startswith("boss, ")


def test_a_schedule_is_changed_by_its_form(site: Site, schedules: Schedules) -> None:
    """The form shows what is stored; nothing that was not changed changes."""
    options = {"queue": "slow"}
    store(
        schedules,
        "report",
        {"cron": "0 7 * * mon"},
        options=options,
        timeout=5,
        paused=True,
    )
    page = site.get(f"{LIST}report/change/")
    assert value(page, "version") == "1"
    assert "paused" in text(page, "pecker-now")
    answer = site.post(
        f"{LIST}report/change/",
        **{**FORM, "value": "0 8 * * mon", "options": '{"queue": "slow"}'}
        | {"timeout": "5", "run": "dispatch", "version": "1"},
    )
    assert answer["path"] == "/admin/celery_pecker/schedule/", errors(answer)
    row = schedules.get("report")
    assert row is not None
    assert row.schedule["cron"] == "0 8 * * mon"
    assert (row.options, row.policies, row.version) == (options, {"timeout": 5}, 2)
    assert row.paused, "the form of a definition does not resume"


@pytest.mark.parametrize(
    ("field", "texts", "words"),
    [
        ("zone", {"zone": "Europe/Atlantis"}, "Europe/Atlantis"),
        ("value", {"value": "0 0 30 2 *"}, "comes at all"),
        ("value", {"kind": "every", "value": "0.01", "zone": ""}, "0.1"),
        ("value", {"kind": "every", "value": "often", "zone": ""}, "a number"),
        ("end", {"start": "2027-01-02", "end": "2027-01-01"}, "end"),
        ("task", {"task": "other.task"}, "pecker_allowed_tasks"),
        ("args", {"args": "{not json"}, "a JSON list"),
        ("kwargs", {"kwargs": "[1]"}, "a JSON object"),
        ("name", {"name": "in code"}, "beat_schedule"),
        ("name", {"name": ""}, "required"),
        ("misfire", {"misfire": "forget"}, "forget"),
    ],
)
def test_what_is_refused_is_said_at_its_field(
    site: Site, schedules: Schedules, field: str, texts: dict[str, str], words: str
) -> None:
    """By the validator of `set`; what was typed stays, and nothing is stored."""
    answer = site.post(f"{LIST}add/", **{**FORM, **texts})
    assert answer["status"] == 200
    assert [*errors(answer)] == [field]
    assert words in errors(answer)[field]
    assert value(answer, "task") == texts.get("task", FORM["task"])
    assert schedules.list() == []


def test_a_name_that_is_there_is_not_overwritten(
    site: Site, schedules: Schedules
) -> None:
    """Adding is no way to change, whichever version the request names."""
    store(schedules, "report")
    for version in ("0", "1", ""):
        answer = site.post(f"{LIST}add/", **{**FORM, "version": version})
        assert "exists already" in errors(answer)["name"]
    row = schedules.get("report")
    assert row is not None
    assert (row.version, row.changed_by) == (1, "alice")


def test_an_edit_of_an_old_version_shows_both(site: Site, schedules: Schedules) -> None:
    """Nothing is written until somebody who has seen both saves again."""
    store(schedules, "report", {"cron": "0 7 * * mon", "zone": "Europe/Paris"})
    mine = {**FORM, "run": "dispatch", "value": "0 9 * * mon", "version": "1"}
    store(schedules, "report", {"cron": "30 6 * * mon", "zone": "Europe/Paris"})
    answer = site.post(f"{LIST}report/change/", **mine)
    assert answer["status"] == 200
    assert "alice has made it version 2 meanwhile" in errors(answer)[""]
    told = text(answer, "pecker-conflict")
    assert "value 30 6 * * mon 0 9 * * mon" in told
    assert "version 2, by alice" in told
    row = schedules.get("report")
    assert row is not None
    assert row.schedule["cron"] == "30 6 * * mon"
    mine["version"] = value(answer, "version")
    assert mine["version"] == "2"
    site.post(f"{LIST}report/change/", **mine)
    row = schedules.get("report")
    assert row is not None
    assert (row.schedule["cron"], row.version) == ("0 9 * * mon", 3)


def test_the_next_runs_are_shown_before_anything_is_saved(
    site: Site, schedules: Schedules
) -> None:
    """By the button, without any script; and by what the script asks."""
    asked = {**FORM, "value": "0 7 23 11 *", "_preview": "1"}
    answer = site.post(f"{LIST}add/", **asked)
    assert "errornote" not in answer["html"]
    runs = re.findall(r'<time datetime="([^"]+)"', answer["html"])
    assert len(runs) == 5
    assert all(run[5:].startswith("11-23T06:00:00") for run in runs)
    assert value(answer, "task") == "proj.report"
    fragment = site.post(f"{LIST}preview/", **asked)
    assert re.findall(r'<time datetime="([^"]+)"', fragment["html"]) == runs
    assert "<html" not in fragment["html"]
    wrong = site.post(f"{LIST}preview/", **{**asked, "zone": "Mars"})
    assert "Mars" in wrong["html"]
    assert "<time" not in wrong["html"]
    assert schedules.list() == []


def test_who_may_not_change_only_looks(site: Site, schedules: Schedules) -> None:
    """Permissions of Django's, for pages, buttons, actions and the preview alike."""
    store(schedules, "report")
    page = site.get(f"{LIST}report/change/", user="watcher")
    assert page["status"] == 200
    assert "<textarea" not in page["html"]
    assert 'name="act"' not in page["html"]
    assert "every minute" in page["html"]
    change = {**FORM, "version": "1"}
    for user in ("watcher", "nobody"):
        for path, data in (
            ("add/", FORM),
            ("report/change/", change),
            ("report/act/", {"act": "pause"}),
            ("report/delete/", {"post": "yes"}),
            ("preview/", FORM),
        ):
            refused = site.post(LIST + path, user=user, **data)
            assert refused["status"] == 403, (user, path)
    site.post(LIST, user="watcher", action="pause", _selected_action="report")
    assert site.get(LIST, user="nobody")["status"] == 403
    assert site.get(f"{LIST}report/history/", user="nobody")["status"] == 403
    assert site.post(f"{LIST}add/", user="editor", **FORM)["status"] == 403
    assert site.post(f"{LIST}report/delete/", user="editor")["status"] == 403
    row = schedules.get("report")
    assert row is not None
    assert (row.version, row.paused) == (1, False)
    site.post(f"{LIST}report/change/", user="editor", **change)
    row = schedules.get("report")
    assert row is not None
    assert (row.version, row.changed_by) == (2, "editor")


def test_schedules_are_run_paused_and_resumed(site: Site, schedules: Schedules) -> None:
    """Several by an action, one by its button; in the user's name."""
    for name in ("one", "two", "three"):
        store(schedules, name)
    with psycopg.connect(site.dsn, autocommit=True) as connection:
        site.post(LIST, action="pause", _selected_action=["one", "two"])
        paused = connection.execute("select name from pecker_tasks where paused")
        assert {name for (name,) in paused} == {"one", "two"}
        page = site.post(f"{LIST}one/act/", act="resume")
        assert "Resumed one" in page["html"]
        page = site.post(f"{LIST}three/act/", act="run")
        assert "Asked for a run of three" in page["html"]
        asked = connection.execute(
            "select name, asked_by from pecker_pending where asked"
        ).fetchall()
        assert asked == [("three", "boss")]
        connection.execute("update pecker_tasks set epoch = 1 where name = 'two'")
        connection.execute(
            "update pecker_declarations set timeout_us = period_us where name = 'two'"
        )
        page = site.post(f"{LIST}two/act/", act="run")
        assert "Not done for two: a run of entry" in page["html"]
        acts = connection.execute(
            "select act, subject, done_by, surface, error is null from pecker_acts"
            " order by id"
        ).fetchall()
    assert acts == [
        *(("schedules pause", one, "boss", "admin", True) for one in ("one", "two")),
        ("schedules resume", "one", "boss", "admin", True),
        ("schedules run", "three", "boss", "admin", True),
        ("schedules run", "two", "boss", "admin", False),
    ]
    assert [(one.change, one.changed_by) for one in schedules.history("one")] == [
        ("resumed", "boss"),
        ("paused", "boss"),
        ("created", "alice"),
    ]


def test_entries_of_code_are_not_paused_by_an_address(
    site: Site, schedules: Schedules
) -> None:
    """The right to change schedules is one for those that are stored."""
    store(schedules, "taken over")
    declare = """insert into pecker_declarations
        (name, task, schedule, delivery, run, stored, declared_until)
        values (%s, 'proj.coded', 'as coded', 'at_most_once', 'dispatch', false,
                clock_timestamp() + interval '1 hour')
        on conflict (name) do update
        set stored = false, declared_until = excluded.declared_until"""
    with psycopg.connect(site.dsn, autocommit=True) as connection:
        connection.execute(
            "insert into pecker_tasks (name, executed_at)"
            " values ('coded', clock_timestamp())"
        )
        for name in ("coded", "taken over"):
            connection.execute(declare, [name])
            for act in ("pause", "run"):
                site.post(f"{LIST}{name.replace(' ', '%20')}/act/", act=act)
        site.post(LIST, action="pause", _selected_action="taken over")
        done = "select name from pecker_tasks where paused union all"
        done += " select name from pecker_pending"
        assert connection.execute(done.encode()).fetchall() == []


def test_schedules_are_removed(site: Site, schedules: Schedules) -> None:
    """One by its page, several by the action; who did it is kept."""
    for name in ("one", "two", "three", "four"):
        store(schedules, name)
    asked = site.get(f"{LIST}one/delete/")
    assert "Are you sure" in asked["html"]
    site.post(f"{LIST}one/delete/", post="yes")
    site.post(
        LIST,
        action="delete_selected",
        _selected_action=["two", "three"],
        post="yes",
    )
    assert [row.name for row in schedules.list()] == ["four"]
    assert column(site.get(LIST), 1) == ["four"]
    assert schedules.history("three")[0].changed_by == "boss"


def test_who_changed_what_is_shown(site: Site, schedules: Schedules) -> None:
    """Field by field, newest first; also of a schedule that is no more."""
    store(schedules, "report", {"cron": "0 7 * * mon"}, args=[DANGEROUS])
    store(schedules, "report", {"cron": "0 8 * * mon"}, by="bob")
    schedules.remove("report", by="carol")
    page = site.get(f"{LIST}report/history/", user="watcher")
    told = text(page, "pecker-changes")
    assert re.search("carol removed.*bob changed.*alice created", told)
    assert '{"cron": "0 7 * * mon"} → {"cron": "0 8 * * mon"}' in told
    assert DANGEROUS in told
    assert DANGEROUS not in page["html"]
    assert column(site.get(CHANGES), 1) == ["removed", "changed", "created"]
    assert column(site.get(CHANGES, q="bob"), 1) == ["changed"]
    assert site.get(CHANGES, user="watcher")["status"] == 403


def test_filters_and_search(site: Site, schedules: Schedules) -> None:
    """By task, kind, state, and a part of a name."""
    store(schedules, "often", 30)
    store(schedules, "mondays", {"cron": "0 7 * * mon"}, paused=True)
    store(schedules, DANGEROUS, {"cron": "0 7 * * tue"}, task=DANGEROUS)
    store(schedules, "broken", 30)
    store(schedules, "shadowed", 30)
    with psycopg.connect(site.dsn) as connection:
        connection.execute(
            """update pecker_schedules set schedule = '{"phase": "full moon"}'
            where name = 'broken'"""
        )
        connection.execute(
            "update pecker_declarations set stored = false where name = 'shadowed'"
        )
    all_of_them = sorted([DANGEROUS, "broken", "mondays", "often", "shadowed"])
    page = site.get(LIST)
    assert sorted(column(page, 1)) == all_of_them
    assert DANGEROUS not in page["html"]
    for query, names in (
        ({"kind": "cron"}, [DANGEROUS, "mondays"]),
        ({"state": "paused"}, ["mondays"]),
        ({"state": "problem"}, ["broken", "shadowed"]),
        ({"state": "active"}, [DANGEROUS, "broken", "often", "shadowed"]),
        ({"state": "done"}, []),
        ({"task": DANGEROUS}, [DANGEROUS]),
        ({"q": "MONDAY"}, ["mondays"]),
        ({"q": "nobody's"}, []),
    ):
        assert sorted(column(site.get(LIST, **query), 1)) == names, query
    page = site.get(f"{LIST}broken/change/")
    assert "full moon" in text(page, "pecker-problem")
    assert "full moon" in html.unescape(page["html"])


@pytest.mark.parametrize(
    ("schedule", "cut"), [("60", False), ("n", True)], ids=["alike", "each of its own"]
)
def test_a_problem_is_found_behind_thousands_or_it_is_said(
    site: Site, schedules: Schedules, schedule: str, cut: bool
) -> None:
    """Of schedules that are alike one is read; of very many others the first ones."""
    store(schedules, "a broken one")
    store(schedules, "zz broken, too")
    store(schedules, "zz hidden by code")
    spoil = """update pecker_schedules set schedule = '{"phase": "full moon"}'
        where name like '%broken%'"""
    many = f"""insert into pecker_schedules (name, task, schedule, version, created_at,
            changed_at, changed_by)
        select 'name ' || n, 'proj.report', jsonb_build_object('every', {schedule}), 1,
            now(), now(), 'ann'
        from generate_series(1, 5001) as n"""  # noqa: S608  # a test's own
    by_code = """update pecker_declarations set stored = false
        where name = 'zz hidden by code'"""
    with psycopg.connect(site.dsn) as connection:
        for statement in (spoil, many, by_code):
            connection.execute(statement.encode())
    page = site.get(LIST, state="problem")
    last = [] if cut else ["zz broken, too"]
    assert sorted(column(page, 1)) == ["a broken one", *last, "zz hidden by code"]
    assert ("5,000 different schedules were read" in page["html"]) == cut


def test_a_name_of_any_letters_has_its_pages(site: Site, schedules: Schedules) -> None:
    """Slashes, quotes, dots, blanks around it and what looks like an address."""
    name = " a/../b?c=d&e#f %2F\"'_5F "
    store(schedules, name)
    links = re.findall(
        r'<th class="field-name"><a href="([^"]+)"', site.get(LIST)["html"]
    )
    [path] = [
        html.unescape(link).removeprefix("/admin/celery_pecker/") for link in links
    ]
    page = site.get(path)
    assert value(page, "name") == name
    answer = site.post(path, **{**FORM, "name": name, "version": "1"})
    assert answer["path"] == "/admin/celery_pecker/schedule/", errors(answer)
    assert [row.name for row in schedules.list()] == [name], "with its blanks"
    assert site.get(path.replace("change/", "history/"))["status"] == 200


def test_another_name_in_the_form_renames(site: Site, schedules: Schedules) -> None:
    """Its history goes with it; a name that somebody has is refused at its field."""
    store(schedules, "report")
    store(schedules, "taken")
    path = f"{LIST}report/change/"
    refused = site.post(path, **{**FORM, "name": "taken", "version": "1"})
    assert "a stored schedule has it" in errors(refused)["name"]
    answer = site.post(
        path, **{**FORM, "name": "an/other", "version": "1", "_continue": "1"}
    )
    assert answer["path"] == "/admin/celery_pecker/schedule/an_2Fother/change/"
    assert answer["status"] == 200
    assert [row.name for row in schedules.list()] == ["an/other", "taken"]
    changes = [one.change for one in schedules.history("an/other")]
    assert changes == ["changed", "renamed", "created"]
    history = site.get(f"{LIST}an_2Fother/history/")["html"]
    assert "renamed from report" in history
    assert "renamed to an/other" in site.get(f"{LIST}report/history/")["html"]


def test_an_edit_is_part_of_the_requests_transaction(
    site: Site, schedules: Schedules
) -> None:
    """What fails after the edit undoes it: it joined the block of the admin."""
    answer = site.post(f"{LIST}add/", **{**FORM, "name": "fails when it is logged"})
    assert answer["status"] == 500
    assert schedules.list() == []


def test_where_the_admin_looks_at_another_database_edits_go_to_pecker_dsn(
    shared_dsn: str, empty_dsn: str, start: Callable[..., Site], schedules: Schedules
) -> None:
    """The pages then say what they cannot read; `pecker_dsn` is never guessed."""
    del shared_dsn, schedules
    site = start(empty_dsn, PROJECT_PECKER_DSN=empty_dsn)
    answer = site.get(LIST)
    assert answer["path"] == "/admin/"
    assert "pecker migrate" in html.unescape(answer["html"])


def test_without_a_celery_app_the_page_says_so(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """The outbox can be looked at all the same."""
    site = start(shared_dsn)
    answer = site.get(f"{LIST}add/")
    assert answer["path"] == "/admin/"
    assert "No Celery app is loaded" in html.unescape(answer["html"])
    assert site.get("outboxmessage/")["status"] == 200
