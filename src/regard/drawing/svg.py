"""`Canvas`, which all pictures are drawn with: shapes and text as SVG, everything escaped; and `Theme`, its colours."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from regard.drawing.terminal import visible
from regard.errors import InputError

# From OKLab, a colour space in which equal steps look equal, to linear RGB.
_LAB_TO_LMS = np.array(
    [[1.0, 0.3963377774, 0.2158037573], [1.0, -0.1055613458, -0.0638541728], [1.0, -0.0894841775, -1.2914855480]]
)
_LMS_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
_MID_CHROMA = 1.2  # extra chroma halfway along the scale


@dataclass(frozen=True)
class Theme:
    """The colours that a picture is drawn with.

    >>> LIGHT.heat(np.array([0.0, 1.0])).tolist()
    [[247, 251, 255], [0, 46, 91]]
    """

    name: str
    background: str
    ink: str  # words and numbers
    muted: str  # captions and other secondary text
    faint: str  # frames
    panel: str  # the inside of a box
    accent: str  # the selection
    missing: tuple[int, int, int]  # NaN
    colours: tuple[str, ...]  # one for each head
    low: tuple[float, float, float]  # 0, in OKLab as lightness, chroma and hue
    high: tuple[float, float, float]  # 1
    negative: tuple[float, float, float]  # -1

    def heat(self, shares: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Numbers from -1 to 1 as colours, evenly spaced to the eye on each side of 0; NaN is `missing`."""
        share = np.clip(np.nan_to_num(shares), -1, 1)[..., None]
        low, high, negative = (
            np.array([lightness, chroma * np.cos(np.deg2rad(hue)), chroma * np.sin(np.deg2rad(hue))])
            for lightness, chroma, hue in (self.low, self.high, self.negative)
        )
        end = np.where(share < 0, negative, high)
        lab = low + np.abs(share) * (end - low)
        lab[..., 1:] += _MID_CHROMA * np.abs(share) * (1 - np.abs(share)) * end[..., 1:]  # otherwise the middle is grey
        linear = np.clip((lab @ _LAB_TO_LMS.T) ** 3 @ _LMS_TO_RGB.T, 0, 1)
        srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
        colours: NDArray[np.uint8] = np.rint(255 * srgb).astype(np.uint8)
        colours[np.isnan(shares)] = self.missing
        return colours

    def ink_on(self, colour: NDArray[np.uint8]) -> str:
        """Black or white, whichever is more legible on a colour."""
        linear = (colour.astype(float) / 255) ** 2.2
        luminance = float(linear @ [0.2126, 0.7152, 0.0722])
        return "#000000" if luminance > 0.22 else "#ffffff"

    def colour(self, head: int) -> str:
        """The colour of a head; the palette repeats."""
        return self.colours[head % len(self.colours)]


LIGHT = Theme(
    name="light",
    background="#ffffff",
    ink="#1b1f24",
    muted="#59636e",
    faint="#c9d1d9",
    panel="#eef3f8",
    accent="#b04a00",
    missing=(221, 200, 212),
    # The Okabe–Ito palette without its yellow, the pale colours darkened.
    colours=("#0072b2", "#d55e00", "#00845f", "#cc79a7", "#b07900", "#2c93cf", "#6a51a3", "#6e7781"),
    low=(0.986, 0.007, 250),
    high=(0.30, 0.095, 250),
    negative=(0.40, 0.105, 45),
)
DARK = Theme(
    name="dark",
    background="#14181d",
    ink="#e9edf2",
    muted="#9ba7b4",
    faint="#414b57",
    panel="#232a33",
    accent="#ffb454",
    missing=(90, 60, 80),
    colours=("#56b4e9", "#ff8a4c", "#35c796", "#ffc6e4", "#f0c04a", "#9dbdff", "#b9a5ff", "#b4bcc6"),
    low=(0.24, 0.018, 250),
    high=(0.90, 0.10, 225),
    negative=(0.80, 0.12, 55),
)


