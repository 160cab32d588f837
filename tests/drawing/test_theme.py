"""Colours: perceptually even, legible, and distinct for colour-blind readers."""

import numpy as np
import pytest

from regard.drawing.svg import DARK, LIGHT


class TestTheme:
    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_shades_are_even_to_the_eye(self, theme, sign):
        steps = _oklab(theme.heat(sign * np.linspace(0, 1, 11)))
        apart = np.linalg.norm(np.diff(steps, axis=0), axis=1)
        assert apart.max() / apart.min() < 1.7
        lightness = steps[:, 0] if theme is DARK else -steps[:, 0]
        assert (np.diff(lightness) > 0.03).all()

    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    def test_what_is_written_can_be_read(self, theme):
        for ink, least in ((theme.ink, 12), (theme.muted, 4.5), (theme.accent, 4.5)):
            assert _contrast(ink, theme.background) >= least
        assert all(_contrast(colour, theme.background) >= 3 for colour in theme.colours)
        for shade in theme.heat(np.linspace(-1, 1, 41)):
            assert _contrast(theme.ink_on(shade), "#" + bytes(shade).hex()) >= 3.8

    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    def test_the_first_heads_differ_for_the_colour_blind(self, theme):
        # Viénot, Brettel and Mollon's reduction to what a deuteranope and a protanope see, on linear light.
        kinds = {
            "deuteranopia": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
            "protanopia": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
        }
        colours = np.array([list(bytes.fromhex(colour[1:])) for colour in theme.colours[:4]])
        for reduce in kinds.values():
            seen = _oklab_of_linear(np.clip(_linear(colours) @ np.array(reduce).T, 0, 1))
            for a in range(4):
                for b in range(a):
                    assert np.linalg.norm(seen[a] - seen[b]) > 0.05


def _linear(rgb):
    share = np.asarray(rgb) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def _oklab(rgb):
    return _oklab_of_linear(_linear(rgb))


def _oklab_of_linear(light):
    """Ottosson's forward matrices, as published: the theme has only their inverses."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.cbrt(light @ cones.T) @ lab.T


def _contrast(one, other):
    light = sorted(float(_linear(list(bytes.fromhex(c[1:]))) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)
