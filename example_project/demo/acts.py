"""What is played after the story: an act each of the service's other parts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from example_project.airports import play as airports
from example_project.airports import story as import_story
from example_project.billing import picture as billing_picture
from example_project.billing import play as billing
from example_project.billing import story as billing_story
from example_project.customers import play as customers
from example_project.customers import story as customers_story
from example_project.demo.plain import Plain
from example_project.demo.scene import Scene
from example_project.demo.servers import Servers
from example_project.groomer import picture as groomer_picture
from example_project.groomer import play as groomer
from example_project.groomer import story as groomer_story
from example_project.rush import picture as rush_picture
from example_project.rush import story as rush
from example_project.rush.play import Place

ACTS = ("customers", "rush", "airports", "outbox", "groomer")


def play(
    names: Sequence[str],
    given: argparse.Namespace,
    scene: Scene,
    base: Servers,
    console: Console,
) -> list[str]:
    """Return what went wrong in the acts; it was shown too."""
    scene.watch = None  # the story's is over
    failures = []
    for name in names:
        console.print()
        with Plain(scene, console):
            try:
                failed = _act(name, given, scene, base, console)
            except AssertionError as error:  # what was awaited, and never came
                failed = [f"{name}: {error}"]
        for failure in failed:
            console.print(f"FAILED: {failure}", style="bold red")
        failures += failed
    return failures


def _act(
    name: str,
    given: argparse.Namespace,
    scene: Scene,
    base: Servers,
    console: Console,
) -> list[str]:
    """Return what went wrong in an act; it was shown too."""
    if name == "customers":
        return _customers(scene, base, console)
    if name == "rush":
        return _rush(given, scene, base, console)
    if name == "airports":
        return _airports(scene, base, console)
    if name == "outbox":
        return _outbox(given, scene, base, console)
    return _groomer(given, scene, base, console)


def _customers(scene: Scene, base: Servers, console: Console) -> list[str]:
    """Return what went wrong with the schedules of customers; it was shown."""
    seen = customers.play(base, scene.tell)
    customers_story.show(console, seen)
    return customers_story.failures(seen)


def _rush(
    given: argparse.Namespace, scene: Scene, base: Servers, console: Console
) -> list[str]:
    """Return what went wrong in the rush hour; it was shown and drawn."""
    place = Place(
        dsn=base.postgres.dsn,
        redis=base.redis.url,
        key_prefix=base.redis.key_prefix,
        meetings=given.meetings,
    )
    acts = rush.both(place, scene.tell)
    rush.show(console, acts)
    beside = _beside(given.picture, "rush", rush_picture.draw(acts))
    console.print(f"\nThe rush hour as a picture: {beside}")
    return rush.failures(acts, given.meetings)


def _beside(path: Path, act: str, drawn: str) -> Path:
    """Write an act's picture beside the timeline; return where it is."""
    beside = path.with_name(f"{path.stem}-{act}{path.suffix}")
    beside.write_text(drawn)
    return beside


def _airports(scene: Scene, base: Servers, console: Console) -> list[str]:
    """Return what went wrong in the import; its bars and its report were shown."""
    place = airports.Place(
        dsn=base.postgres.dsn,
        redis=base.redis.url,
        key_prefix=base.redis.key_prefix,
    )
    seen = airports.play(place, console, scene.tell)
    import_story.show(console, seen)
    return import_story.failures(seen)


def _outbox(
    given: argparse.Namespace, scene: Scene, base: Servers, console: Console
) -> list[str]:
    """Return what went wrong with the bills; it was shown and drawn."""
    seen = billing.play(base, console, scene.tell)
    billing_story.show(console, seen)
    beside = _beside(given.picture, "outbox", billing_picture.draw(seen))
    console.print(f"\nThe bills as a picture: {beside}")
    return billing_story.failures(seen)


def _groomer(
    given: argparse.Namespace, scene: Scene, base: Servers, console: Console
) -> list[str]:
    """Return what went wrong with the split calls; it was shown and drawn."""
    seen = groomer.play(base, console, scene.tell)
    groomer_story.show(console, seen)
    beside = _beside(given.picture, "groomer", groomer_picture.draw(seen))
    console.print(f"\nThe split calls as a picture: {beside}")
    return groomer_story.failures(seen)
