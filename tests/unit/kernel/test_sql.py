"""Rules of the SQL files: labels, one clock, nothing that a pooler would trip over."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

import pytest

import celery_pecker
import celery_sharding
from celery_pecker.kernel.migrations import FIRST
from celery_pecker.kernel.sql import (
    _DESCRIBED,
    _labelled,
    _with_comments,
    migrations,
    render,
    statements,
)
from tests.parsed import parse_file

HOUSES = {
    house.__name__: Path(house.__path__[0])
    for house in (celery_pecker, celery_sharding)
}
FOLDERS = {
    "celery_pecker": files("celery_pecker.kernel.sql"),
    "celery_sharding": files("celery_sharding.sql"),
}
TEXT = {
    (package, file.name): file.read_text(encoding="utf-8")
    for package, folder in FOLDERS.items()
    for file in folder.iterdir()
    if file.name.endswith(".sql")
}
EVERY = {
    f"{package}:{label}": text
    for package in HOUSES
    for label, text in statements(package).items()
}
COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
CLOCK = re.compile(
    r"with clock as materialized \(\s*select coalesce\(%\(now\)s::timestamptz,"
    r" clock_timestamp\(\)\) as now\s*\)"
)
READS_TIME = re.compile(
    r"clock_timestamp|\bnow\s*\(|current_time|current_date|localtime|statement_timestamp"
    r"|transaction_timestamp|timeofday|'now'|'today'|'tomorrow'|'yesterday'"
)
SESSION = re.compile(
    r"^\s*(set|reset|listen|notify|prepare|discard|declare|lock)\s"
    r"|advisory|set_config|temp(orary)? table"
)
OF_TRANSACTION = re.compile(r"set_config\(\s*'\w+',[^;]*?, true\)")
RUNS = {"run", "run_one", "change", "change_one", "copy"}
RUNS |= {"_run", "_run_one", "_change", "_change_one", "_numbers"}
READS = {"read", "_read", "_read_one"}
"""Calls whose second argument is the label: the first makes something of a row."""

FENCE = re.compile(r"= %\((epoch|seq)\)s")
WRITES = re.compile(r"\b(update|delete from|insert into) \{schema\}")
FENCED = {
    "celery_pecker": {"close_outbox_batch", "end_outbox_run", "fail_outbox_run"},
    "celery_sharding": {"renew_stage", "end_plan", "end_post"},
}
"""Some of the statements that write under one fencing token."""
ONE_ROW = {"change_one", "run_one", "one_row"}
ONE_ROW |= {"_change_one", "_run_one", "_read_one"}
OTHERWISE = {
    "start_outbox_run",  # its answer is one row with the verdict, whatever it wrote
    "claim_shards",  # claims many shards under one ticket
    "hold_observer",  # by its primary key, over a connection of the user's
}

houses = pytest.mark.parametrize("package", [*HOUSES])


def code(text: str) -> str:
    """Return a statement without its comments."""
    return COMMENT.sub(" ", text)


def constants(package: str) -> set[str]:
    """Return every string in the package's code."""
    return {
        node.value
        for path in HOUSES[package].rglob("*.py")
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def calls(
    package: str, names: set[str], receivers: tuple[str, ...] = ("",)
) -> set[str]:
    """Return the labels in calls of methods of these names, of such receivers."""
    return {
        label.value
        for path in HOUSES[package].rglob("*.py")
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and ast.unparse(node.func.value).endswith(receivers)
        and len(node.args) > (node.func.attr in READS)
        and isinstance(label := node.args[node.func.attr in READS], ast.Constant)
        and isinstance(label.value, str)
    }


def run_by_name(package: str) -> set[str]:
    """Return the labels in calls of the seam."""
    return calls(package, RUNS | READS, ("database", "self"))


@houses
def test_every_statement_that_is_used_is_there_and_none_is_left_over(
    package: str,
) -> None:
    """A label that is misspelt fails here, not at the first broken claim."""
    labels = {*statements(package)}
    assert {"claim_due", "claim_shards"} & run_by_name(package)
    assert run_by_name(package) <= labels
    # A package that stands on the kernel lends it its seam: figures are written so.
    assert labels <= constants(package) | constants("celery_pecker")


def test_a_label_stands_once_and_before_each_statement() -> None:
    """Nothing in a file is without one: it would belong to the statement before."""
    for (package, name), text in TEXT.items():
        marks = re.findall(rf"/\* (?:{package}|part):\w+ \*/", text)
        assert len(marks) == len(set(marks)), name
        assert text.startswith(marks[0]), name
    labelled = re.compile(r"/\* (celery_pecker|celery_sharding):")
    assert sum(len(labelled.findall(text)) for text in TEXT.values()) == len(EVERY)


def test_two_statements_of_one_label_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second would silently replace the first."""
    text = "/* celery_pecker:one */\nselect 1\n"
    monkeypatch.setattr(
        "celery_pecker.kernel.sql._files", lambda _: [("a", text), ("b", text)]
    )
    with pytest.raises(
        ValueError, match="two statements are labelled celery_pecker:one"
    ):
        _labelled.__wrapped__("celery_pecker")


def test_parts_stand_in_statements_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their arguments, without their comments; what there is not is refused."""
    text = """
/* part:later */
-- Of two.
greatest($1, {first})
/* part:first */
(select 1)
/* celery_sharding:one */
-- A comment.
update {schema}.t set a = {later(b + 2)}, {excluded(c, d)}
/* celery_sharding:two */
select {nothing}
"""
    one, two = text.split("/* celery_sharding:two */")
    files = {"celery_pecker": [], "celery_sharding": [("a", one)]}
    monkeypatch.setattr("celery_pecker.kernel.sql._files", files.__getitem__)
    monkeypatch.setattr("celery_pecker.kernel.sql._labelled", _labelled.__wrapped__)
    assert statements.__wrapped__("celery_sharding") == {
        "one": "/* celery_sharding:one */\n-- A comment.\nupdate {schema}.t set"
        " a = greatest(b + 2, (select 1)), c = excluded.c, d = excluded.d"
    }
    files["celery_sharding"].append(("b", f"/* celery_sharding:two */{two}"))
    with pytest.raises(ValueError, match="statements is labelled nothing"):
        statements.__wrapped__("celery_sharding")


def test_each_part_is_shared() -> None:
    """What only one statement has stands in that statement."""
    steps = (FOLDERS["celery_pecker"] / "migrations").iterdir()
    whole = "".join([*TEXT.values(), *(step.read_text("utf-8") for step in steps)])
    for part in re.findall(r"/\* part:(\w+) \*/", whole):
        assert len(re.findall(rf"\{{{part}[(}}]", whole)) > 1, part


@houses
def test_a_write_under_one_fence_changes_one_row_at_most(package: str) -> None:
    """Its call raises TooManyRows for more: that is a bug, and no lost lease (I3)."""
    fenced = {
        label
        for label, text in statements(package).items()
        if FENCE.search(code(text)) and WRITES.search(code(text))
    }
    assert fenced >= FENCED[package]
    assert fenced - OTHERWISE <= calls(package, ONE_ROW)


def test_a_statement_is_one_and_begins_with_its_label() -> None:
    """So `pg_stat_activity` shows the label, however long the statement is."""
    for label, text in EVERY.items():
        assert text.startswith(f"/* {label} */\n")
        assert ";" not in code(text), f"{label}: two statements, or the end of one"


def test_time_is_read_once_and_only_in_the_clock() -> None:
    """One instant per statement, that an index can serve and a test can set (I1)."""
    for label, whole in EVERY.items():
        text = code(whole)
        assert not READS_TIME.search(CLOCK.sub(" ", text)), label
        assert len(CLOCK.findall(text)) <= 1, label
        assert text.count("%(now)s") == len(CLOCK.findall(text)), label
        # tests shadow clock_timestamp() by search_path
        assert "pg_catalog." not in text, label


def test_a_statement_leaves_no_trace_in_its_session() -> None:
    """A transaction pooler gives the next one to another session.

    What is set for a transaction (set_config's third argument) is gone with it.
    """
    for label, text in EVERY.items():
        assert not SESSION.search(OF_TRANSACTION.sub("", code(text))), label


def test_tables_are_named_with_their_schema() -> None:
    """`search_path` is the user's, and is not set."""
    for label, text in EVERY.items():
        rest = re.sub(r"\{schema\}\.pecker_\w+", "", code(text))
        assert re.findall(r"(?<![.\w}])pecker_\w+", rest) == [], label
    assert render("{schema}.t", 'a"b') == '"a""b".t'


WAITS = {
    f"celery_pecker:{of}"
    for of in (
        *("lock_entries", "anchor_changed", "lock_reports", "end_observer_node"),
        "change_alarm",
    )
}
"""Edits go behind edits before them, by name, and a start behind another start; claims
pass over their rows. A rename goes behind reports, in their order, and the end of a
host behind a renewal of its one row, as its update would; who acts on an alarm behind
who acts on it."""


def test_every_write_takes_rows_in_an_order_or_passes_over_locked_ones() -> None:
    """Rivals neither wait for one another nor dead-lock (I4)."""
    adds = re.compile(r"insert into \{schema\}\.pecker_(tasks|declarations)\b")
    for label, text in EVERY.items():
        if "for update" in code(text) and label not in WAITS:
            assert "skip locked" in code(text), label
        if adds.search(code(text)):
            assert "order by" in code(text), label


def test_the_rules_see_what_they_should() -> None:
    """They are no rules if they find nothing."""
    clock = statements()["claim_due"].partition("),\n")[0] + ")"
    assert not READS_TIME.search(CLOCK.sub(" ", code(clock)))
    for wrong in ("select now()", "clock_timestamp()", "where at < current_timestamp"):
        assert READS_TIME.search(CLOCK.sub(" ", f"{code(clock)}, {wrong}")), wrong
    for wrong in ("set local x = 1", "listen a", "select pg_advisory_lock(1)"):
        assert SESSION.search(wrong), wrong


def test_migrations_are_one_line_without_gaps() -> None:
    """Numbered on from the first; none is readable only by code that came after it."""
    line = migrations()
    assert [step.version for step in line] == [*range(FIRST, FIRST + len(line))]
    assert len({step.name for step in line}) == len(line)
    for step in line:
        assert 1 <= step.readable_from <= step.version
        assert "{schema}" in step.text
        assert not re.search(r"\b(begin|commit|rollback)\s*;", code(step.text))
        assert "--:" not in step.text, "a comment of nothing: PostgreSQL would lack it"


def test_what_a_migration_tells_of_a_table_postgresql_gets_as_comments() -> None:
    """Above the table or column; over lines; other comments and parts stay."""
    text = """
-- Why.
--: of all: whose
--: it is
create table {schema}.t (
    --: its key; null: none
    id bigint primary key,
    -- Why.
    --: "as given"
    day text default ')',
    rest text
) with (
    fillfactor = 50
);
create index t_day on {schema}.t (day);
"""
    assert (
        _DESCRIBED.sub(_with_comments, text)
        == """
-- Why.
create table {schema}.t (
    id bigint primary key,
    -- Why.
    day text default ')',
    rest text
) with (
    fillfactor = 50
);
comment on table {schema}.t is
    'of all: whose it is';
comment on column {schema}.t.id is
    'its key; null: none';
comment on column {schema}.t.day is
    '"as given"';
create index t_day on {schema}.t (day);
"""
    )
    assert "some replica''s code" in migrations()[0].text
