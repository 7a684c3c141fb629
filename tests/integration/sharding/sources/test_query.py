"""Rows of a query, cut and read on a real server."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import psycopg
import pytest

from celery_sharding import codec
from celery_sharding.errors import (
    DatabaseUnavailable,
    DuplicateKey,
    Misconfigured,
    ShardingError,
)
from celery_sharding.model import Options, Planned
from celery_sharding.plan import cut
from celery_sharding.sources import KEYS, Query, Source, Unreadable, read


@pytest.fixture
def rows(empty_dsn: str) -> str:
    """Give a database with a table of 1,000 rows."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(
            'create table t (id integer, "a key" text, kind text, name text)'
        )
        connection.execute("create sequence s")
        connection.execute(
            "insert into t select n, 'k%' || n, 'kind' || n % 3, 'name' || n"
            " from generate_series(1, 1000) as n"
        )
    return empty_dsn


def joined(parts: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the items of all parts, in order."""
    return [*chain.from_iterable(parts)]


def rows_of(shard: Planned, conf: dict[str, Any]) -> list[Any]:
    """Return the items of a shard, read from what is stored of it."""
    assert shard.body is not None
    reference = codec.decode(codec.encode(shard.reference))
    return [*read(reference, conf, codec.decode(shard.body))]


def found(source: Source, conf: dict[str, Any], most: int = 70) -> list[list[Any]]:
    """Return the items of each shard."""
    shards = [*cut(source, Options(size=(1, most)), 4, conf=conf)]
    items = [rows_of(shard, conf) for shard in shards]
    assert [len(own) for own in items] == [shard.count for shard in shards]
    return items


def test_every_row_is_in_one_part(rows: str) -> None:
    """As dicts, by the key, balanced within one."""
    conf = {"mine": rows}
    source = Query("select id, name from t -- all", key="id", dsn="mine")
    parts = found(source, conf)
    assert len(parts) == 16
    assert {len(part) for part in parts} == {62, 63}
    assert joined(parts) == [{"id": n, "name": f"name{n}"} for n in range(1, 1001)]


def test_one_column_is_values(rows: str) -> None:
    """A processor that is given keys needs no dict around each."""
    source = Query(
        "select id from t where kind = %(kind)s", {"kind": "kind1"}, key="id"
    )
    assert joined(found(source, {"pecker_dsn": rows})) == [*range(1, 1001, 3)]


def test_per_cent_signs_are_themselves_without_parameters(rows: str) -> None:
    """In the statement, in the key's name and in keys; keys may be text."""
    text = 'select "a key" as "a% key" from t where name like \'name1%\''
    parts = found(Query(text, key="a% key"), {"pecker_dsn": rows}, most=3)
    keys = joined(parts)
    assert len(keys) == len(set(keys)) == 112
    assert "k%1000" in keys


@pytest.mark.parametrize(
    "made",
    [
        "n::numeric / 7",
        "md5(n::text)::uuid",
        "timestamptz 'epoch' + n * '1 h'::interval",
    ],
)
def test_keys_of_any_type_that_has_an_order(rows: str, made: str) -> None:
    """They travel as texts, and the server reads them as what they were."""
    text = f"select {made} as k from generate_series(1, 100) as n"  # noqa: S608
    assert len(joined(found(Query(text, key="k"), {"pecker_dsn": rows}, 9))) == 100


def test_no_rows_are_no_parts(rows: str) -> None:
    """And no error: Post runs with nothing."""
    source = Query("select id from t where false", key="id")
    assert found(source, {"pecker_dsn": rows}) == []


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("select 7 as k from t", DuplicateKey, "more than one row has the key '7'"),
        (
            "select case when id = 5 then 4 else id end as k from t",
            DuplicateKey,
            "more than one row has the key '4'",
        ),
        ("select nullif(id, 5) as k from t", Misconfigured, "1 of 1000 rows have no"),
        ("select no from t", Misconfigured, 'refused the query: column "no" does'),
        ("select id from t", Misconfigured, "column q.k does not exist"),
        ("delete from t returning id as k", Misconfigured, "refused the query"),
        ("select nextval('s') as k", Misconfigured, "in a read-only transaction"),
    ],
)
def test_a_query_that_cannot_be_cut_is_refused(
    rows: str, text: str, error: type[Exception], said: str
) -> None:
    """While the job is planned: nothing of it was stored."""
    with pytest.raises(error, match=said):
        found(Query(text, key="k"), {"pecker_dsn": rows})