def theme_named(name: str) -> Theme:
    """A theme by its name."""
    if name not in ("light", "dark"):
        raise InputError(f"theme must be 'light' or 'dark'. Got {name!r}.")
    return LIGHT if name == "light" else DARK


FONT = "Helvetica, Arial, 'Liberation Sans', 'Noto Sans', sans-serif"
# Helvetica's advance widths from space to tilde, in 1/1000 em: text is laid out without loading a font.
_WIDTHS = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 "
    "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 "
    "278 556 500 722 500 500 500 334 260 334 584"
)
_SIMPLE = re.compile("[ -~\u00a0-\u00ff\u2010-\u2027\u2100-\u2bff]*")  # a glyph each: see Canvas.text on spans
_VEIL = 0.85  # of a veil, how opaque it is where a number is largest
_EM = {chr(32 + n): int(width) / 1000 for n, width in enumerate(_WIDTHS.split())}


def measure(text: str, size: float = 14, bold: bool = False) -> float:
    """The approximate width of a text, overestimated rather than underestimated."""
    ems = sum(_EM[c] if c in _EM else 0.62 * cell_len(c) if ord(c) > 126 else 0.6 for c in text)
    return ems * size * (1.1 if bold else 1.03)


def shorten(word: str, room: float, size: float = 14) -> str:
    """A word that fits into a width: control characters made visible, the end cut off.

    >>> shorten("extraordinary", 60), shorten("it", 60)
    ('extraor…', 'it')
    """
    shown = visible(word, max(int(room / size * 2.5), 2))  # hardly any letter is narrower
    if measure(shown, size) <= room:
        return shown
    while shown and measure(shown + "…", size) > room:
        shown = shown[:-1]
    return shown.rstrip("…") + "…"


def in_full(word: str) -> str:
    """A whole word for a tooltip, control characters made visible."""
    return visible(word, max(8 * len(word), 1))


def isolated(word: str) -> str:
    """A word inside a sentence whose direction must not change, as by a word of a right-to-left script.

    >>> isolated("it")
    'it'
    >>> isolated("שלום") == "\u2068שלום\u2069"
    True
    """
    shown = visible(word, 40)
    return shown if shown.isascii() else f"\u2068{shown}\u2069"


def curve(x1: float, y1: float, x2: float, y2: float, *, upright: bool = False) -> str:
    """An S-shaped path between two points that leaves and arrives horizontally, or vertically if `upright`.

    >>> curve(0, 0, 10, 20)
    'M0.0 0.0C5.0 0.0 5.0 20.0 10.0 20.0'
    """
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    (ax, ay), (bx, by) = ((x1, y), (x2, y)) if upright else ((x, y1), (x, y2))
    return f"M{x1:.1f} {y1:.1f}C{ax:.1f} {ay:.1f} {bx:.1f} {by:.1f} {x2:.1f} {y2:.1f}"


def rgb(colour: NDArray[np.uint8]) -> str:
    """A colour in SVG's notation."""
    return "#" + bytes(colour.astype(np.uint8)).hex()


@dataclass(frozen=True, eq=False)
class Raster:
    """The numbers behind an image, which a page shows on hover."""

    values: NDArray[np.floating]
    name: str
    rows: str  # a key of `Canvas.labels`
    columns: str


