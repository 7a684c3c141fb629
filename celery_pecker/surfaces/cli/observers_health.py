"""``pecker health --observers``: is every observer run?"""

from __future__ import annotations

import click

from celery_pecker.observers.model import Place
from celery_pecker.observers.overview import ObserversOverview, ObserversSummary
from celery_pecker.surfaces.cli.context import Context
from celery_pecker.surfaces.views.observers import not_sent
from celery_pecker.surfaces.views.phrases import duration


def observers_run(context: Context, document: dict[str, object], within: float) -> bool:
    """Ask whether a host runs each observer; a parked one needs people."""
    summary = ObserversOverview(context.database).summary()
    why = not_run(summary, within)
    document["observers"] = {
        "run": why is None,
        "why": why,
        "hosts": len(summary.taking),
        "capacity": summary.capacity,
        "free": summary.free,
        "oldest_waiting": summary.oldest_waiting,
        "unsent": summary.unsent,
        "kinds": summary.kinds,
    }
    if not context.json:
        room = (
            f"{summary.free} of {summary.capacity} weights free on"
            f" {len(summary.taking)} of {len(summary.hosts)} hosts"
        )
        click.echo(f"observers: {why or room}")
    return why is None


def not_run(summary: ObserversSummary, within: float) -> str | None:
    """Return what is wrong; None: all are run, and what is to be sent is sent. Pure."""
    parked, waited = summary.count(Place.PARKED), summary.oldest_waiting
    reasons = []
    if waited is not None and waited > within:
        room = "no host takes any" if not summary.taking else f"{summary.free} free"
        waiting = summary.count(Place.WAITING)
        reasons.append(f"{waiting} waiting, the oldest for {duration(waited)}; {room}")
    if parked:
        reasons.append(f"{parked} parked: ask pecker observers --place parked")
    unsent = summary.unsent
    if unsent.oldest is not None and unsent.oldest > within:
        reasons.append(not_sent(summary))
    return "; ".join(reasons) or None
