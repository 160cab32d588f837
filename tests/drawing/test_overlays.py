"""Patches over a picture: where they lie, what covers what, and how much a file holds."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from support.samples import SVG, parsed, texts

import regard
from regard.drawing import Heat, overlay

PHOTO = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)


def _images(picture):
    """(element, its pixels) of every image of numbers, in the order they are drawn."""
    for element in parsed(picture).iter(f"{SVG}image"):
        if element.get("data-raster") is not None:
            data = base64.b64decode(element.get("href").partition(",")[2])
            yield element, np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))


def test_the_veil_is_as_opaque_as_the_number_is_large():
    weights = np.array([[0.0, 0.1], [0.2, np.nan]])
    ((element, pixels),) = _images(overlay(PHOTO, [Heat(weights)]))
    high, wide = pixels.shape[:2]
    corners = [
        [pixels[high // 4, wide // 4, 3], pixels[high // 4, -wide // 4, 3]],
        [pixels[-high // 4, wide // 4, 3], pixels[-high // 4, -wide // 4, 3]],
    ]
    assert corners == [[0, 108], [216, 0]]
    assert float(element.get("width")) / float(element.get("height")) == pytest.approx(1.5, rel=1e-3)


def test_a_marked_patch_is_framed_and_does_not_set_the_scale():
    weights = np.array([[0.9, 0.1], [0.0, 0.05]])
    picture = overlay(PHOTO, [Heat(weights, marks=weights > 0.5)], marked="a sink")
    ((element, pixels),) = _images(picture)
    alphas = pixels[..., 3]
    assert (alphas[0, 0], alphas[0, -1], alphas[-1, -1]) == (216, 216, 108)
    (frame,) = (each for each in parsed(picture).iter(f"{SVG}rect") if each.get("stroke-dasharray"))
    assert [float(frame.get(key)) for key in ("x", "y")] == [float(element.get(key)) for key in ("x", "y")]
    assert float(frame.get("width")) == pytest.approx(float(element.get("width")) / 2)
    assert "a sink; they do not set the scale" in picture.caption
    assert str(picture).split("\n")[:3] == ["up to 90 %", "[]██", "  ▓▓"]


def test_patches_outside_of_the_picture_are_drawn_beside_it():
    picture = overlay(PHOTO, [Heat(np.ones((2, 2)), box=(-0.5, 0.0, 1.5, 1.0))])
    ((element, _),) = _images(picture)
    photos = [each.get("transform") for each in parsed(picture).iter(f"{SVG}use")]
    assert len(photos) == 2
    x, y, width, height = (float(n) for n in re.findall(r"[\d.]+", photos[1]))
    assert float(element.get("x")) == x
    assert float(element.get("height")) == pytest.approx(2 * height, abs=0.1)
    assert float(element.get("y")) == pytest.approx(y - height / 2, abs=0.1)
    assert float(element.get("width")) == pytest.approx(width, abs=0.1)


def test_the_picture_is_in_the_file_once_however_many_heads_there_are():
    heads = [Heat(np.random.default_rng(n).random((24, 36)), name=f"0 · {n}") for n in range(32)]
    few, many = overlay(PHOTO, heads[:1]), overlay(PHOTO, heads)
    for picture, panels in ((few, 2), (many, 33)):
        drawn = picture.to_svg()
        assert drawn.count("data:image/png") == 2 + panels - 1  # in colour, in grey, and one veil a panel
        assert drawn.count("<use") == panels
    assert "the picture" in texts(few)


@pytest.mark.slow
def test_sixteen_thousand_patches_and_a_large_photograph_stay_small(tmp_path):
    large = np.random.default_rng(0).integers(0, 255, (3000, 4000, 3), dtype=np.uint8)
    picture = overlay(large, [Heat(np.random.default_rng(1).random((128, 128)))])
    for suffix in ("svg", "html", "png"):
        assert picture.save(tmp_path / f"large.{suffix}").stat().st_size < 2_000_000
    assert len(str(picture).split("\n")) == 33


def test_errors(unchecked):
    with pytest.raises(regard.ShapeError, match=r"picture must be \(height, width, 3\) bytes. Got float64"):
        overlay(PHOTO / 255, [Heat(np.ones((2, 2)))])
    with pytest.raises(regard.ShapeError, match="at least one heat"):
        overlay(PHOTO, [])
    with pytest.raises(regard.TooLargeError, match=r"at most 256 panels. Got 257"):
        overlay(PHOTO, [Heat(np.ones((2, 2)))] * 257)
    with pytest.raises(regard.ShapeError, match=r"marks must be \(rows, columns\) = \(2, 2\)"):
        overlay(PHOTO, [Heat(np.ones((2, 2)), marks=np.ones((1, 2), bool))])
    with pytest.raises(regard.InputError, match="each side longer than 0"):
        overlay(PHOTO, [Heat(np.ones((2, 2)), box=(0.5, 0.0, 0.5, 1.0))])
