"""Numbers and characters at the edge of what can be drawn, and files that cannot be written."""

import base64
import errno
import hashlib
import os
import re
import stat
import threading
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.disk import limited
from support.samples import KINDS, parsed

import regard
from regard import cli, drawing
from regard.io import write_file

ANY = ("dot", "schematic", "architecture", "steps", "matrix", "film")  # these draw any number, or none of the weights


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [np.inf, -np.inf, 1e308, -1e308])
@pytest.mark.filterwarnings("error")
def test_numbers_without_a_size_are_refused_or_written(kind, number):
    weights = np.array([[0.5, number], [0.5, 0.5]])
    if kind not in ANY:
        with pytest.raises(regard.InputError, match=r"must lie between -1e\+30 and 1e\+30"):
            KINDS[kind](["a", "b"], weights)
        return
    picture = KINDS[kind](["a", "b"], weights)
    for element in parsed(picture).iter():
        assert not {"nan", "inf", "-inf"} & {*element.attrib.values()}
    assert str(picture)
    assert picture.to_html()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [5e-324, 1e30, np.nan])
@pytest.mark.filterwarnings("error")
def test_numbers_however_small_are_drawn(kind, number):
    for weights in (np.array([[0.5, number], [0.5, 0.5]]), np.full((2, 2), 0.0 if np.isnan(number) else number)):
        picture = KINDS[kind](["a", "b"], weights)
        for element in parsed(picture).iter():
            assert not {"nan", "inf", "-inf"} & {*element.attrib.values()}
        assert str(picture)
        assert picture.to_html()


SIGNED = ("matrix", "film", "dot", "schematic", "architecture", "steps")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [-0.5, -1e-9, -5e-324])
@pytest.mark.filterwarnings("error")
def test_numbers_below_zero_are_refused_where_size_is_drawn(kind, number):
    weights = np.array([[0.5, number], [0.5, 0.5]])
    if kind not in SIGNED:
        with pytest.raises(regard.InputError, match=f"must be at least 0. Got {number:g}. .*drawing.tables"):
            str(KINDS[kind](["a", "b"], weights))
        return
    picture = KINDS[kind](["a", "b"], weights)
    assert "nan" not in {value for element in parsed(picture).iter() for value in element.attrib.values()}
    assert str(picture)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "numbers", [[5e-324, 0], [5e-324, 5e-324], [1, 1 + 4e-16], [-1e30, 1e30], [1e30, 1e30], [0, 0]]
)
def test_curves_of_any_numbers(numbers, unchecked):
    steps = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    for drawn in ({"y": (steps, numbers)}, {"x": (sorted(numbers), [1, 2])}):
        picture = drawing.curves(drawn)
        assert "nan" not in "".join(element.get("cx", "") + element.get("d", "") for element in parsed(picture).iter())
        assert str(picture)


# Each kind of picture that takes numbers, of weights (2, 2) and two words.
CALLS = {kind: KINDS[kind] for kind in ("lines", "matrix", "alignment", "set layer", "mixture")} | {
    "grid": lambda words, weights: drawing.grid([weights, weights], words),
    "flow": lambda words, weights: drawing.flow([weights], words),
    "map": lambda words, weights: drawing.landscape(weights, (2, 2)),
    "window": lambda words, weights: drawing.landscape(
        np.eye(2), (2, 2), window=drawing.Window((0, 0), weights, words, words)
    ),
    "heat": lambda words, weights: drawing.overlay(
        np.zeros((9, 9, 3), np.uint8), [drawing.Heat(weights, name=words[0])]
    ),
    "head map": lambda words, weights: drawing.head_map([["a", "b"]] * 2, weights, rows=words),
    "dot": lambda words, weights: drawing.dot(weights[0], weights[1], words),
    "schematic": lambda words, weights: drawing.schematic(
        x=weights, queries=weights, keys=weights, values=weights, words=words
    ),
    "values": lambda words, weights: drawing.mixture(np.eye(2), weights, words),
    "curves": lambda words, weights: drawing.curves({words[0]: (weights[0], weights[1])}),
}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.filterwarnings("error")
def test_numbers_of_any_kind_are_drawn_or_refused(kind, unchecked):
    numbers = [[0.5, 0.5], [0.25, 0.75]]
    if kind == "grid":
        numbers = [numbers, numbers]
    draw = CALLS[kind]
    before = draw(["a", "b"], np.array(numbers)).to_svg()
    for same in (numbers, torch.tensor(numbers), torch.tensor(numbers).bfloat16().requires_grad_()):
        assert draw(["a", "b"], same).to_svg() == before
    for wrong, error in (
        ([[0.5, 0.5], [0.5]], regard.ShapeError),
        ([["a", "b"], ["c", "d"]], regard.DTypeError),
        (np.full((2, 2), 1j), regard.DTypeError),
        (np.array([[0.5, None]] * 2), regard.DTypeError),
    ):
        if kind == "head map" and error is regard.ShapeError:
            continue  # its layers may have different numbers of heads
        with pytest.raises(error):
            draw(["a", "b"], [wrong, wrong] if kind == "grid" else wrong)


@pytest.mark.parametrize("kind", sorted(CALLS.keys() - {"map", "curves"}))
def test_words_that_are_none_are_refused(kind, unchecked):
    weights = np.full((2, 2, 2) if kind == "grid" else (2, 2), 0.5)
    for words in (torch.tensor([1, 2]), [1, 2], ["a", None], [b"a", b"b"], ["a"], ["a"] * 3):
        if kind == "heat" and isinstance(words, list) and words[0] == "a":
            continue  # it has one name
        with pytest.raises((regard.DTypeError, regard.ShapeError)):
            CALLS[kind](words, weights)


