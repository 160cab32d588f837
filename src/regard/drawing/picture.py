"""`Picture`: numbers and words with a way to draw them in a terminal, a notebook or a file."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing import viewer
from regard.drawing.svg import FONT, Canvas, Raster, escaped, measure, shorten, theme_named
from regard.drawing.terminal import harmless, visible
from regard.drawing.viewer import Feed, map_widget
from regard.errors import FileError, InputError, MissingDependencyError, TooLargeError
from regard.io import write_file

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Later", "Picture", "check_path", "file_size"]

_MARGIN = 16.0
_BUDGET = 5_000_000  # bytes
_MAP_BUDGET = 12_000_000  # of a map that can be walked into: one head of 32,768 tokens takes less than 10 MB
_NOTEBOOK_BUDGET = 4_000_000  # of such a map in a notebook
_MAP_HEIGHT = 640  # pixels, in a notebook
_HEAVY = 1_000_000  # bytes from which the size is logged as a warning
_SUFFIXES = (".svg", ".png", ".pdf", ".html")
_NO_SIGN, _NAMED = "\U0010fffe", 5  # a code point that no font draws; missing characters that are named
_log, _fonts = logging.getLogger("regard"), logging.getLogger("regard.fonts")


class Later(Mapping[str, Any]):
    """Arrays by name, whose shapes are known and whose numbers are computed when the first of them is read.

    >>> Later({"pool": (2, 2)}, lambda: {"pool": np.eye(2)})["pool"].sum()
    np.float64(2.0)
    """

    def __init__(
        self, shapes: Mapping[str, tuple[int, ...]], compute: Callable[[], Mapping[str, NDArray[np.floating]]]
    ):
        self.shapes, self._compute = shapes, cache(compute)

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        return self._compute()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """Numbers, words, and how to draw them: print it, make it the last line of a notebook cell, or save it.

    >>> import numpy as np
    >>> from regard.drawing import matrix
    >>> picture = matrix(np.array([[0.9, 0.1], [0.5, 0.5]]), ["I", "am"])
    >>> picture
    Picture('matrix', weights=(2, 2))
    >>> print(picture)
          I    am
    I   90 %  10 %
    am  50 %  50 %
    """

    kind: str
    numbers: Later | Mapping[str, NDArray[np.floating]]  # Later by name: a check of the values would compute them
    draw: Callable[[Canvas], None]
    text: Callable[[int], Text]
    title: str = ""
    caption: str = ""
    words: tuple[str, ...] = field(default=())
    feed: Feed | None = None  # of a zoomable map

    def __repr__(self) -> str:
        numbers = self.numbers
        known = numbers.shapes if isinstance(numbers, Later) else {name: each.shape for name, each in numbers.items()}
        shapes = ", ".join(f"{name}={shape}" for name, shape in known.items())
        return f"Picture({self.kind!r}{shapes and ', '}{shapes})"

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._text(80).plain.split("\n"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._text(options.max_width)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: the interactive drawing; a viewer without scripts, and print, show the plain SVG."""
        canvas, svg = self._drawn("light", None, None, False)
        html = self._framed() or _with_script(svg, canvas, False)[0]
        return {"text/plain": str(self), "text/html": html, "image/svg+xml": svg}

    def _framed(self) -> str | None:
        """The zoomable map in a frame; None if the picture has no map, or the map is too large for a notebook."""
        if self.feed is None:
            return None
        try:
            html = viewer.page_within(self.feed, _NOTEBOOK_BUDGET, self.title, "light")
        except TooLargeError:
            return None
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="{escaped(self.title) or "Attention map"}" '
            f'width="100%" height="{_MAP_HEIGHT}" style="border:0" srcdoc="{escaped(html)}"></iframe>'
        )

    def widget(self) -> Any:
        """A map of any size in a notebook, computed by Python while it is open: pip install 'regard[notebook]'.

        >>> from regard.drawing import matrix
        >>> matrix(np.eye(2), ["a", "b"]).widget()
        Traceback (most recent call last):
        regard.errors.InputError: a widget shows a map, as of A.picture(kind="map"). Got a picture of kind 'matrix'.
        """
        if not hasattr(self.feed, "tile"):
            raise InputError(f'a widget shows a map, as of A.picture(kind="map"). Got a picture of kind {self.kind!r}.')
        return map_widget(self.feed)

    def to_svg(
        self, *, width: float | None = None, title: str | None = None, theme: str = "light", transparent: bool = False
    ) -> str:
        """The drawing as SVG, which needs no optional dependency.

        >>> from regard.drawing import matrix
        >>> matrix(np.eye(2), ["a", "b"]).to_svg(width=300).split(" viewBox")[0]
        '<svg xmlns="http://www.w3.org/2000/svg" width="300"'
        """
        return self._drawn(theme, width, title, transparent)[1]

    def to_html(
        self,
        *,
        width: float | None = None,
        title: str | None = None,
        theme: str | None = None,
        transparent: bool = False,
        budget: int | None = None,
    ) -> str:
        """The drawing as a self-contained page: hover shows each number, a click on a word picks it.

        Args:
            width: pixels of a drawing.
            title: replaces the title of the picture.
            theme: "light" or "dark"; a map without a theme follows the reader's system.
            transparent: leave out the background of a drawing.
            budget: the size of a zoomable map in bytes, at most.

        >>> from regard.drawing import matrix
        >>> page = matrix(np.eye(2), ["a", "b"]).to_html()
        >>> page.count("://"), page.count("<script")  # the SVG namespace, and the script for hover
        (1, 1)
        """
        heading = self.title if title is None else title
        if self.feed is not None:
            return viewer.page_within(self.feed, _MAP_BUDGET if budget is None else budget, heading, theme)
        canvas, svg = self._drawn(theme or "light", width, title, transparent)
        return _page(svg, canvas, heading, transparent)

    def save(
        self,
        path: str | Path,
        *,
        width: float | None = None,
        title: str | None = None,
        theme: str | None = None,
        transparent: bool = False,
        budget: int | None = None,
    ) -> Path:
        """Write it as .svg, .png, .pdf or .html, with the arguments of `to_html`, and log its size.

        The budget is 5 MB, and 12 MB for the page of a map, which has as many heads as fit. Such a page computes exact
        weights from queries and keys, so that one can zoom from the whole matrix to a single cell.

        >>> import tempfile
        >>> from regard.drawing import matrix
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     matrix(np.eye(2), ["a", "b"]).save(f"{folder}/eye.svg", title="Myself").name
        'eye.svg'
        """
        path = check_path(path)
        suffix = path.suffix.lower()
        is_map = suffix == ".html" and self.feed is not None
        budget = (_MAP_BUDGET if is_map else _BUDGET) if budget is None else budget
        if suffix == ".html":
            text = self.to_html(width=width, title=title, theme=theme, transparent=transparent, budget=budget)
        else:
            text = self.to_svg(width=width, title=title, theme=theme or "light", transparent=transparent)
        if suffix in (".png", ".pdf"):
            data = _converted(text, path, 2 if width is None else 1)
        else:
            data = text.encode("utf-8", "replace")
        _log.log(logging.WARNING if len(data) >= _HEAVY else logging.INFO, "%s: %s", path.name, file_size(len(data)))
        if len(data) > budget:
            raise TooLargeError(
                f"{path.name} must have at most budget = {file_size(budget)}. Got {file_size(len(data))}. "
                f"Choose fewer words, heads or layers, or pass a larger budget."
            )
        write_file(path, lambda draft: draft.write_bytes(data))
        return path

    def _text(self, width: int) -> Text:
        """The title, the picture as text, and the caption."""
        lines = [Text(visible(self.title, width), "bold"), self.text(width), Text(self.caption, "dim")]
        text = Text("\n").join(line for line in lines if line)
        text.plain = harmless(text.plain)
        return text

    def _drawn(self, theme: str, width: float | None, title: str | None, transparent: bool) -> tuple[Canvas, str]:
        """The drawing between its title and its caption, on a background or transparent."""
        canvas = Canvas(theme_named(theme))
        self.draw(canvas)
        heading = self.title if title is None else title
        frame = Canvas(canvas.theme)
        inner = max(canvas.width, min(measure(heading, 18, bold=True), 900), 160)
        y = _MARGIN
        for line in _wrapped(visible(heading, 200), 18, inner):
            frame.text(0, y + 6, shorten(line, inner, 19), 18, bold=True)
            y += 26
        top = y - _MARGIN + (10 if heading else 0)
        y = top + canvas.height + 8
        for line in _wrapped(self.caption, 12, inner):
            y += 16
            frame.text(0, y, line, 12, fill=canvas.theme.muted)
        size = (inner + 2 * _MARGIN, y + 2 * _MARGIN - (0 if self.caption else 8))
        if width is not None and not width > 0:
            raise InputError(f"width must be greater than 0 pixels. Got {width}.")
        scale = 1.0 if width is None else width / size[0]
        background = "" if transparent else f'<rect width="100%" height="100%" fill="{canvas.theme.background}"/>\n'
        label = f' aria-label="{escaped(heading)}"' if heading else ""
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0] * scale:.0f}" '
            f'viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" height="{size[1] * scale:.0f}" font-family="{FONT}" '
            f'role="img"{label}>\n{background}<g transform="translate({_MARGIN:.0f} {_MARGIN:.0f})">\n{frame.body()}\n'
            f'<g transform="translate(0 {top:.0f})">\n{canvas.body()}\n</g>\n</g>\n</svg>'
        )
        return canvas, svg


