"""`film`: pictures of the same thing at several moments, as one picture with a slider."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.text import Text

from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas
from regard.errors import ShapeError


def film(frames: Mapping[str, Picture], *, title: str = "", caption: str = "") -> Picture:
    """Pictures by the name of their moment ("step 50"): saved as .html a slider shows each, elsewhere the last.

    The frames share the words of their axes: all pictures must have the same.

    >>> from regard.drawing import matrix
    >>> print(film({f"step {n}": matrix(np.eye(2) ** n, ["I", "am"]) for n in (0, 1)}))
    step 1, the last of 2 frames
          I     am
    I   100 %   0 %
    am   0 %   100 %
    """
    if not frames:
        raise ShapeError("film needs at least one frame. Got none.")
    *_, last = frames

    def draw(canvas: Canvas) -> None:
        for name, picture in frames.items():
            with canvas.group(data_frame=name, display=None if name == last else "none"):
                canvas.text(0, 12, name, 13, bold=True)
                with canvas.group(transform="translate(0 28)"):
                    picture.draw(canvas)
        canvas.reach(canvas.width, canvas.height + 28)

    def text(room: int) -> Text:
        return Text(f"{last}, the last of {len(frames)} frames\n", "bold").append_text(frames[last].text(room))

    numbers = {f"{name} {what}": values for name, each in frames.items() for what, values in each.numbers.items()}
    held = {name: np.asarray(values) for name, values in numbers.items()}
    return Picture("film", held, draw, text, title, caption or frames[last].caption, tuple(frames))
