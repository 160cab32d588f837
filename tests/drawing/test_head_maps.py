"""Heads as cells: one for each, in the colour of its role, which the legend names and counts."""

import pytest
from support.samples import SVG, parsed, texts

import regard
from regard.drawing import head_map
from regard.drawing.svg import LIGHT

ROLES = [["first token", "mixed"], ["first token", "previous token", "itself"], ["mixed"]]
SHARES = [[0.5, 0.0], [0.7, 0.9, 0.4], [0.1]]


def _cells(picture):
    return [element for element in parsed(picture).iter(f"{SVG}rect") if element.get("data-mark") == ""]


def test_a_cell_for_each_head_of_layers_of_any_width():
    cells = _cells(head_map(ROLES, SHARES))
    assert [cell.get("data-role") for cell in cells] == ["A", "·", "A", "B", "C", "·"]
    assert [cell.get("fill") for cell in cells][:4] == [
        LIGHT.colours[0],
        LIGHT.muted,
        LIGHT.colours[0],
        LIGHT.colours[1],
    ]
    opacities = [float(cell.get("fill-opacity")) for cell in cells]
    assert opacities[3] > opacities[2] > opacities[0] > opacities[1]
    lines = {float(cell.get("y")) for cell in cells}
    assert len(lines) == 3


def test_the_legend_names_and_counts():
    picture = head_map(ROLES, SHARES, framed=[[True, False], [False] * 3, [True]], frame="retrieval")
    said = texts(picture)
    for role, told in (
        ("first token", "2 heads, 60 % on average"),
        ("previous token", "1 head, 90 % on average"),
        ("mixed", "2 heads"),
        ("retrieval", "2 heads"),
    ):
        assert said[said.index(role) + 1] == told
    assert str(picture).split("\n")[:3] == ["layer 0  A□·", "layer 1  A B C", "layer 2  ·□"]
    assert str(picture).split("\n")[-1] == "□ retrieval       2 heads"
    assert head_map(ROLES, SHARES).to_svg().count("□") == 0


def test_many_roles_share_the_last_letter():
    roles = [[f"role {n}" for n in range(40)]]
    drawn = str(head_map(roles, [[0.5] * 40]))
    assert "Z role 25" in drawn
    assert "+ other    14 heads, 50 % on average" in drawn


def test_errors():
    with pytest.raises(regard.ShapeError, match=r"shares must have one for each head: \[2, 3, 1\]. Got \[2\]"):
        head_map(ROLES, [[0.5, 0.5]])
    with pytest.raises(regard.ShapeError, match=r"rows must name the layers: 3. Got 1"):
        head_map(ROLES, SHARES, rows=["a"])
