"""What people do to a job: pause, resume, cancel, retry, rerun, concurrency.

Each is a write to the ledger. Workers read it with their next write, within a second;
what was let go on is sent for by the sweeper, within another.
"""

import click

from celery_pecker.surfaces.console.database_context import acting
from celery_sharding.cli.context import Context, job_command, of_job
from celery_sharding.views import JOBS

RETRY, _ = JOBS.acts["retry"]


@job_command
def pause(context: Context, *, task_id: str) -> None:
    """Let no further item of a job begin, until it is resumed."""
    context.ledger.control.pause(task_id)
    context.tell({"task_id": task_id, "paused": True}, JOBS.said("pause", task_id))


@job_command
def resume(context: Context, *, task_id: str) -> None:
    """Let a paused job go on where it stopped."""
    context.ledger.control.resume(task_id)
    context.tell({"task_id": task_id, "paused": False}, JOBS.said("resume", task_id))


@job_command
def cancel(context: Context, *, task_id: str) -> None:
    """End a job: no further item begins, Post does not run, no chain goes on."""
    context.ledger.control.cancel(task_id)
    context.tell({"task_id": task_id, "cancelled": True}, JOBS.said("cancel", task_id))


@Context.command()
@of_job
@click.option("--error", help="Of this error alone: its key in `errors --grouped`.")
@acting("sharding retry", "task_id", "error")
def retry(context: Context, *, task_id: str, error: str | None) -> None:
    """Run the failed items of an ended job once more, and then Post.

    With --error those alone that failed so; what had not begun when the job ended runs
    in any case.
    """
    items = context.ledger.control.retry_failed(task_id, error)
    context.tell({"task_id": task_id, "items": items}, RETRY.said(task_id, items))


@Context.command()
@of_job
@click.argument("shards", type=click.IntRange(0), nargs=-1, required=True)
@acting("sharding rerun", "task_id", "shards")
def rerun(context: Context, *, task_id: str, shards: tuple[int, ...]) -> None:
    """Run shards of an ended job once more, all of their items, and then Post."""
    items = context.ledger.control.rerun(task_id, shards)
    context.tell({"task_id": task_id, "items": items}, RETRY.said(task_id, items))


@Context.command()
@of_job
@click.argument("number", type=click.IntRange(1, 10_000))
@acting("sharding concurrency", "task_id", "number")
def concurrency(context: Context, *, task_id: str, number: int) -> None:
    """Let at most so many shards of a job run at once, from now on."""
    context.ledger.control.options(task_id, concurrency=number)
    context.tell(
        {"task_id": task_id, "concurrency": number},
        f"at most {number:,} shards of {task_id} run at once",
    )
