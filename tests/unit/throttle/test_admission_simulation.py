"""The law of admission in a played world: what it reaches, and by which margin.

Seeded and without a clock of the machine's: each figure is the same in every run.
"""

from __future__ import annotations

import pytest

from tests.unit.throttle.simulation import Kind, Simulation, World

SHORT = Kind(operations=50, duration=0.02)
LARGE = Kind(operations=200, duration=0.05)
LONG = Kind(operations=50, duration=2.0)
LONG_LARGE = Kind(operations=200, duration=2.0)
ROUGH = Kind(operations=50, duration=0.02, deviation=0.5, tail=0.3)
ROUGH_LONG = Kind(operations=50, duration=2.0, deviation=0.5, tail=0.3)
SLOTS = 300
"""So many that the pools are not what limits."""


@pytest.mark.parametrize("workers", [1, 16])
@pytest.mark.parametrize(
    "kind",
    [SHORT, LARGE, LONG, LONG_LARGE, ROUGH, ROUGH_LONG],
    ids=["short", "large", "long", "long-large", "rough", "rough-long"],
)
def test_the_limit_is_kept_and_used(kind: Kind, workers: int) -> None:
    """An endless backlog, costs learned: at most 5 % over, and 90 % used."""
    world = World(
        workers=workers, kinds=(kind,), slots=SLOTS, seconds=40.0, warm=12.0, seed=2
    )
    outcome = Simulation(world).run()
    assert outcome.peak <= 1.05
    assert outcome.use >= 0.90


def test_forty_workers_with_large_runs_keep_the_limit() -> None:
    """Each has one run in two seconds to give: they take turns."""
    world = World(
        workers=40, kinds=(LARGE,), slots=SLOTS, seconds=40.0, warm=12.0, seed=2
    )
    outcome = Simulation(world).run()
    assert outcome.peak <= 1.10
    assert outcome.use >= 0.80


def test_late_ticks_and_pauses_do_not_break_it() -> None:
    """A tick in ten comes late, and every worker freezes now and then."""
    world = World(
        workers=4,
        kinds=(ROUGH, ROUGH_LONG),
        slots=SLOTS,
        seconds=40.0,
        warm=12.0,
        late=0.1,
        pauses=0.2,
    )
    outcome = Simulation(world).run()
    assert outcome.peak <= 1.08
    assert outcome.use >= 0.80


def test_shares_that_move_do_not_add_up_to_more() -> None:
    """Half of the workers fall idle and come back: nobody takes what is not free."""
    rivals = tuple((14.0 + 4 * turn, (-4, 4)[turn % 2]) for turn in range(6))
    world = World(
        workers=8, kinds=(SHORT,), slots=SLOTS, seconds=40.0, warm=12.0, rivals=rivals
    )
    outcome = Simulation(world).run()
    assert outcome.peak <= 1.05
    assert outcome.use >= 0.85


def test_a_start_with_unknown_costs_is_no_rush() -> None:
    """Runs that cost twenty times the prior, from the first second on."""
    kind = Kind(operations=200, duration=0.05)
    world = World(workers=4, kinds=(kind,), slots=SLOTS, seconds=20.0, warm=0.0)
    outcome = Simulation(world).run()
    assert outcome.peak <= 1.10


def test_a_pool_that_is_too_small_is_no_rush_either() -> None:
    """What waits in the pool is under way: two slots, four wanted."""
    kind = Kind(operations=500, duration=0.2)
    world = World(workers=2, kinds=(kind,), slots=1, seconds=30.0, warm=10.0)
    outcome = Simulation(world).run()
    assert outcome.peak <= 1.05


HUGE = Kind(operations=2000, duration=0.05)
"""Two fifths of the limit: six seconds of the share of one of 16."""


@pytest.mark.parametrize("pauses", [0.0, 0.2], ids=["even", "late and frozen"])
def test_runs_larger_than_a_second_of_the_share_start_in_turns(pauses: float) -> None:
    """The busiest second, wherever it begins, is the limit and one run at most."""
    world = World(
        workers=16,
        kinds=(HUGE,),
        seconds=40.0,
        warm=16.0,
        seed=2,
        pauses=pauses,
        late=pauses / 2,
    )
    outcome = Simulation(world).run()
    assert outcome.worst <= 1.4
    assert outcome.use >= 0.85


def test_large_runs_beside_small_ones_keep_the_limit() -> None:
    """One in two is large."""
    world = World(workers=16, kinds=(HUGE, SHORT), seconds=40.0, warm=16.0, seed=2)
    outcome = Simulation(world).run()
    assert outcome.worst <= 1.4
    assert outcome.use >= 0.85


def test_large_runs_while_the_store_is_away() -> None:
    """Half of the shares is used, and those that waited do not start together."""
    world = World(
        workers=16, kinds=(HUGE,), seconds=45.0, warm=20.0, seed=2, away=(20.0, 45.0)
    )
    outcome = Simulation(world).run()
    assert outcome.peak <= 1.4
    assert outcome.use <= 0.55


def test_runs_of_a_minute_of_a_share_are_paid_for() -> None:
    """Forgiven, sixteen workers did sixty times the limit with them, second by second.

    Ten seconds of a share are 3,125 operations.
    """
    kind = Kind(operations=20_000, duration=1.0)
    outcome = Simulation(
        World(workers=16, kinds=(kind,), seconds=150.0, warm=22.0)
    ).run()
    assert outcome.use <= 1.1
