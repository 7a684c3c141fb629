"""From pictures to recordings."""

from __future__ import annotations

from dataclasses import replace

from throttle.cli.record import Recorder
from throttle.model import Amount
from throttle.overview import Picture, State, Status, Worker


def picture(
    held: int = 0, admitted: dict[str, int] | None = None, *, away: str = ""
) -> Picture:
    """Return one database with these workers."""
    workers = tuple(
        Worker(
            id=key,
            name=key,
            share=0.5,
            held=0,
            held_bytes=0,
            parked=0,
            admitted=count,
            would_hold=0,
            dropped=0,
            oldest=0.0,
        )
        for key, count in (admitted or {}).items()
    )
    status = Status(
        name="main",
        state=State.CALM,
        summary="",
        traffic=Amount(400.0),
        operations=1_000.0,
        factor=0.5,
        held=held,
        workers=workers,
    )
    return Picture(at=0.0, databases=(status,), estimator="fast", away=away)


def test_what_was_admitted_counts_from_the_beginning() -> None:
    """Of workers that were there, that came, that went and that came back."""
    recorder = Recorder()
    for at, workers in enumerate(
        [
            {"a": 100, "b": 50},
            {"a": 110},  # b is silent for a moment
            {"a": 110, "b": 53},
            {"b": 54, "c": 7},  # c is new: all of its tasks are of this run
        ]
    ):
        recorder.add(float(at), picture(0, workers))
    [recording] = recorder.recordings()
    assert [one.admitted for one in recording.moments] == [0, 10, 13, 21]
    assert {one.limit for one in recording.moments} == {500.0}


def test_an_outage_is_a_gap_and_no_line() -> None:
    """From the last look that was answered to the next; also at the end."""
    recorder = Recorder()
    recorder.add(0.0, picture(3))
    recorder.add(0.1, picture(3, away="gone"))
    recorder.add(0.2, picture(3, away="gone"))
    recorder.add(0.3, picture(9))
    recorder.add(0.4, picture(9, away="gone"))
    recorder.add(0.5, picture(9, away="gone"))
    [recording] = recorder.recordings()
    assert [one.at for one in recording.moments] == [0.0, 0.3]
    assert recording.gaps == ((0.0, 0.3), (0.3, 0.5))


def test_those_with_a_limit_come_first() -> None:
    """The others are counted too."""
    recorder = Recorder()
    limited = picture().databases[0]
    other = replace(
        limited, name="aaa", operations=None, state=State.UNLIMITED, factor=1.0
    )
    recorder.add(0.0, replace(picture(), databases=(other, limited)))
    assert [one.database for one in recorder.recordings()] == ["main", "aaa"]
