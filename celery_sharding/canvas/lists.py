"""What a job in the caller comes to, in lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery_pecker.kernel.clock import SYSTEM, monotonic
from celery_sharding.codec import decode
from celery_sharding.errors import TooManyFailed
from celery_sharding.model import (
    Code,
    Failure,
    ItemError,
    LayerProgress,
    Options,
    Outcome,
    Planned,
    Progress,
    Shard,
    Stage,
    Step,
)
from celery_sharding.policies import policy_of

WORKER = "eager"


@dataclass(slots=True)
class ItemOutcomes:
    """Results, failures and counts, kept as the ledger would."""

    totals: list[int] = field(default_factory=list)
    """Items of each layer."""
    shards: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    kept: list[tuple[int, bytes, bool]] = field(default_factory=list)
    """Encoded results: whose shard's, and whether many or what a processor returned."""
    failures: dict[tuple[int, int], Failure] = field(default_factory=dict)
    began: float = field(default_factory=monotonic)
    retries: int = 0
    whole: int = 0
    """Shards that failed as a whole although none of their items did."""

    @property
    def layers(self) -> int:
        """How many there are."""
        return len(self.totals)

    def begin(self, planned: Sequence[Planned]) -> None:
        """Set the totals of each layer from the planned shards."""
        layers = max((one.layer for one in planned), default=-1) + 1
        self.totals, self.shards = [0] * layers, [0] * layers
        self.done, self.failed = [0] * layers, [0] * layers
        for one in planned:
            self.totals[one.layer] += one.count
            self.shards[one.layer] += 1

    def take(self, record: Shard, steps: Iterable[Step]) -> None:
        """Keep what came of a shard."""
        done, failed = record.done, record.failed
        for step in steps:
            if step.forget:
                self.kept = [one for one in self.kept if one[0] != record.shard]
            if step.results is not None:
                self.kept.append((record.shard, step.results, True))
            if step.result is not None:
                self.kept.append((record.shard, step.result, False))
            for failure in step.failures:
                self.failures[failure.origin, failure.place] = failure
            for place in step.mended:
                self.failures.pop(place, None)
            if step.count is not None:
                self.totals[record.layer] += step.count - record.count
            self.done[record.layer] += step.done - done
            self.failed[record.layer] += step.failed - failed
            done, failed = step.done, step.failed
            self.whole += step.status is Code.FAILED and not failed

    def retry_shards(self, record: Shard, steps: Iterable[Step]) -> Iterator[Shard]:
        """Yield the shards in which failed items are retried."""
        for step in steps:
            if step.retry is not None:
                self.retries += 1
                yield Shard(
                    shard=sum(self.shards) + self.retries,
                    layer=record.layer,
                    origin=record.origin,
                    lo=0,
                    hi=len(step.retry[0]),
                    cursor=0,
                    ahead=0,
                    done=0,
                    failed=0,
                    deaths=0,
                    attempt=record.attempt + 1,
                    picks=[*step.retry[0]],
                )

    def check_failed(self, options: Options) -> None:
        """Raise TooManyFailed where more items failed than the job bears."""
        allowed = policy_of(options).allowed(sum(self.totals))
        failed = sum(self.failed) + self.whole
        if allowed is not None and failed > allowed:
            first = next(iter(self.failures.values()))
            message = (
                f"{failed} of {sum(self.totals)} items failed, more than {allowed}; the"
                f" first: {first.type}: {first.message}"
            )
            raise TooManyFailed(message)

    def counts(self) -> dict[str, int]:
        """Return what a job without Post returns."""
        return {
            "total": sum(self.totals),
            "done": sum(self.done),
            "failed": sum(self.failed),
        }

    def results(self) -> Iterator[Any]:
        """Yield the values passed to `ok` and those that processors returned."""
        for _, body, many in self.kept:
            yield from decode(body) if many else (decode(body),)

    def errors(self) -> Iterator[ItemError]:
        """Yield the items that failed, one by one."""
        now = SYSTEM.now()
        for _, one in sorted(self.failures.items()):
            yield ItemError(
                item=None if one.item is None else decode(one.item),
                type=one.type,
                message=one.message,
                traceback=one.traceback,
                code=Code(one.code),
                attempt=one.attempt,
                shard=one.shard,
                layer=one.layer,
                place=one.place,
                worker=WORKER,
                at=now,
            )

    def progress(self) -> Progress:
        """Return how far the job is."""
        total, done, failed = sum(self.totals), sum(self.done), sum(self.failed)
        ended = done + failed
        layers = tuple(
            LayerProgress(
                layer=layer,
                total=items,
                done=self.done[layer],
                failed=self.failed[layer],
                shards=self.shards[layer],
                open=0 if self.done[layer] + self.failed[layer] >= items else 1,
            )
            for layer, items in enumerate(self.totals)
        )
        over = ended >= total
        elapsed = monotonic() - self.began
        return Progress(
            stage=Stage.ENDED if over else Stage.SHARDING,
            outcome=Outcome.SUCCEEDED if over else None,
            paused=False,
            layer=sum(1 for one in layers if not one.open),
            layers=layers,
            rate=ended / elapsed if elapsed > 0 else 0.0,
            elapsed=elapsed,
            total=total,
            done=done,
            failed=failed,
        )
