"""`Theme`: the colours of a picture, light or dark; perceptually even and safe for colour-blind readers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

__all__ = ["DARK", "LIGHT", "Theme", "theme_named"]

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
        """Numbers from -1 to 1 as colours, evenly spaced to the eye on each side of 0; NaN is `missing`.

        >>> DARK.heat(np.array([np.nan])).tolist()
        [[90, 60, 80]]
        """
        share = np.clip(np.nan_to_num(shares), -1, 1)[..., None]
        low, high, negative = (np.array(_cartesian(*end)) for end in (self.low, self.high, self.negative))
        end = np.where(share < 0, negative, high)
        lab = low + np.abs(share) * (end - low)
        lab[..., 1:] += _MID_CHROMA * np.abs(share) * (1 - np.abs(share)) * end[..., 1:]  # otherwise the middle is grey
        colours = _rgb(lab)
        colours[np.isnan(shares)] = self.missing
        return colours

    def ink_on(self, colour: NDArray[np.uint8]) -> str:
        """Black or white, whichever is more legible on a colour.

        >>> LIGHT.ink_on(np.array([247, 251, 255], np.uint8))
        '#000000'
        """
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
    """A theme by its name.

    >>> theme_named("dark").background
    '#14181d'
    """
    for theme in (LIGHT, DARK):
        if theme.name == name:
            return theme
    raise InputError(f"theme must be 'light' or 'dark'. Got {name!r}.")


def _cartesian(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    """OKLCh as OKLab."""
    angle = np.deg2rad(hue)
    return lightness, chroma * float(np.cos(angle)), chroma * float(np.sin(angle))


def _rgb(lab: NDArray[np.floating]) -> NDArray[np.uint8]:
    linear = np.clip((lab @ _LAB_TO_LMS.T) ** 3 @ _LMS_TO_RGB.T, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    colours: NDArray[np.uint8] = np.rint(255 * srgb).astype(np.uint8)
    return colours