def check_path(path: str | Path) -> Path:
    """Return the path if its suffix is known and its folder exists.

    >>> check_path("eye.gif")
    Traceback (most recent call last):
    regard.errors.InputError: a picture can be saved as .svg, .png, .pdf, .html. Got 'eye.gif'.
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"a picture can be saved as {', '.join(_SUFFIXES)}. Got {str(path)!r}.")
    if not path.parent.is_dir():
        raise InputError(f"the folder {str(path.parent)!r} does not exist: create it first.")
    return path


def file_size(count: int) -> str:
    """A number of bytes in words."""
    return f"{count} bytes" if count < 1000 else f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.2f} MB"


def _converted(svg: str, path: Path, scale: float) -> bytes:
    """Convert a drawing to PNG or PDF, and log the characters that no font has."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingDependencyError(
            f"saving a picture as {path.suffix} takes vl-convert. Install it with pip install 'regard[draw]', or save "
            f"the picture as .svg or .html (no extra packages needed)."
        ) from error
    function, options = ("svg_to_png", {"scale": scale}) if path.suffix.lower() == ".png" else ("svg_to_pdf", {})
    try:
        data = bytes(getattr(vl_convert, function)(svg, **options))
    except RuntimeError:  # after a panic, every later call fails in this process, but not in a new process
        return _converted_apart(svg, path, function, options)
    texts = re.sub("<title>.*?</title>", "", svg, flags=re.DOTALL)
    signs = sorted({sign for text in re.findall(">([^<]+)<", texts) for sign in unescape(text) if ord(sign) > 126})
    missing = [sign for sign in signs if _drawn(sign) == _drawn(_NO_SIGN)]
    if missing:
        names = ", ".join(f"{sign} (U+{ord(sign):04X})" for sign in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        _fonts.warning(
            f"{path.name}: no font on this machine has {names}{more}: the picture shows boxes instead. Install a font "
            "that has them, such as Noto, or save the picture as .svg or .html: a browser then draws them."
        )
    return data


@cache
def _drawn(sign: str) -> bytes:
    """One character as PNG (1 to 3 ms); all characters that no font has give the same bytes."""
    import vl_convert

    text = f'<text x="2" y="18" font-size="16">{escaped(sign)}</text>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" font-family="{FONT}">{text}</svg>'
    return bytes(vl_convert.svg_to_png(svg))


def _converted_apart(svg: str, path: Path, function: str, options: Mapping[str, float]) -> bytes:
    """Convert a drawing in a new process."""
    code = f"import sys, vl_convert\nsys.stdout.buffer.write(vl_convert.{function}(sys.stdin.read(), **{options}))"
    command = [sys.executable, "-X", "utf8", "-c", code]
    done = subprocess.run(command, input=svg.encode("utf-8", "replace"), capture_output=True, check=False)
    if done.returncode:
        raise FileError(
            f"{path} cannot be drawn: vl-convert fails on this picture. Save it as .svg or .html (no extra packages "
            f"needed), or use other words."
        )
    return done.stdout


def _wrapped(text: str, font: float, room: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and measure(f"{lines[-1]} {word}", font, bold=font > 14) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


_LEVELS = 65534  # steps of the numbers behind an image; the next one stands for NaN

_STYLE = (
    ".regard-tip{position:fixed;z-index:9;max-width:30em;padding:.3em .6em;border-radius:4px;pointer-events:none;"
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:60vh;overflow:hidden;font:14px sans-serif;"
    "background:INK;color:BACKGROUND}.regard-tip[hidden]{display:none}"
    ".regard-keep{display:block;margin-top:8px;font:12px sans-serif;color:MUTED;background:none;"
    "border:1px solid FAINT;border-radius:4px;padding:.2em .6em;cursor:pointer}"
    ".regard-picture svg{max-width:100%;height:auto}.regard-film{display:block;width:min(100%,40em)}"
)


def _with_script(svg: str, canvas: Canvas, keep: bool) -> tuple[str, str]:
    """A drawing with its script as HTML, and the script alone."""
    theme = canvas.theme
    data = ", ".join(map(json.dumps, ([_packed(raster) for raster in canvas.rasters], canvas.labels)))
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")  # safe inside a script
    # Named by its content: different pictures in a notebook stay apart, and the same picture gives the same bytes.
    name = "regard-" + hashlib.sha256((svg + data).encode("utf-8", "replace")).hexdigest()[:12]
    style = _STYLE.replace("INK", theme.ink).replace("BACKGROUND", theme.background)
    style = style.replace("MUTED", theme.muted).replace("FAINT", theme.faint)
    button = '<button class="regard-keep" type="button">Save as SVG</button>' if keep else ""
    every = f'for (const root of document.querySelectorAll("#{name}")) if (!root.wired) {{root.wired = true; look(root,'
    code = viewer.viewer_file("hover.js")
    code = code[code.index("(function") :].strip().replace("LEVELS", str(_LEVELS))
    script = f"{{const look = {code}; {every} {data});}}}}"
    html = (
        f'<div class="regard-picture" id="{name}"><style>{style}</style>{svg}\n{button}'
        f'<div class="regard-tip" hidden></div></div>\n<script>{script}</script>\n'
    )
    return html, script


def _page(svg: str, canvas: Canvas, title: str, transparent: bool = False) -> str:
    """A self-contained file, whose content security policy forbids any request, and any script but its own."""
    theme = canvas.theme
    background = "transparent" if transparent else theme.background
    html, script = _with_script(svg, canvas, keep=True)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {viewer.content_hash(script)}; img-src data:"
    style = f"body{{margin:24px;background:{background};color:{theme.ink}}}"
    return viewer.document(policy, title, style, f"<body>\n{html}</body>")


def _packed(raster: Raster) -> dict[str, object]:
    """The numbers behind an image in two bytes each, between the smallest and the largest."""
    values = raster.values
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    share = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    levels = np.where(np.isnan(values), _LEVELS + 1, np.rint(share * _LEVELS)).astype("<u2")
    packed = base64.b64encode(levels.tobytes()).decode()
    return {
        "name": raster.name, "values": packed, "shape": values.shape, "low": low, "high": high, "rows": raster.rows,
        "columns": raster.columns,
    }  # fmt: skip