@dataclass
class Canvas:
    """A drawing that grows: every method adds one element, with its text and attributes escaped.

    >>> from regard.drawing.svg import LIGHT
    >>> canvas = Canvas(LIGHT)
    >>> canvas.text(0, 10, "<b>", title="<i>")
    >>> canvas.body()
    '<text x="0" y="10" font-size="14" fill="#1b1f24"><title>&lt;i&gt;</title>&lt;b&gt;</text>'
    """

    theme: Theme
    width: float = 0.0
    height: float = 0.0
    labels: dict[str, list[str]] = field(default_factory=dict)
    rasters: list[Raster] = field(default_factory=list)
    _parts: list[str] = field(default_factory=list)
    _photographs: set[str] = field(default_factory=set)  # their names in the file

    def body(self) -> str:
        """All elements, in drawing order."""
        return "\n".join(self._parts)

    def reach(self, x: float, y: float) -> None:
        """Extend the drawing to include a point."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    @contextmanager
    def group(self, **attributes: object) -> Iterator[None]:
        """Elements drawn inside the block form a group."""
        self._parts.append(f"<g{_attributes(attributes)}>")
        yield
        self._parts.append("</g>")

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str = "none", title: str = "", **more: object
    ) -> None:
        """A rectangle."""
        self.reach(x + width, y + height)
        self._add("rect", {"x": x, "y": y, "width": width, "height": height, "fill": fill} | more, title)

    def circle(self, x: float, y: float, radius: float, fill: str = "none", title: str = "", **more: object) -> None:
        """A circle."""
        self.reach(x + radius, y + radius)
        self._add("circle", {"cx": x, "cy": y, "r": radius, "fill": fill} | more, title)

    def path(self, d: str, stroke: str, width: float = 1.0, title: str = "", **more: object) -> None:
        """A line of any shape; `d` is in SVG's notation."""
        self._add("path", {"d": d, "fill": "none", "stroke": stroke, "stroke_width": width} | more, title)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1.0, **more: object) -> None:
        """A straight line."""
        self.path(f"M{_number(x1)} {_number(y1)}L{_number(x2)} {_number(y2)}", stroke, width, "", **more)

    def arrow(self, x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1.4) -> None:
        """A straight line with an arrowhead."""
        length = max(float(np.hypot(x2 - x1, y2 - y1)), 1e-9)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        head = min(4 + 2 * width, length)
        bx, by = x2 - head * ux, y2 - head * uy
        self.line(x1, y1, bx, by, stroke, width)
        side = head / 2.2
        points = ((x2, y2), (bx - side * uy, by + side * ux), (bx + side * uy, by - side * ux))
        d = "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points) + "Z"
        self._add("path", {"d": d, "fill": stroke}, "")

    def text(
        self, x: float, y: float, text: str, size: float = 14, anchor: str = "start", fill: str = "",
        bold: bool = False, italic: bool = False, sub: str = "", title: str = "", **more: object,
    ) -> None:  # fmt: skip
        """A line of text at its baseline, with an optional subscript."""
        sub_width = measure(sub, 0.7 * size, bold)
        width = measure(text, size, bold) + sub_width
        right = x + {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor] * width
        self.reach(right, y + 0.3 * size)
        subscript = ""
        if sub:  # text and subscript meet at one point, as two chunks: usvg fails on clusters in a chunk's second span
            x, anchor = right - sub_width, "end"
            below = {"x": x, "y": y + 0.25 * size, "font_size": 0.7 * size, "text_anchor": "start"}
            subscript = f"<tspan{_attributes(below)}>{escaped(sub)}</tspan>"
        attributes: dict[str, object] = {"x": x, "y": y, "font_size": size, "fill": fill or self.theme.ink}
        attributes["text_anchor"] = anchor if anchor != "start" else None  # None is left out
        attributes |= {"font_weight": "bold" if bold else None, "font_style": "italic" if italic else None}
        self._add("text", attributes | more, title, _raised(escaped(text), size) + subscript)

    def image(
        self, x: float, y: float, width: float, height: float, raster: Raster, shares: NDArray[np.floating],
        veil: str = "",
    ) -> None:  # fmt: skip
        """Numbers as an image, a pixel each: `shares` (from 0 to 1) set the colours; hover shows the raster.

        With `veil`, a colour as #rrggbb, the shares set how much of that colour covers the drawing below.
        """
        self.reach(x + width, y + height)
        palette, alphas = self.theme.heat(np.append(np.arange(255) / 254, np.nan)), b""
        if veil:
            palette = np.tile(np.frombuffer(bytes.fromhex(veil[1:]), np.uint8), (256, 1))
            alphas = bytes([*(round(_VEIL * n) for n in range(255)), 0])
        data = base64.b64encode(_png(shares, palette, alphas, 2 * max(width, height))).decode()
        attributes = {"x": x, "y": y, "width": width, "height": height, "preserveAspectRatio": "none"}
        attributes |= {"style": "image-rendering:pixelated", "href": f"data:image/png;base64,{data}"}
        self._add("image", attributes | {"data_raster": len(self.rasters)}, raster.name)
        self.rasters.append(raster)

    def photograph(self, x: float, y: float, width: float, height: float, png: bytes) -> None:
        """A picture of pixels; a picture that is drawn several times is stored once."""
        self.reach(x + width, y + height)
        name = f"regard-{hashlib.sha256(png).hexdigest()[:16]}"  # the same in every file, so that files can be joined
        if name not in self._photographs:
            self._photographs.add(name)
            data = base64.b64encode(png).decode()
            source = {"id": name, "width": 1, "height": 1, "preserveAspectRatio": "none"}
            self._parts.append("<defs>")
            self._add("image", source | {"href": f"data:image/png;base64,{data}"}, "")
            self._parts.append("</defs>")
        places = f"translate({_number(x)} {_number(y)}) scale({_number(width)} {_number(height)})"
        self._add("use", {"href": f"#{name}", "transform": places}, "")

    def _add(self, tag: str, attributes: dict[str, object], title: str, inner: str = "") -> None:
        tooltip = f"<title>{escaped(title)}</title>" if title else ""
        opening = f"<{tag}{_attributes(attributes)}"
        self._parts.append(f"{opening}>{tooltip}{inner}</{tag}>" if tooltip or inner else f"{opening}/>")


