"""``pecker doctor``: everything that is known to go wrong, looked at once.

``hosts``, ``postgres`` and ``broker`` ask, ``judge`` and the functions of ``broker``
that are marked so decide; a ``finding`` is ok, warn or fail, and says what to do. Each
server is asked in bounded time, and one that is silent hides nothing of the other.
"""

from collections import Counter
from functools import partial

from celery_pecker.kernel.declared import refuse_misspelt
from celery_pecker.surfaces.cli.context import NO, Context
from celery_pecker.surfaces.cli.now import MARKS
from celery_pecker.surfaces.findings import broker, hosts, others, packages, postgres
from celery_pecker.surfaces.findings.model import Grade

STYLES = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "bold red"}


@Context.command()
def doctor(context: Context) -> None:
    """Look at database, broker, clocks and workers; say what to mend.

    Ends with 1 if something is wrong; what is only worth a look does not count.
    """
    refuse_misspelt(context.app.conf)
    findings = []
    for examine in (
        packages.examine,
        hosts.examine,
        postgres.examine,
        partial(others.examine, in_tables=False),
        broker.examine,
    ):
        for finding in examine(context.project):
            findings.append(finding)
            if context.json:
                continue
            mark = f"[{STYLES[finding.grade]}]{MARKS[finding.grade]}[/] "
            context.print(mark, f"{finding.check}: {finding.text}")
            if finding.advice:
                context.print("  → ", finding.advice)
    counted = Counter(finding.grade for finding in findings)
    context.print_json({"healthy": not counted[Grade.FAIL], "findings": findings})
    if counted[Grade.FAIL]:
        context.leave(NO)