def test_a_row_that_is_no_more_stands_in_its_place(rows: str) -> None:
    """It fails alone: the others are where they were, and later ones are left out."""
    conf = {"pecker_dsn": rows}
    source = Query("select id, name from t", key="id")
    first, second, *_ = cut(source, Options(size=(1, 100)), 1, conf=conf)
    before = rows_of(first, conf)
    with psycopg.connect(rows, autocommit=True) as connection:
        connection.execute("delete from t where id in (1, 7, 100)")
        connection.execute("alter table t alter column id type numeric")
        connection.execute("insert into t values (6.5, 'k', 'kind', 'later')")
    again = rows_of(first, conf)
    gone = [row for row in again if isinstance(row, Unreadable)]
    assert [row.text for row in gone] == ["1", "7", "100"]
    assert "has no row of the key '7' any more" in gone[1].reason
    assert [again.index(row) for row in gone] == [0, 6, 99]
    for place in (0, 6, 99):
        again[place] = before[place]
    assert again == before
    assert len(rows_of(second, conf)) == 100
    with psycopg.connect(rows, autocommit=True) as connection:
        connection.execute("delete from t")
    assert {type(row) for row in rows_of(first, conf)} == {Unreadable}


def test_a_key_of_which_there_are_several_rows_by_now_fails_alone(rows: str) -> None:
    """Items behind it would be others, and be repeated in the place of others."""
    conf = {"pecker_dsn": rows}
    source = Query("select id, name from t", key="id")
    first, *_ = cut(source, Options(size=(1, 100)), 1, conf=conf)
    before = rows_of(first, conf)
    with psycopg.connect(rows, autocommit=True) as connection:
        connection.execute("insert into t values (7, 'k', 'kind', 'twin')")
    again = rows_of(first, conf)
    assert isinstance(again[6], Unreadable)
    assert "has several rows of the key '7'" in again[6].reason
    again[6] = before[6]
    assert again == before


def test_keys_are_not_in_the_row_that_each_claim_reads(rows: str) -> None:
    """They are stored where the items of other shards are."""
    source = Query("select id from t", key="id")
    first = next(cut(source, Options(size=(1, 100)), 1, conf={"pecker_dsn": rows}))
    assert first.reference is not None
    assert first.reference["part"] == {"first": "1", "last": "100", "count": 100}


def test_rows_that_are_no_more_are_missed_where_keys_are_not_known(rows: str) -> None:
    """In the part of a plan that an older version wrote."""
    conf = {"pecker_dsn": rows}
    source = Query("select id from t", key="id")
    first = next(cut(source, Options(size=(1, 100)), 1, conf=conf))
    assert first.reference is not None
    with psycopg.connect(rows, autocommit=True) as connection:
        connection.execute("delete from t where id = 7")
    with pytest.raises(ShardingError, match="has 99 rows from '1' to '100', and had"):
        next(read(first.reference, conf))


def test_where_the_rows_are_is_a_setting_by_name(rows: str) -> None:
    """Secrets stand in no message and in no table."""
    source = Query("select id from t", key="id", dsn="mine")
    with pytest.raises(Misconfigured, match="the app has no setting mine that"):
        found(source, {"pecker_dsn": rows})
    with pytest.raises(Misconfigured, match="setting mine is no PostgreSQL") as caught:
        found(source, {"mine": "secret"})
    assert "secret" not in str(caught.value)


def test_a_server_that_does_not_answer_is_no_fault_of_the_query(rows: str) -> None:
    """Another time it may: the job is not failed for it."""
    slow = Query("select 1 as k, pg_sleep(60)", key="k", timeout=0.2)
    with pytest.raises(DatabaseUnavailable, match="of pecker_dsn gave no answer"):
        found(slow, {"pecker_dsn": rows})
    with pytest.raises(DatabaseUnavailable):
        found(slow, {"pecker_dsn": "host=127.0.0.1 port=1"})


ESCAPE = """
    select id from t) as q; commit; create table made (n int); begin;
    select {columns} from (select 1 as id"""


@pytest.mark.parametrize("columns", ["count(*), count(*)", "1"])
@pytest.mark.parametrize("params", [None, {}, {"kind": "kind1"}])
def test_a_query_is_one_statement_that_only_reads(
    rows: str, columns: str, params: dict[str, Any] | None
) -> None:
    """Whoever can have it written may not write himself, with parameters or without."""
    source = Query(ESCAPE.format(columns=columns), params, key="id")
    conf = {"pecker_dsn": rows}
    with pytest.raises(Misconfigured, match="cannot insert multiple commands"):
        [*cut(source, Options(), 1, conf=conf)]
    part = {"first": "1", "last": "9", "count": 1}
    with pytest.raises(Misconfigured, match="cannot insert multiple commands"):
        [*source.read(part, conf)]
    with pytest.raises(Misconfigured, match="syntax error"):
        [*source.read({**part, KEYS: "{1}"}, conf)]
    with psycopg.connect(rows) as connection:
        assert connection.execute("select to_regclass('made')").fetchone() == (None,)


def test_a_query_cannot_write(rows: str) -> None:
    """Its transaction is read-only, and a query cannot change that."""
    for call in ("nextval('s')", "set_config('transaction_read_only', 'off', false)"):
        source = Query(f"select 1 as id, {call}", key="id")
        with pytest.raises(Misconfigured, match=r"read-only|read-write"):
            [*cut(source, Options(), 1, conf={"pecker_dsn": rows})]
