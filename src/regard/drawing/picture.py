"""`Picture`: numbers and words with a way to draw them, in a terminal, a notebook, or a file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing import html
from regard.drawing.svg import FONT, Canvas, escaped, measure, shorten
from regard.drawing.terminal import visible
from regard.drawing.theme import theme as themed
from regard.errors import InputError, MissingDependencyError, TooLargeError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Picture"]

_EDGE = 16.0
_BUDGET = 5_000_000  # bytes
_HEAVY = 1_000_000  # from here on the size is said even to those who do not listen
_SUFFIXES = (".svg", ".png", ".pdf", ".html")
_log = logging.getLogger("regard")


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """Numbers, words, and how to draw them: print it, leave it as the last line of a notebook's cell, or save it.

    >>> import numpy as np
    >>> from regard.drawing import matrix
    >>> seen = matrix(np.array([[0.9, 0.1], [0.5, 0.5]]), ["I", "am"])
    >>> seen
    Picture('matrix', weights=(2, 2))
    >>> print(seen)
          I    am
    I   90 %  10 %
    am  50 %  50 %
    """

    kind: str
    numbers: Mapping[str, NDArray[np.floating]]
    draw: Callable[[Canvas], None]
    text: Callable[[int], Text]
    title: str = ""
    caption: str = ""
    words: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={values.shape}" for name, values in self.numbers.items())
        return f"Picture({self.kind!r}{shapes and ', '}{shapes})"

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._text(80).plain.split("\n"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._text(options.max_width)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: the page's own drawing, inline, which needs no network and no extension.

        The plain SVG is for viewers that run no scripts, and for what is converted to paper.
        """
        canvas, drawn = self._drawn("light", None, None, False)
        return {"text/plain": str(self), "text/html": html.fragment(drawn, canvas), "image/svg+xml": drawn}

    def to_svg(
        self, *, width: float | None = None, title: str | None = None, theme: str = "light", transparent: bool = False
    ) -> str:
        """The drawing as SVG, which needs no extra.

        >>> from regard.drawing import matrix
        >>> matrix(np.eye(2), ["a", "b"]).to_svg(width=300).split(" viewBox")[0]
        '<svg xmlns="http://www.w3.org/2000/svg" width="300"'
        """
        return self._drawn(theme, width, title, transparent)[1]

    def to_html(
        self, *, width: float | None = None, title: str | None = None, theme: str = "light", transparent: bool = False
    ) -> str:
        """The drawing as a page that needs nothing else: hover says each number, a click on a word picks it.

        >>> from regard.drawing import matrix
        >>> page = matrix(np.eye(2), ["a", "b"]).to_html()
        >>> page.count("://"), page.count("<script")  # the name of SVG itself, and what hover needs
        (1, 1)
        """
        canvas, drawn = self._drawn(theme, width, title, transparent)
        return html.page(drawn, canvas, self.title if title is None else title, transparent)

    def save(
        self,
        path: str | Path,
        *,
        width: float | None = None,
        title: str | None = None,
        theme: str = "light",
        transparent: bool = False,
        budget: int = _BUDGET,
    ) -> Path:
        """Write it as .svg, .png, .pdf or .html, `width` pixels wide; its size is logged first, and held to a budget.

        >>> import tempfile
        >>> from regard.drawing import matrix
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     matrix(np.eye(2), ["a", "b"]).save(f"{folder}/eye.svg", title="Myself").name
        'eye.svg'
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in _SUFFIXES:
            raise InputError(f"a picture can be saved as {', '.join(_SUFFIXES)}. Got {str(path)!r}.")
        write = self.to_html if suffix == ".html" else self.to_svg
        drawn = write(width=width, title=title, theme=theme, transparent=transparent)
        if suffix in (".png", ".pdf"):
            data = _converted(drawn, suffix, 2 if width is None else 1)
        else:
            data = drawn.encode("utf-8", "replace")
        _log.log(logging.WARNING if len(data) >= _HEAVY else logging.INFO, "%s: %s", path.name, size(len(data)))
        if len(data) > budget:
            raise TooLargeError(
                f"{path.name} must have at most budget = {size(budget)}. Got {size(len(data))}. Choose fewer words, "
                f"heads or layers, or hand in a larger budget."
            )
        if not path.parent.is_dir():
            raise InputError(f"a picture is saved in a folder that is there. Got {str(path.parent)!r}. Make it first.")
        path.write_bytes(data)
        return path

    def _text(self, width: int) -> Text:
        """The title above, the caption below."""
        lines = [Text(visible(self.title, width), "bold"), self.text(width), Text(self.caption, "dim")]
        return Text("\n").join(line for line in lines if line)

    def _drawn(self, theme: str, width: float | None, title: str | None, transparent: bool) -> tuple[Canvas, str]:
        """The drawing between its title and its caption, on a ground or on none."""
        canvas = Canvas(themed(theme))
        self.draw(canvas)
        head = self.title if title is None else title
        frame = Canvas(canvas.theme)
        wide = max(canvas.width, min(measure(head, 18, bold=True), 900), 160)
        y = _EDGE
        for line in _wrapped(visible(head, 200), 18, wide):
            frame.text(0, y + 6, shorten(line, wide, 19), 18, bold=True)
            y += 26
        top = y - _EDGE + (10 if head else 0)
        y = top + canvas.height + 8
        for line in _wrapped(self.caption, 12, wide):
            y += 16
            frame.text(0, y, line, 12, fill=canvas.theme.muted)
        full = (wide + 2 * _EDGE, y + 2 * _EDGE - (0 if self.caption else 8))
        if width is not None and not width > 0:
            raise InputError(f"width must be greater than 0 pixels. Got {width}.")
        scale = 1.0 if width is None else width / full[0]
        ground = "" if transparent else f'<rect width="100%" height="100%" fill="{canvas.theme.background}"/>\n'
        said = f' aria-label="{escaped(head)}"' if head else ""
        drawn = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{full[0] * scale:.0f}" '
            f'viewBox="0 0 {full[0]:.0f} {full[1]:.0f}" height="{full[1] * scale:.0f}" font-family="{FONT}" '
            f'role="img"{said}>\n{ground}<g transform="translate({_EDGE:.0f} {_EDGE:.0f})">\n{frame.body()}\n'
            f'<g transform="translate(0 {top:.0f})">\n{canvas.body()}\n</g>\n</g>\n</svg>'
        )
        return canvas, drawn


def size(count: int) -> str:
    """Bytes, to be read.

    >>> size(431), size(12_345), size(4_900_000)
    ('431 bytes', '12 kB', '4.90 MB')
    """
    return f"{count} bytes" if count < 1000 else f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.2f} MB"


def _converted(drawn: str, suffix: str, scale: float) -> bytes:
    try:
        import vl_convert
    except ImportError as error:
        raise MissingDependencyError(
            f"saving a picture as {suffix} takes vl-convert. Install it with pip install 'regard[draw]', or save the "
            f"picture as .svg or .html, which take nothing."
        ) from error
    return bytes(vl_convert.svg_to_png(drawn, scale=scale) if suffix == ".png" else vl_convert.svg_to_pdf(drawn))


def _wrapped(text: str, font: float, room: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and measure(f"{lines[-1]} {word}", font, bold=font > 14) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
