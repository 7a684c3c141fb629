"""What can go wrong with a sharded job, sorted by what the caller should do about it.

Errors that have one carry the code by which other systems know them; it leads the
message. The base classes are the kernel's, so one ``except PeckerError`` catches all.
"""

from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured, PeckerError

__all__ = ["DatabaseUnavailable", "Misconfigured", "PeckerError"]


class ShardingError(PeckerError):
    """Something in celery_sharding failed."""

    code: str = ""
    """The code in its message; empty: it has none."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        text = str(self)
        if self.code and self.code not in text:
            self.args = (f"{self.code}: {text}",)

    def __str__(self) -> str:
        """Return the message, its code in front."""
        return str(self.args[0]) if self.args else ""


class SubmissionUnknown(ShardingError, DatabaseUnavailable):
    """It is not known whether the job was submitted: it may run."""

    def __init__(self, message: str | None = None, task_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id
        """Of the job. ``apply_async(…, task_id=…)`` with it is the same job."""


class JobNotFound(ShardingError, LookupError):
    """There is no such sharded job."""

    code = "k_sc_ec_000004"


class InstanceNotFound(ShardingError, LookupError):
    """The job has no such shard or run."""

    code = "k_sc_ec_100004"


class ProcessorNotRegistered(ShardingError, LookupError):
    """This process knows no sharded task of that name."""

    code = "k_sc_ec_300001"


class NoExecutor(ShardingError):
    """No live worker runs sharded jobs."""

    code = "k_sc_ec_300006"


class ItemNotSerializable(ShardingError, Misconfigured):
    """An item, argument or result cannot be written as JSON."""


class InlineLimitExceeded(ShardingError, Misconfigured):
    """Items given in a call are more than sharding_inline_bytes: give a Source."""


class PlanLimitExceeded(ShardingError, Misconfigured):
    """Items of PreProcess are more than a plan may have: give a Source."""


class DuplicateKey(ShardingError, Misconfigured):
    """Two items have the same key."""


class CycleFound(ShardingError, Misconfigured):
    """Items wait for one another in a circle."""


class WrongStage(ShardingError):
    """The job is not at a stage at which this can be done."""


class JobFailed(ShardingError):
    """The job failed: the message says which part, and why."""


class TooManyFailed(JobFailed):
    """More items failed than the job's on_error allows."""


class JobDeadlineExceeded(JobFailed, TimeoutError):
    """The job had not ended by its deadline."""


class JobCancelled(ShardingError):
    """The job was cancelled."""