def _raised(text: str, size: float) -> str:
    """Draw ᵀ as a small raised T: few fonts have the character, and a fallback font would change the whole text."""
    up, small = _number(0.4 * size), _number(0.65 * size)
    first, *rest = text.split("ᵀ")
    if not all(map(_SIMPLE.fullmatch, rest)):
        return text
    for part in rest:
        after = f'<tspan dy="{up}">{part}</tspan>' if part else ""
        first += f'<tspan dy="-{up}" font-size="{small}">T</tspan>{after}'
    return first


def _number(value: float) -> str:
    return f"{value:z.2f}".rstrip("0").rstrip(".")


def _attributes(attributes: dict[str, object]) -> str:
    shown = {
        name if name == "preserveAspectRatio" else name.replace("_", "-"): _number(value)
        if isinstance(value, int | float)
        else escaped(str(value))
        for name, value in attributes.items()
        if value is not None
    }
    return "".join(f' {name}="{value}"' for name, value in shown.items())


def escaped(text: str) -> str:
    r"""Text as XML may contain it: control characters are made visible, other illegal characters become U+FFFD.

    >>> escaped('<"&\x00\uffff>')
    '&lt;&quot;&amp;␀\ufffd&gt;'
    """
    return escape(text if text.isprintable() else "".join(map(_legal, text)), {'"': "&quot;"})


def _legal(character: str) -> str:
    if character in "\ufffe\uffff":
        return "\ufffd"
    return visible(character) if unicodedata.category(character) in ("Cc", "Cs") and character != "\n" else character


def _png(shares: NDArray[np.floating], palette: NDArray[np.uint8], alphas: bytes, pixels: float) -> bytes:
    """A PNG with a palette of 256: 255 steps from 0 to 1, and the colour for NaN; `alphas`: how opaque each is."""
    steps = np.where(np.isnan(shares), 255, np.rint(254 * np.clip(np.nan_to_num(shares), 0, 1))).astype(np.uint8)
    times = max(round(pixels / max(shares.shape)), 1)  # for viewers that blur when they enlarge
    steps = steps.repeat(times, 0).repeat(times, 1)
    rows = np.concatenate([np.zeros((len(steps), 1), np.uint8), steps], 1)
    header = struct.pack(">IIBBBBB", steps.shape[1], steps.shape[0], 8, 3, 0, 0, 0)
    chunks: Sequence[tuple[bytes, bytes]] = (
        (b"IHDR", header),
        (b"PLTE", palette.tobytes()),
        *([(b"tRNS", alphas)] if alphas else []),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    packed = (struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)
