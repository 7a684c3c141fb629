"""Errors that are one get one row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from celery_pecker.kernel.error_groups import Seen, folded, grouped, sparkline

SITE = "/venv/lib/python3.12/site-packages"
TRACE = f"""Traceback (most recent call last):
  File "/venv/lib/python3.12/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
json.decoder.JSONDecodeError: Expecting value

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/shop/rows.py", line %d, in send
    client.post(row)
    ^^^^^^^^^^^^^^^^
  File "{SITE}/client/api.py", line 9, in post
    raise Refused(row)
  File "{SITE}/client/api.py", line 11, in check
    raise Refused(row)
client.Refused: no row 17
"""
BEGAN = datetime(2031, 1, 1, tzinfo=UTC)


def seen(
    message: str = "no row 17",
    kind: str = "client.Refused",
    trace: str | None = TRACE % 12,
    *,
    of: str = "1",
    after: float = 0.0,
) -> Seen:
    """Return an error."""
    return Seen(after, of, kind, message, trace, BEGAN + timedelta(seconds=after))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no row 17", "no row 4,018"),
        ("no 'x y' here", 'no "z" here'),
        ("no a1b2c3 of 0xff", "no 77f0e1 of 0x1"),
        ("550e8400-e29b-41d4-a716-446655440000 is gone", "1-2-3 is gone"),
        ("key (id)=(5)\nDETAIL: x", "key (id)=(6)\nDETAIL: y"),
        ("it isn't there: 5", "it isn't there: 6"),
        (f"no '{'x' * 2_000}'", f"no '{'y' * 2_000}'"),
    ],
)
def test_what_varies_is_left_out(one: str, other: str) -> None:
    """Numbers, ids, quoted values, and all lines but the first."""
    assert seen(one).fingerprint == seen(other).fingerprint


def test_a_moved_line_is_the_same_place() -> None:
    """So that a deploy in between makes no second row."""
    assert seen(trace=TRACE % 12).fingerprint == seen(trace=TRACE % 99).fingerprint


@pytest.mark.parametrize(
    "other",
    [
        seen("another text"),
        seen(kind="ValueError"),
        seen(trace=TRACE.replace("send", "fetch") % 12),
        seen(trace=None),
        seen("it isn't here"),
    ],
)
def test_another_type_place_or_text_is_another_error(other: Seen) -> None:
    """Each of the three tells errors apart."""
    assert other.fingerprint != seen().fingerprint


def test_the_place_is_the_innermost_frame_of_user_code() -> None:
    """Of the error that was raised last; of any where all are libraries."""
    assert seen().place == "shop/rows.py, send"
    only = f'Traceback (most recent call last):\n  File "{SITE}/a/b.py", line 1, in c\n'
    assert seen(trace=only).place == "a/b.py, c"
    assert seen(trace='  File "x.py", line 3\nValueError: no').place == "x.py"
    assert seen(trace=None).place == ""


def test_a_group_has_count_times_shards_and_the_last_error() -> None:
    """The largest comes first."""
    errors = [seen("other", of="9", after=3)]
    errors += [seen(f"no row {nth}", of=str(nth % 5), after=nth) for nth in range(473)]
    large, small = grouped(errors, job="j", is_open=True)
    assert (large.count, small.count) == (473, 1)
    assert large.error == "client.Refused: no row 472"
    assert (large.first, large.last) == (BEGAN, BEGAN + timedelta(seconds=472))
    assert large.many_of == "0, 1, 2 and 2 more"
    assert large.of["4"] == 94
    assert large.ids == [float(nth) for nth in range(473)]
    assert large.id == f"j/{large.key}"
    assert large.open
    assert set(large.spark) == {"█", "▂"}, "the last of all has a place of its own"
    assert small.spark == "█" + "▁" * 11
    assert grouped([]) == []


def test_one_time_alone_is_the_first_place() -> None:
    """There is no span to divide."""
    assert sparkline([BEGAN], BEGAN, BEGAN) == "█" + "▁" * 11


def test_frames_of_libraries_are_folded() -> None:
    """What was raised, and all that is the user's, stays as it is."""
    text = folded(TRACE % 12)
    assert text.splitlines() == [
        "Traceback (most recent call last):",
        "  … 1 frame of libraries",
        "json.decoder.JSONDecodeError: Expecting value",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/app/shop/rows.py", line 12, in send',
        "    client.post(row)",
        "    ^^^^^^^^^^^^^^^^",
        "  … 2 frames of libraries",
        "client.Refused: no row 17",
    ]
    for plain in ("", "no frames", "Traceback: here\n" * 3):
        assert folded(plain) == plain
