"""The guards of acts that can be taken back for ten seconds."""

from __future__ import annotations

from tests.guards.guard import Guard

WAITING = "tests/integration/flower/test_waiting.py"

GUARDS = (
    Guard(
        "undo: an act that somebody has taken is not taken again",
        "and act.taken_at is null and act.ended_at is null\n      and act.act = any",
        "and act.ended_at is null\n      and act.act = any",
        f"{WAITING}::test_exactly_one_takes_it",
    ),
    Guard(
        "undo: a Flower takes what it can do",
        "\n      and act.act = any (%(acts)s::text[])",
        "\n      and %(acts)s::text[] is not null",
        f"{WAITING}::test_exactly_one_takes_it",
    ),
    Guard(
        "undo: what nobody did for ten minutes is not done",
        "act.due_at <= clock.now and act.due_at > clock.now - interval '10 minutes'",
        "act.due_at <= clock.now",
        f"{WAITING}::test_what_nobody_did_for_ten_minutes_is_not_done",
    ),
    Guard(
        "undo: what somebody has begun to do is not taken back",
        "  and act.taken_at is null and act.ended_at is null\nreturning act.id",
        "returning act.id",
        WAITING,
    ),
    Guard(
        "undo: a Flower that is read-only does nothing that is due",
        "if data and not self.refusal and waiting.due(data):",
        "if data and waiting.due(data):",
        f"{WAITING}::test_another_flower_does_it_where_the_first_has_died",
    ),
    Guard(
        "undo: of all that match those are meant that were there",
        'asked = asked._replace(query={**asked.query, "until": str(now_us)})',
        "asked = asked._replace(query={**asked.query})",
        f"{WAITING}::test_of_all_that_match_those_are_meant_that_were_there",
    ),
)
