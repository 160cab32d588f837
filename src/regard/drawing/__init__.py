"""Pictures: arrays and words in, terminal text, SVG, PNG, PDF or HTML out. This room knows no model and no tensor.

Read first what every picture is made of:
    picture           `Picture`, which prints, saves and shows itself, in HTML with hover and picking
    arguments         checks of numbers, words, selections and heads
    terminal          `Table`, numbers, bars and tables as text
    theme             the colours, light and dark
    svg               `Canvas`: shapes and text as SVG
then the kinds of pictures:
    matrices          `matrix`, `tables`: numbers in shaded cells, pooled where there are too many
    attention_lines   `lines`, `alignment`: words joined by their weights
    all_layers        `grid`, `flow`: all layers and heads of a model
    head_maps         `head_map`: what each head does
    maps              `landscape`: a long input
    overlays          `overlay`: the patches of an image, over the image
    arithmetic        `calculation`, `dot`, `mixture`: the calculation in numbers
    schematics        `schematic`, `set_layer`: the calculation as a diagram
    architectures     `architecture`, `mechanism`: a model as boxes and arrows
    charts            `bars`, `curves`: any other numbers
and the map that can be walked into:
    viewer            `Feed`, what it is drawn from; the modules in viewer/, which run in a browser as they are
    token_text        tokens as a text to read and to search
"""

from regard.drawing.all_layers import flow, grid
from regard.drawing.architectures import architecture, mechanism
from regard.drawing.arithmetic import calculation, dot, mixture
from regard.drawing.attention_lines import alignment, lines
from regard.drawing.charts import bars, curves
from regard.drawing.head_maps import head_map
from regard.drawing.maps import Window, landscape
from regard.drawing.matrices import matrix, tables
from regard.drawing.overlays import Heat, overlay
from regard.drawing.picture import Picture
from regard.drawing.schematics import schematic, set_layer
from regard.drawing.terminal import Table

__all__ = [
    "Heat",
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
    "head_map",
    "landscape",
    "lines",
    "matrix",
    "mechanism",
    "mixture",
    "overlay",
    "schematic",
    "set_layer",
    "tables",
]