@pytest.mark.parametrize("kind", CALLS)
def test_a_terminal_obeys_nothing_of_a_picture(kind, unchecked):
    words = ["\x00\x1b[2J\x7f", "\x9b31m\u202e\u2066\r\b"]
    weights = np.full((2, 2, 2) if kind == "grid" else (2, 2), 0.5)
    picture = replace(CALLS[kind](words, weights), title="".join(words), caption="".join(words))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", str(picture))


@pytest.mark.filterwarnings("error")
def test_a_curve_has_a_gap_where_its_numbers_have_no_size():
    steps = np.arange(4.0)
    picture = drawing.curves({"loss": (steps, np.array([3.0, np.inf, np.nan, np.inf]))})
    assert "nan" not in "".join(element.get("cx", "") + element.get("d", "") for element in parsed(picture).iter())
    assert str(picture)
    with pytest.raises(regard.InputError, match="must have a finite number"):
        drawing.curves({"loss": (steps, np.full(4, np.inf))})
    with pytest.raises(regard.InputError, match="the steps of loss must lie between"):
        drawing.curves({"loss": (np.array([0.0, np.inf]), np.ones(2))})


@pytest.mark.parametrize("kind", KINDS)
def test_what_xml_forbids_is_replaced(kind):
    words = ["a\ufffe", "\uffff", "\x00\x85\ud800\udfff"]
    picture = KINDS[kind](words, np.full((3, 3), 1 / 3))
    drawn = picture.to_svg(title="".join(words))
    ET.fromstring(drawn)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]", drawn)
    assert "\ufffd" in drawn
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]", picture.to_html(title=words[1]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_runs_its_own_script_only(kind):
    page = KINDS[kind](["</script>", "\u2028"], np.array([[0.25, 0.75], [0.5, 0.5]])).to_html()
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    policy = re.search('Content-Security-Policy" content="(.*?)"', page)[1]
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{own}';" in policy


def test_a_full_disk_leaves_the_old_picture(tmp_path):
    path = tmp_path / "picture.svg"
    drawing.lines(np.eye(2), ["a", "b"]).save(path)
    before = path.read_bytes()
    with limited(1000), pytest.raises(regard.FileError, match=r"picture\.svg cannot be written: File too large"):
        drawing.lines(np.eye(3), ["a", "b", "c"]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_read_only_is_named(tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(regard.FileError, match=r"picture\.svg cannot be written: Read-only file system"):
        drawing.lines(np.eye(2), ["a", "b"]).save(tmp_path / "picture.svg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", [None, "target.svg", "nowhere.svg", "link.svg"])
def test_a_link_stays_a_link(there, tmp_path):
    """Its target may be missing, and it may be a link to a link; one to itself is refused."""
    path = tmp_path / "link.svg"
    path.symlink_to(tmp_path / "second.svg" if there is None else there)
    if there is None:
        (tmp_path / "second.svg").symlink_to("target.svg")
    if there == "target.svg":
        (tmp_path / "target.svg").write_text("old")
    picture = drawing.lines(np.eye(2), ["a", "b"])
    if there == "link.svg":
        with pytest.raises(regard.FileError, match=r"link\.svg cannot be written: Too many levels of symbolic links"):
            picture.save(path)
    else:
        picture.save(path)
        assert (tmp_path / (there or "target.svg")).read_text() == picture.to_svg()
    assert path.is_symlink()


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_stays_a_pipe(linked, tmp_path, capsys):
    pipe, path = tmp_path / "pipe.svg", tmp_path / "link.svg" if linked else tmp_path / "pipe.svg"
    os.mkfifo(pipe)
    if linked:
        path.symlink_to(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert cli.main(["steps", "-o", str(path)]) == 0
    reader.join(timeout=10)
    assert read[0].endswith("</svg>")
    assert capsys.readouterr().out == f"{path}\n"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert path.is_symlink() == linked
    assert len(list(tmp_path.iterdir())) == 1 + linked


@pytest.mark.parametrize(("minor", "said"), [(3, None), (7, "No space left on device")], ids=["null", "full"])
def test_a_device_stays_a_device(minor, said, tmp_path):
    path = tmp_path / "device.svg"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, minor))
        path.write_bytes(b"")
    except PermissionError:
        pytest.skip("only root can make a device")
    picture = drawing.lines(np.eye(2), ["a", "b"])
    if said is None:
        picture.save(path)
    else:
        with pytest.raises(regard.FileError, match=rf"device\.svg cannot be written: {said}\.$"):
            picture.save(path)
    assert stat.S_ISCHR(path.stat().st_mode)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("before", [None, 0o600, 0o664])
def test_a_file_keeps_its_permissions_and_reaches_the_disk_before_its_name(before, tmp_path, monkeypatch):
    """A new file has those that the user wants for new files, also where `fill` puts a file of its own in its place."""
    path, steps = tmp_path / "record", []
    if before is not None:
        path.touch()
        path.chmod(before)
    (tmp_path / "any").touch()
    modes = {None: (tmp_path / "any").stat().st_mode & 0o777}
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda handle: steps.append(os.fstat(handle).st_ino) or fsync(handle))
    monkeypatch.setattr("os.replace", lambda *paths: steps.append("renamed") or replace(*paths))

    def fill(draft):
        if before is not None:
            assert draft.stat().st_mode & 0o777 == before
        draft.unlink()
        draft.write_text("new")
        draft.chmod(0o640)

    write_file(path, fill)
    assert path.stat().st_mode & 0o777 == modes.get(before, before)
    assert steps == [path.stat().st_ino, "renamed", tmp_path.stat().st_ino]
