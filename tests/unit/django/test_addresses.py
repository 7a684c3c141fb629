"""Whether two connection strings name one database."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from celery_pecker.django.project import same

ENVIRON = {"PGHOST": "db1", "PGDATABASE": "app"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://a@db1/app", "host=DB1 port=5432 user=b dbname=app"),
        ("host=localhost dbname=app", "dbname=app"),
        ("host=/run/postgresql dbname=app", "host=127.0.0.1 dbname=app"),
        ("host=db1,db2 dbname=app", "host=db2 dbname=app"),
        ("host=db1,db2 port=1,2 dbname=app", "host=db2 port=2 dbname=app"),
        ("user=app", "dbname=app"),
        ("service=one user=a", "service=one user=b"),
    ],
)
def test_the_same(one: str, other: str) -> None:
    """Whatever way it is written, and whoever enters."""
    first, second = conninfo_to_dict(one), conninfo_to_dict(other)
    assert same(first, second, {})
    assert same(second, first, {})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("host=db1 dbname=app", "host=db1 dbname=test_app"),
        ("host=db1 dbname=app", "host=db2 dbname=app"),
        ("host=db1 port=6432 dbname=app", "host=db1 dbname=app"),
        ("host=db1,db2 port=1,2 dbname=app", "host=db2 port=1 dbname=app"),
        ("service=one", "service=two"),
        ("service=one", "host=db1 dbname=app"),
    ],
)
def test_not_the_same(one: str, other: str) -> None:
    """A name, a host or a port differs; what a service says is not known here."""
    first, second = conninfo_to_dict(one), conninfo_to_dict(other)
    assert not same(first, second, {})
    assert not same(second, first, {})


def test_the_environment_fills_in_what_is_not_said() -> None:
    """As libpq does."""
    assert same(conninfo_to_dict("user=x"), {"host": "db1", "dbname": "app"}, ENVIRON)
    assert not same(conninfo_to_dict("user=x"), {"dbname": "app"}, {})
