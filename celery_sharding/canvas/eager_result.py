"""The result of a job that ran in the caller: it has ended, and nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

from celery.result import EagerResult
from celery.states import SUCCESS

from celery_sharding.canvas.lists import Outcomes
from celery_sharding.errors import WrongStage
from celery_sharding.model import ItemError, Outcome, Progress, Stage


class EagerShardedResult(EagerResult):  # type: ignore[type-arg]  # generic since Celery 5.7
    """What a job that ran in the caller came to.

    What can be done to a job in a ledger raises WrongStage, as for any that has ended.
    """

    outcomes: Outcomes

    @property
    def progress(self) -> Progress:
        """How far it came."""
        well = self.state == SUCCESS
        return replace(
            self.outcomes.progress(),
            stage=Stage.ENDED,
            outcome=Outcome.SUCCEEDED if well else Outcome.FAILED,
        )

    def errors(self) -> Iterator[ItemError]:
        """Yield the items that failed, one by one."""
        return self.outcomes.errors()

    def results(self) -> Iterator[Any]:
        """Yield the values passed to `ok` and those that processors returned."""
        return self.outcomes.results()

    def _over(self, *_: object, **__: object) -> NoReturn:
        message = (
            f"the job {self.id} ran in the caller: it has ended, and nothing of it is"
            " stored"
        )
        raise WrongStage(message)

    pause = resume = cancel = retry_failed = rerun = set = shards = _over
