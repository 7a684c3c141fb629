"""What hosts and callers would have left of observers."""

from __future__ import annotations

import psycopg

from celery_pecker.kernel.clock import new_id

LONG = "market/" + "BTC-USD.PERPETUAL/" * 3 + "order book"
"""A name that is longer than a short line."""


def write_observers(dsn: str) -> dict[str, str]:
    """Leave just these hosts and observers; return the ids of hosts by name.

    Host a holds 4 of 5, b drains and holds nothing, the lease of c is over. One
    observer runs, one is tried again, one stops, one waits for 90 s, one is parked.
    """
    ids = {name: str(new_id()) for name in ("a", "b", "c")}
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "truncate pecker_observers, pecker_observer_nodes, pecker_observer_kinds,"
            " pecker_observer_history, pecker_observer_notices restart identity"
        )
        connection.execute(
            "insert into pecker_observer_kinds (kind, weight, seen_at)"
            " values ('watch', 1, now()), ('heavy', 5, now())"
        )
        for name, state, capacity, lease in (
            ("a", "up", 5, "1 hour"),
            ("b", "draining", 10, "1 hour"),
            ("c", "up", 10, "-1 second"),
        ):
            connection.execute(
                "insert into pecker_observer_nodes (node, name, pid, capacity, kinds,"
                " state, ttl, since, leased_until, started_at) values (%s, %s, 7, %s,"
                " '{watch,heavy}', %s, '5 s', now(), now() + %s::interval, now())",
                [ids[name], name, capacity, state, lease],
            )
        rows: tuple[tuple[str, str, str | None, dict[str, object]], ...] = (
            (LONG, "processing", "a", {"weight": 2, "moves": 3}),
            ("retry", "processing", "a", {"not_before": "1 hour", "failures": 1}),
            ("leave", "on_deleting", "a", {}),
            ("wait", "created", None, {"not_before": "-90 s", "modified": "-90 s"}),
            ("bad", "processing", None, {"parked": True, "kind": "heavy"}),
            ("old", "deleted", None, {}),
        )
        for name, status, node, extra in rows:
            _insert(connection, name, status, ids.get(node or ""), extra)
        connection.execute(
            "insert into pecker_observer_history (observer, name, kind, event, node,"
            " epoch, at, error) select id, name, kind, e.event, %s, e.epoch,"
            " now() + e.epoch * interval '1 second', e.error"
            " from pecker_observers, (values ('created', 0, null),"
            " ('started', 1, null), ('failed', 2, 'ConnectionError: <b>no</b> route'),"
            " ('parked', 3, null)) as e (event, epoch, error) where name = 'bad'",
            [ids["a"]],
        )
    return ids


def _insert(
    connection: psycopg.Connection[tuple[object, ...]],
    name: str,
    status: str,
    node: str | None,
    extra: dict[str, object],
) -> None:
    parked = extra.get("parked", False)
    connection.execute(
        "insert into pecker_observers (name, kind, args, weight, status, node, epoch,"
        " not_before, failures, moves, parked_at, last_error, state, created_at,"
        """ modified_at) values (%s, %s, '{"symbol": "BTC"}', %s, %s, %s, %s,"""
        " now() + %s::interval, %s, %s, case when %s then now() end, %s,"
        """ '{"seq": 7}', now() - interval '1 hour', now() + %s::interval)""",
        [
            *(name, extra.get("kind", "watch"), extra.get("weight", 1), status, node),
            *(int(status != "created"), extra.get("not_before", "-1 hour")),
            *(extra.get("failures", 0), extra.get("moves", 0), parked),
            "ConnectionError: <b>no</b> route" if parked else None,
            extra.get("modified", "-1 second"),
        ],
    )


def statuses(dsn: str) -> dict[str, str]:
    """Return the status of each observer by name."""
    with psycopg.connect(dsn) as connection:
        return dict(
            connection.execute(
                "select name, status from pecker_observers order by id"
            ).fetchall()
        )
