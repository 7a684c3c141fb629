"""Results as tables in Markdown, for the terminal, the documentation and the README."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmarks.results import Results, Sample
from benchmarks.tables import (
    asking,
    copies,
    counting,
    groomer,
    holding,
    kernel,
    loads,
    observers,
    outbox,
    runs,
    sharding,
    stored,
)


def report(results: Results, rows: Iterable[str]) -> str:
    """Return the tables of these rows, each under its title."""
    parts = []
    for row in rows:
        if results.samples(row):
            title, table = TABLES[row]
            parts += [f"## {title}", table(results.samples(row)), ran(results, row)]
    return "\n\n".join(parts)


def ran(results: Results, row: str) -> str:
    """Return when and on what a row was measured, and how busy the machine was."""
    facts, samples = results.facts(row), results.samples(row)
    others = [one["others_share"] for one in samples if one.get("others_share")]
    busy = f"; other processes took up to {max(others):.0%} of it" if others else ""
    loaded = [one["load"] for one in samples if "load" in one]
    load = f"; load {min(loaded):g} to {max(loaded):g}" if loaded else ""
    profiles = ", ".join(sorted({one["plan"] for one in samples}))
    text = (
        f"*{facts['when']}, commit {facts.get('commit', '?')}, {profiles} profile;"
        f" {facts['machine']}{load}{busy}.*"
    )
    failures = [f"- not measured: `{one}`" for one in results.failures(row)]
    return "\n".join([text, *([""] if failures else []), *failures])


TABLES: dict[str, tuple[str, Callable[[list[Sample]], str]]] = {
    "pace": ("Pace", lambda samples: f"{loads.pace(samples)}\n\n{loads.cost(samples)}"),
    "precision": ("One entry", loads.precision),
    "failover": ("The winner dies", copies.failover),
    "doubles": ("Two copies", copies.doubles),
    "asked": ("What a message asks of the servers", copies.asked),
    "claims": ("Claims each second", kernel.claims),
    "deadline": ("A run ends with its deadline", runs.deadline),
    "deadline_cost": ("What a deadline costs a call", runs.deadline_cost),
    "flower": ("Flower's page of schedules", runs.flower),
    "statements": ("What is asked of PostgreSQL", kernel.statements),
    "snapshot": ("A held snapshot", kernel.snapshot),
    "throttle_meter": ("What counting costs a statement", counting.meter),
    "anatomy": ("Where the time goes", kernel.anatomy),
    "consumer": ("What counting adds", kernel.consumer),
    "throttle_loop": ("An endless backlog", holding.loop),
    "throttle_turns": ("Turns of large runs", holding.turns),
    "throttle_hook": ("What the gate costs", holding.hook),
    "throttle_hold": ("What is held", holding.hold),
    "throttle_gate": ("May a task start", asking.gate),
    "throttle_step": ("A step in traffic is seen", asking.step),
    "sharding_many": ("Many small shards", sharding.many),
    "sharding_submit": ("What the call takes", sharding.submit),
    "sharding_items": ("A million items", sharding.items),
    "sharding_kill": ("A worker is killed", sharding.kill),
    "sharding_poison": ("An item that kills its process", sharding.poison),
    "sharding_post": ("Post over a million results", sharding.post),
    "sharding_control": ("Pause and cancel", sharding.control),
    "sharding_short": ("Short jobs", sharding.short),
    "sharding_open": ("Very many open jobs", sharding.open_jobs),
    "outbox_relay": ("One relay", outbox.relay),
    "outbox_latency": ("From the commit to the broker", outbox.latency),
    "outbox_call": ("What recording costs", outbox.call),
    "outbox_commits": ("Commits a second", outbox.commits),
    "outbox_deferred": ("Beside many that wait", outbox.deferred),
    "outbox_million": ("A million messages", outbox.million),
    "outbox_peers": ("Beside others", outbox.peers),
    "outbox_hundred": ("A hundred threads", outbox.hundred),
    "observers_quiet": ("Observers asleep", observers.quiet),
    "observers_kill": ("A host of observers is killed", observers.kill),
    "observers_join": ("A host of observers joins", observers.join),
    "observers_drain": ("A host of observers hands over", observers.drain),
    "observers_freeze": ("A host of observers is frozen", observers.freeze),
    "observers_outage": ("Observers without their database", observers.outage),
    "observers_blackout": ("All hosts of observers die", observers.blackout),
    "observers_100k": ("Very many observers", observers.swarm),
    "observers_endless": ("What never ends, as a task", observers.endless),
    "groomer": ("Reports with and without a lock", groomer.table),
    "stored_edit": ("An edit and its effect", stored.edit),
    "stored_start": ("A start with many entries stored", stored.start),
    "stored_busy": ("Stored entries that are due, and edits", stored.busy),
    "sharding_flower": ("Flower's pages of sharded jobs", sharding.flower),
}
