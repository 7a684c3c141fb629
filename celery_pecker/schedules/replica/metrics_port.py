"""The port for Prometheus and probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from celery_pecker.kernel.settings import Settings


def answerer(
    settings: Settings,
    *,
    alive: Callable[[], bool],
    hostname: str,
    outboxes: Mapping[str, Settings] | None = None,
) -> Callable[[], Callable[[], None]]:
    """Return what opens our port for Prometheus and probes, and returns its end.

    What can be refused of it is refused here, before anything has started.
    """
    if not settings.metrics_port:
        return lambda: lambda: None
    from celery_pecker.surfaces import metrics  # noqa: PLC0415  # an extra

    def begin() -> Callable[[], None]:
        return metrics.serve(
            settings, alive=alive, hostname=hostname, outboxes=outboxes
        ).close

    return begin
