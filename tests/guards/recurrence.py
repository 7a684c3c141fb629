"""The guards of schedules by a calendar: which instants a level has, and which not."""

from __future__ import annotations

from tests.guards.guard import Guard

TESTS = "tests/unit/calendars/test_recurrence.py"
LEVELS = f"{TESTS}::test_levels_count_from_the_start"
BOUNDS = "tests/unit/calendars/test_cron.py"
BOUNDS += "::test_nothing_comes_before_the_start_or_after_the_end"

GUARDS = (
    Guard(
        "recurrence: hours are real time when clocks change",
        '        if self.level != "hour":\n            return super()',
        "        if True:\n            return super()",
        f"{TESTS}::test_hours_are_real_hours_when_clocks_change",
    ),
    Guard(
        "recurrence: it counts from the start",
        "        return RuleTimes(parts, start)\n",
        "        return RuleTimes(parts, start.replace(day=1))\n",
        LEVELS,
    ),
    Guard(
        "recurrence: every so many periods",
        '"INTERVAL": str(self.every)}',
        '"INTERVAL": "1"}',
        f"{TESTS}::test_the_published_example_comes_out_to_the_instant",
    ),
    Guard(
        "recurrence: of working days every so many come",
        "self.calendar.later(day, -passed % self.every)",
        "self.calendar.first(day)",
        f"{TESTS}::test_swapped_working_days_of_china_count",
    ),
    Guard(
        "recurrence: days off are not counted",
        "        return self._count(first.year, last)"
        " - self._count(first.year, first)\n",
        "        return (last - first).days\n",
        f"{TESTS}::test_swapped_working_days_of_china_count",
    ),
    Guard(
        "calendars: nothing comes before the start",
        "            utc = max(utc, utc_of(self.start, zone) - MICROSECOND)\n",
        "            pass\n",
        BOUNDS,
    ),
    Guard(
        "calendars: nothing comes after the end",
        "        if self.end is not None and instant > utc_of(self.end, zone):\n",
        "        if False:\n",
        BOUNDS,
    ),
)
