"""``throttle record``: a run as a chart, or as JSON to draw later."""

from collections import defaultdict
from pathlib import Path

import click
from celery.bin.base import CeleryCommand
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from celery_pecker.kernel.clock import monotonic
from celery_pecker.surfaces.console.context import number, turns
from throttle.chart import Moment, Recording, draw, read, written
from throttle.cli.context import Context, of_database
from throttle.errors import Misconfigured
from throttle.model import TICK
from throttle.overview import Picture, Sum

KINDS = (".svg", ".json")


def known_kind(_ctx: click.Context, _option: click.Parameter, path: Path) -> Path:
    """Return the path; by its ending it is known what is to be written."""
    if path.suffix.lower() not in KINDS:
        raise click.BadParameter(f"{path.name} must end in {' or '.join(KINDS)}")
    return path


@click.command(cls=CeleryCommand)
@number("--seconds", 1.0, 86_400.0, "How long; Ctrl-C ends it earlier.", 60.0)
@click.option(
    "--to",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    required=True,
    callback=known_kind,
    help="run.svg: a chart; run.json: what was seen, for --from.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Draw what an earlier call wrote as JSON; nothing is asked.",
)
@click.option("--title", default="", help="Above the chart.")
@of_database
@Context.opened
def record(
    context: Context,
    *,
    seconds: float,
    to: Path,
    source: Path | None,
    title: str,
    database: str | None,
) -> None:
    """Record traffic, limit and held over time, ten looks a second.

    Draws one panel for each database.
    """
    if source is not None:
        recordings = _drawn_before(source)
    else:
        recordings = _recorded(context, seconds, database)
    if database is not None:
        recordings = tuple(one for one in recordings if one.database == database)
    if not recordings:
        raise click.ClickException(
            "nothing was seen: no database has a limit, and none is counted"
        )
    text = draw(recordings, title=title) if _is_chart(to) else written(recordings)
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(str(error)) from error
    for one in recordings:
        click.echo(
            f"{one.database}: {one.seconds:.0f} s, peak {one.peak:,.0f}/s"
            f" ({one.over:.0%} of the limit), most held {one.most_held:,},"
            f" admitted {one.admitted:,}"
        )
    click.echo(f"wrote {to}")


def _is_chart(to: Path) -> bool:
    return to.suffix.lower() == ".svg"


def _drawn_before(source: Path) -> tuple[Recording, ...]:
    try:
        return read(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise click.ClickException(str(error)) from error
    except Misconfigured as error:
        raise click.ClickException(f"{source}: {error}") from error


def _recorded(
    context: Context, seconds: float, database: str | None
) -> tuple[Recording, ...]:
    recorder = Recorder()
    first = context.picture(database)  # an error before anything is begun
    began = monotonic()
    recorder.add(0.0, first)
    bar = Progress(
        TextColumn("recording"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=context.console,
        transient=True,
        disable=not context.console.is_terminal,
    )
    try:
        with bar:
            shown = bar.add_task("", total=seconds)
            for _ in turns(TICK):
                at = monotonic() - began
                if at > seconds:
                    break
                picture = context.picture(database)
                recorder.add(monotonic() - began, picture)
                bar.update(shown, completed=at, description=f"{picture.held:,} held")
    except KeyboardInterrupt:  # what was seen until now is drawn
        pass
    return recorder.recordings()


class Recorder:
    """Keeps what a chart needs of each picture."""

    def __init__(self) -> None:
        self._moments: dict[str, list[Moment]] = {}
        self._admitted: defaultdict[str, Sum] = defaultdict(Sum)
        self._before: dict[str, int] = {}
        """Of the sum of a database, what was admitted before the recording."""
        self._gaps: list[tuple[float, float]] = []
        self._away_since: float | None = None
        self._asked = 0.0
        self._estimator = ""

    def add(self, at: float, picture: Picture) -> None:
        """Add the picture to the recording, so many seconds after its beginning."""
        self._estimator = picture.estimator
        before, self._asked = self._asked, at
        if picture.away:
            # Nothing is known since the last picture, not only since this question.
            if self._away_since is None:
                self._away_since = before
            return
        if self._away_since is not None:
            self._gaps.append((self._away_since, at))
            self._away_since = None
        for status in picture.databases:
            counts = {worker.id: worker.admitted for worker in status.workers}
            total = self._admitted[status.name].add(counts)
            before_it = self._before.setdefault(status.name, total)
            self._moments.setdefault(status.name, []).append(
                Moment(
                    at=at,
                    traffic=status.traffic.operations,
                    limit=status.in_force,
                    held=status.held,
                    admitted=total - before_it,
                )
            )

    def recordings(self) -> tuple[Recording, ...]:
        """Return a recording for each database, those with a limit first."""
        gaps = list(self._gaps)
        if self._away_since is not None:
            gaps.append((self._away_since, self._asked))
        return tuple(
            Recording(
                database=name,
                estimator=self._estimator,
                moments=tuple(moments),
                gaps=tuple(gaps),
            )
            for name, moments in sorted(
                self._moments.items(), key=lambda one: (not one[1][-1].limit, one[0])
            )
        )
