"""A run as a picture: traffic, limit and what is held, over time.

    recording   what was seen of one database, moment by moment; as JSON, and back
    draw        from recordings to a picture: pure
    svg         a few elements of SVG, in light and in dark

    Path("run.svg").write_text(draw([recording], title="Rush hour"))

Several recordings share one scale, so that a run with the gate and one without can be
laid side by side and compared by eye.
"""

from throttle.chart.draw import draw
from throttle.chart.recording import Moment, Recording, read, written

__all__ = ["Moment", "Recording", "draw", "read", "written"]
