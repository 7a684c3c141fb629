"""sqlalchemy-celery-beat: a model for each entry, through SQLAlchemy and psycopg."""

from __future__ import annotations

from celery import Celery
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL
from sqlalchemy_celery_beat.models import IntervalSchedule, Period, PeriodicTask
from sqlalchemy_celery_beat.schedulers import session_manager
from sqlalchemy_celery_beat.session import session_cleanup

from benchmarks.peers.environment import TASK, entry, every, given


def address() -> str:
    """Return the DSN as SQLAlchemy writes it."""
    parts = {key: str(value) for key, value in conninfo_to_dict(given("DSN")).items()}
    url = URL.create(
        "postgresql+psycopg",
        username=parts.pop("user", None),
        password=parts.pop("password", None),
        host=parts.pop("host", None),
        port=int(parts.pop("port", 5432)),
        database=parts.pop("dbname", None),
        query=parts,
    )
    return url.render_as_string(hide_password=False)


def configure(app: Celery) -> None:
    """The app finds its entries by SQLAlchemy."""
    app.conf.update(
        beat_dburi=address(),
        beat_schema=given("SCHEMA"),
        beat_max_loop_interval=1,
    )


def load(_app: Celery, entries: int) -> None:
    """The tables are there, and the entries in them."""
    schema = given("SCHEMA")
    engine, new_session = session_manager.create_session(address(), schema=schema)
    session_manager.prepare_models(engine, schema=schema)
    session = new_session()
    with session_cleanup(session):
        interval = IntervalSchedule(every=int(every()), period=Period.SECONDS)
        session.add(interval)
        session.flush()
        session.add_all(
            PeriodicTask(
                name=entry(number),
                task=TASK,
                args=f"[{number}]",
                schedule_id=interval.id,
                discriminator=interval.discriminator,
            )
            for number in range(entries)
        )
        session.commit()
