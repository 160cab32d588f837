"""`Picture`: numbers and words with a way to draw them in a terminal, a notebook or a file."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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

__all__ = ["Later", "Picture", "fragment", "page"]

_MARGIN = 16.0
_BUDGET = 5_000_000  # bytes
_MAP_BUDGET = 12_000_000  # of a map that can be walked into: one head of 32,768 tokens takes less than 10 MB
_NOTEBOOK_BUDGET = 4_000_000  # of such a map in a notebook
_MAP_HEIGHT = 640  # pixels, in a notebook
_HEAVY = 1_000_000  # bytes from which the size is logged as a warning
_SUFFIXES = (".svg", ".png", ".pdf", ".html")
_NO_SIGN, _NAMED = "\U0010fffe", 5  # a code point of no sign, which no font has; missing signs that are named
_log, _fonts = logging.getLogger("regard"), logging.getLogger("regard.fonts")


class Later(Mapping[str, Any]):
    """The numbers of a picture, some of them computed when they are first asked for; of those the shapes are known.

    >>> Later({"pool": (2, 2)}, lambda: {"pool": np.eye(2)})["pool"].sum()
    np.float64(2.0)
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        compute: Callable[[], Mapping[str, NDArray[np.floating]]],
        known: Mapping[str, NDArray[np.floating]] | None = None,
    ):
        self._compute, self._known = compute, dict(known or {})
        self.shapes = dict(shapes) | {name: values.shape for name, values in self._known.items()}

    @cached_property
    def _computed(self) -> Mapping[str, NDArray[np.floating]]:
        return self._compute()

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        return self._known[name] if name in self._known else self._computed[name]

    def __contains__(self, name: object) -> bool:
        return name in self.shapes

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
    feed: Feed | None = None  # what a map is drawn from that can be walked into

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
        """What a notebook shows: the interactive drawing, inline, without network or extension.

        The plain SVG is for viewers that run no scripts, and for export to print.
        """
        canvas, svg = self._drawn("light", None, None, False)
        html = self._framed() or fragment(svg, canvas)
        return {"text/plain": str(self), "text/html": html, "image/svg+xml": svg}

    def _framed(self) -> str | None:
        """The map that can be walked into, in a frame of its own; None where there is none, or it is too large."""
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
        """A map in a notebook that is computed live by Python, whatever its size: pip install 'regard[notebook]'.

        >>> from regard.drawing import matrix
        >>> matrix(np.eye(2), ["a", "b"]).widget()
        Traceback (most recent call last):
        regard.errors.InputError: a widget shows a map, as of A.picture(kind="map"). Got a picture of kind 'matrix'.
        """
        if self.feed is None:
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

        A map of attention can be walked into, from all of it to a single weight; then `budget` is its size in bytes at
        most, and without a theme it is that of the reader's system. `width` and `transparent` are for drawings.

        >>> from regard.drawing import matrix
        >>> page = matrix(np.eye(2), ["a", "b"]).to_html()
        >>> page.count("://"), page.count("<script")  # the SVG namespace, and the script for hover
        (1, 1)
        """
        heading = self.title if title is None else title
        if self.feed is not None:
            return viewer.page_within(self.feed, _MAP_BUDGET if budget is None else budget, heading, theme)
        canvas, svg = self._drawn(theme or "light", width, title, transparent)
        return page(svg, canvas, heading, transparent)

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
        """Write it as .svg, .png, .pdf or .html, `width` pixels wide; its size is logged, and limited by a budget.

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
                f"Choose fewer words, heads or layers, or hand in a larger budget."
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
    """The path, if a picture can be saved there: a suffix that is known, in a folder that exists.

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
    """A number of bytes, for people to read.

    >>> file_size(431), file_size(12_345), file_size(4_900_000)
    ('431 bytes', '12 kB', '4.90 MB')
    """
    return f"{count} bytes" if count < 1000 else f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.2f} MB"


def _converted(svg: str, path: Path, scale: float) -> bytes:
    """The drawing as PNG or PDF; a log says which signs no font has."""
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
    except RuntimeError:  # after a panic, every later call of this process fails; a new process is not concerned
        return _converted_apart(svg, path, function, options)
    texts = re.sub("<title>.*?</title>", "", svg, flags=re.DOTALL)
    signs = sorted({sign for text in re.findall(">([^<]+)<", texts) for sign in unescape(text) if ord(sign) > 126})
    missing = [sign for sign in signs if _drawn(sign) == _drawn(_NO_SIGN)]
    if missing:
        names = ", ".join(f"{sign} (U+{ord(sign):04X})" for sign in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        _fonts.warning(
            "%s: no font on this machine has %s%s: the picture shows boxes instead. Install a font that has them, such "
            "as one of Noto, or save the picture as .svg or .html: a browser draws them with its own fonts.",
            path.name, names, more,
        )  # fmt: skip
    return data


@functools.cache
def _drawn(sign: str) -> bytes:
    """A sign alone as PNG, 1 to 3 ms; the same for all that no font has."""
    import vl_convert

    text = f'<text x="2" y="18" font-size="16">{escaped(sign)}</text>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" font-family="{FONT}">{text}</svg>'
    return bytes(vl_convert.svg_to_png(svg))


def _converted_apart(svg: str, path: Path, function: str, options: Mapping[str, float]) -> bytes:
    """The same in a process of its own."""
    code = f"import sys, vl_convert\nsys.stdout.buffer.write(vl_convert.{function}(sys.stdin.read(), **{options}))"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code],
        input=svg.encode("utf-8", "replace"),
        capture_output=True,
        check=False,
    )
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


_LEVELS = 65534  # of the numbers behind an image; one more stands for NaN

# Words carry data-pick, marks carry data-row, data-column and data-head: picking a word fades all other marks.
_SCRIPT = r"""
(function (root, rasters, labels) {
  const svg = root.querySelector("svg"), tip = root.querySelector(".regard-tip");
  const marks = [...svg.querySelectorAll("[data-mark]")], handles = [...svg.querySelectorAll("[data-pick]")];
  const said = new Map();
  for (const title of [...svg.querySelectorAll("title")]) {
    said.set(title.parentNode, title.textContent);
    title.remove();
  }
  let pinned = null;
  function show(handle) {
    for (const other of handles) other.style.fontWeight = other === handle ? "bold" : "";
    const [axis, place] = handle ? handle.dataset.pick.split(":") : [];
    for (const mark of marks) {
      mark.style.opacity = !handle ? "" : mark.dataset[axis] === place ? "1" : "0.04";
    }
  }
  for (const handle of handles) {
    handle.style.cursor = "pointer";
    handle.addEventListener("pointerenter", () => pinned || show(handle));
    handle.addEventListener("pointerleave", () => pinned || show(null));
    handle.addEventListener("click", () => { pinned = pinned === handle ? null : handle; show(pinned || handle); });
  }
  function number(raster, row, column) {
    const place = 2 * (row * raster.shape[1] + column);
    const level = raster.bytes.charCodeAt(place) + 256 * raster.bytes.charCodeAt(place + 1);
    const value = raster.low + (raster.high - raster.low) * level / LEVELS;
    return level > LEVELS ? "nan" : Math.abs(value) < 0.001 && value ? value.toExponential(1) : value.toPrecision(3);
  }
  for (const raster of rasters) raster.bytes = atob(raster.values);
  function text(event) {
    if (!(event.target instanceof Element)) return "";
    const place = event.target.dataset.raster;
    if (place === undefined) {
      for (let at = event.target; at && at !== root; at = at.parentNode) if (said.has(at)) return said.get(at);
      return "";
    }
    const raster = rasters[place], box = event.target.getBoundingClientRect();
    const spot = (from, size, count) => Math.min(Math.max(Math.floor(count * from / size), 0), count - 1);
    const row = spot(event.clientY - box.top, box.height, raster.shape[0]);
    const column = spot(event.clientX - box.left, box.width, raster.shape[1]);
    const names = [labels[raster.rows]?.[row], labels[raster.columns]?.[column]];
    return raster.name + "\n" + names.map(name => "\u2068" + name + "\u2069").join(" \u2192 ") + ": " +
      number(raster, row, column);
  }
  svg.addEventListener("pointermove", event => {
    const words = text(event);
    tip.hidden = !words;
    tip.textContent = words;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 4) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  const keep = root.querySelector(".regard-keep");
  if (keep) keep.addEventListener("click", () => {
    const copy = new Blob([new XMLSerializer().serializeToString(svg)], {type: "image/svg+xml"});
    const link = document.createElement("a");
    link.href = URL.createObjectURL(copy);
    link.download = "picture.svg";
    link.click();
  });
})
""".replace("LEVELS", str(_LEVELS))

_STYLE = (
    ".regard-tip{position:fixed;z-index:9;max-width:30em;padding:.3em .6em;border-radius:4px;pointer-events:none;"
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:60vh;overflow:hidden;font:14px sans-serif;"
    "background:INK;color:BACKGROUND}.regard-tip[hidden]{display:none}"
    ".regard-keep{display:block;margin-top:8px;font:12px sans-serif;color:MUTED;background:none;"
    "border:1px solid FAINT;border-radius:4px;padding:.2em .6em;cursor:pointer}"
    ".regard-picture svg{max-width:100%;height:auto}"
)


def fragment(svg: str, canvas: Canvas, keep: bool = False) -> str:
    """A drawing to embed in a page, with the script for hover and picking.

    >>> from regard.drawing.svg import LIGHT
    >>> fragment("<svg></svg>", Canvas(LIGHT)).startswith('<div class="regard-picture" id="regard-')
    True
    """
    return _with_script(svg, canvas, keep)[0]


def _with_script(svg: str, canvas: Canvas, keep: bool) -> tuple[str, str]:
    """A drawing with its script as HTML, and the script alone."""
    theme = canvas.theme
    data = _json([_packed(raster) for raster in canvas.rasters], canvas.labels)
    # Named by its content: different pictures in a notebook stay apart, and the same picture gives the same bytes.
    name = "regard-" + hashlib.sha256((svg + data).encode("utf-8", "replace")).hexdigest()[:12]
    style = _STYLE.replace("INK", theme.ink).replace("BACKGROUND", theme.background)
    style = style.replace("MUTED", theme.muted).replace("FAINT", theme.faint)
    button = '<button class="regard-keep" type="button">Save as SVG</button>' if keep else ""
    every = f'for (const root of document.querySelectorAll("#{name}")) if (!root.wired) {{root.wired = true; look(root,'
    script = f"{{const look = {_SCRIPT.strip()}; {every} {data});}}}}"
    html = (
        f'<div class="regard-picture" id="{name}"><style>{style}</style>{svg}\n{button}'
        f'<div class="regard-tip" hidden></div></div>\n<script>{script}</script>\n'
    )
    return html, script


def page(svg: str, canvas: Canvas, title: str, transparent: bool = False) -> str:
    """A self-contained file, whose content security policy forbids any request, and any script but its own.

    >>> from regard.drawing.svg import LIGHT
    >>> page("<svg></svg>", Canvas(LIGHT), "<it>").count("<title>&lt;it&gt;</title>")
    1
    """
    theme = canvas.theme
    background = "transparent" if transparent else theme.background
    html, script = _with_script(svg, canvas, keep=True)
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{own}'; img-src data:"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title) or 'regard'}</title>\n"
        f"<style>body{{margin:24px;background:{background};color:{theme.ink}}}</style>\n</head>\n<body>\n"
        f"{html}</body>\n</html>\n"
    )


def _packed(raster: Raster) -> dict[str, object]:
    """Two bytes for each number, between the smallest and the largest."""
    values = raster.values
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    share = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    levels = np.where(np.isnan(values), _LEVELS + 1, np.rint(share * _LEVELS)).astype("<u2")
    packed = base64.b64encode(levels.tobytes()).decode()
    shape = {"shape": values.shape, "low": low, "high": high, "rows": raster.rows, "columns": raster.columns}
    return {"name": raster.name, "values": packed} | shape


def _json(*values: object) -> str:
    """Values as the arguments of a call, safe inside a script element."""
    arguments = ", ".join(json.dumps(value) for value in values)
    return arguments.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
