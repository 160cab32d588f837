"""Arrays and words as something to look at. This room takes numbers and text; it knows no model and no tensor."""

from regard.drawing.alignment import alignment
from regard.drawing.architecture import architecture, mechanism
from regard.drawing.bars import bars
from regard.drawing.calculation import calculation
from regard.drawing.curves import curves
from regard.drawing.dot import dot
from regard.drawing.flow import flow
from regard.drawing.grid import grid
from regard.drawing.landscape import Window, landscape
from regard.drawing.lines import lines
from regard.drawing.matrix import matrix, tables
from regard.drawing.mixture import mixture
from regard.drawing.picture import Picture
from regard.drawing.schematic import schematic
from regard.drawing.set_layer import set_layer
from regard.drawing.terminal import Table

__all__ = [
    "Picture",
    "Table",
    "Window",
    "alignment",
    "architecture",
    "bars",
    "calculation",
    "curves",
    "dot",
    "flow",
    "grid",
    "landscape",
    "lines",
    "matrix",
    "mechanism",
    "mixture",
    "schematic",
    "set_layer",
    "tables",
]
