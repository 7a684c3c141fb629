"""One OpenTelemetry trace for one slot: from its claim to the task to its subtasks.

    scheduler   span ``pecker claim``, one for each slot won ──┐ `traceparent`
    worker      span ``run <task>`` ◀──────────────────────────┘ in the pecker header
    subtask     span ``run <task>`` ◀── `traceparent` header of its message

Switched on by `pecker_tracing`; needs ``opentelemetry-api`` (the extra ``otel``) and an
SDK that your code sets up as ever. Without one nothing is written and nothing is sent.

Side by side with ``opentelemetry-instrumentation-celery`` no span comes twice: where
that has opened a span of the same trace for a run, ours is left out. Its span is of the
same trace because it finds `traceparent` where Celery keeps it.
"""

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from celery import signals

from celery_pecker.kernel import user_code
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.engine.model import Slot

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

KEY = "traceparent"
_SPAN = "_pecker_span"
"""Where a request keeps what its end has to close."""


def require(settings: Settings) -> bool:
    """Return whether spans are wanted; refuse it where the library is not there."""
    if not settings.tracing:
        return False
    if find_spec("opentelemetry") is None:
        raise Misconfigured(
            "pecker_tracing is True, but opentelemetry-api is not installed:"
            " pip install 'celery-pecker[otel]', or set it to False"
        )
    return True


def hook(settings: Settings) -> Callable[[Slot], str | None] | None:
    """Return what opens a slot's trace and names it; None if tracing is off."""
    if not require(settings):
        return None
    from opentelemetry.trace import SpanKind  # noqa: PLC0415  # an extra

    tracer = _tracer()

    def opened(slot: Slot) -> str | None:
        with tracer.start_as_current_span(
            "pecker claim",
            kind=SpanKind.PRODUCER,
            attributes={
                "pecker.entry": slot.entry.name,
                "pecker.due_us": slot.due_us,
                "pecker.epoch": slot.epoch,
                "celery.task_name": slot.entry.task,
            },
        ):
            return _traceparent()

    def trace(slot: Slot) -> str | None:
        # Processors and samplers are users' code, on the way from a claim to its
        # message: one that fails must cost its span, not the slot.
        return user_code.call("tracing of a claim", None, opened, slot)

    return trace


def install(settings: Settings) -> None:
    """Open spans for runs in this process and for what they send; idempotent."""
    if not require(settings):
        return
    for name, signal, receiver in (
        ("prerun", signals.task_prerun, _on_prerun),
        ("postrun", signals.task_postrun, _on_postrun),
        ("publish", signals.before_task_publish, _on_publish),
    ):
        uid = f"celery_pecker.schedules.tracing.{name}"
        signal.connect(receiver, dispatch_uid=uid, weak=False)


def _on_prerun(*, task: Any, **_: object) -> None:
    """Open the run's span, unless another library has."""
    from opentelemetry import context, trace  # noqa: PLC0415
    from opentelemetry.propagate import extract  # noqa: PLC0415

    request = task.request
    header = (request.headers or {}).get("pecker")
    pecker: Mapping[str, Any] = header if isinstance(header, Mapping) else {}
    traceparent = getattr(request, KEY, None) or pecker.get(KEY)
    if not isinstance(traceparent, str):
        return
    setattr(request, KEY, traceparent)  # where instrumentations look that come after us
    parent = extract({KEY: traceparent})
    wanted = trace.get_current_span(parent).get_span_context()
    current = trace.get_current_span().get_span_context()
    if not wanted.is_valid or current.trace_id == wanted.trace_id:
        return
    if _instrumented() and not current.is_valid:
        return  # its receiver comes after ours, and finds the trace in the request
    span = _tracer().start_span(
        f"run {task.name}",
        context=parent,
        kind=trace.SpanKind.CONSUMER,
        attributes={
            "celery.task_name": task.name,
            "messaging.message.id": str(request.id),
            **{
                f"pecker.{key}": value
                for key, value in pecker.items()
                if key in ("name", "due_at", "era", "epoch", "deadline")
                and value is not None
            },
        },
    )
    token = context.attach(trace.set_span_in_context(span, parent))
    setattr(request, _SPAN, (span, token))


def _on_postrun(*, task: Any, state: str | None = None, **_: object) -> None:
    """Close it, with what became of the run."""
    from opentelemetry import context  # noqa: PLC0415
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    span, token = vars(task.request).pop(_SPAN, (None, None))
    if span is None:
        return
    context.detach(token)
    span.set_attribute("celery.state", state or "IGNORED")
    if state == "FAILURE":
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _on_publish(*, headers: Any = None, **_: object) -> None:
    """Add the current span to a message, unless it carries one already."""
    if not isinstance(headers, dict) or headers.get(KEY):
        return
    traceparent = _traceparent()
    if traceparent is not None:
        headers[KEY] = traceparent


def _instrumented() -> bool:
    """Return whether OpenTelemetry's own instrumentation opens a span for each run."""
    module = sys.modules.get("opentelemetry.instrumentation.celery")
    instrumentor = getattr(module, "CeleryInstrumentor", None)
    return instrumentor is not None and bool(
        instrumentor().is_instrumented_by_opentelemetry
    )


def _tracer() -> "Tracer":
    """Return the tracer of whichever provider is set by now."""
    from opentelemetry import trace  # noqa: PLC0415

    return trace.get_tracer("celery_pecker")


def _traceparent() -> str | None:
    """Return the current span as text, None outside of any."""
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(KEY)
