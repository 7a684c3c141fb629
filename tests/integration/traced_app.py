"""An app whose processes write their spans down, for the test of traces."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from celery import Celery, signals
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

FOLDER = Path(os.environ["PECKER_TEST_FOLDER"])
app = Celery("traced")
app.conf.update(json.loads(os.environ["PECKER_TEST_CONF"]))
app.conf.beat_schedule = {
    "look": {
        "task": "look",
        "schedule": 1.0,
        "options": {"queue": app.conf.task_default_queue},
    }
}


class Written(SpanExporter):
    """Writes spans into a file of this process, one a line."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append, at once."""
        with (FOLDER / f"spans-{os.getpid()}").open("a") as file:
            for span in spans:
                context = span.get_span_context()
                assert context is not None
                told = {
                    "name": span.name,
                    "trace": f"{context.trace_id:032x}",
                    "span": f"{context.span_id:016x}",
                    "parent": f"{span.parent.span_id:016x}" if span.parent else None,
                    "attributes": dict(span.attributes or {}),
                }
                print(json.dumps(told), file=file)
        return SpanExportResult.SUCCESS


def _set_up(**_: object) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Written()))
    trace.set_tracer_provider(provider)
    if os.environ.get("PECKER_TEST_INSTRUMENTED"):
        CeleryInstrumentor().instrument()  # type: ignore[no-untyped-call]


signals.beat_init.connect(_set_up, weak=False)
signals.worker_process_init.connect(_set_up, weak=False)  # prefork's children
if os.environ.get("PECKER_TEST_SAME_PROCESS"):  # other pools
    signals.worker_init.connect(_set_up, weak=False)


@app.task(name="look")
def look() -> None:
    """Send a subtask."""
    part.delay()


@app.task(name="part")
def part() -> None:
    """Do nothing more."""
