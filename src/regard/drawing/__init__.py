"""Pictures: arrays and words in, terminal text, SVG, PNG, PDF or HTML out. This room knows no model and no server.

Read first what every picture is made of:
    picture           `Picture`, which prints, saves and shows itself, in HTML with hover and picking
    arguments         checks of numbers, words, selections and heads
    terminal          `Table`, numbers, bars, shades and tables as text; `html_table` for notebooks
    svg               `Canvas`: shapes and text as SVG; `Theme`: the colours, light and dark
then the kinds of pictures:
    matrices          `matrix`, `tables`: numbers in shaded cells; `calculation`, `dot`, `mixture`: their arithmetic
    attention_lines   `lines`, `alignment`, `head_lines`: words joined by their weights
    all_layers        `grid`, `flow`, `head_map`: all layers and heads of a model
    maps              `landscape`: a long input; `overlay`: the patches of an image, over the image
    diagrams          `schematic`, `set_layer`, `architecture`, `mechanism`: boxes and arrows
    charts            `bars`, `curves`: any other numbers; `film`: any pictures, one after another
and the zoomable map:
    viewer            its page, its notebook widget, arrays and tokens as text
    viewer/           JavaScript and CSS, which a browser runs as they are, in files, notebooks and `regard serve`
"""

from regard.drawing.all_layers import flow, grid, head_map
from regard.drawing.attention_lines import alignment, lines
from regard.drawing.charts import bars, curves, film
from regard.drawing.diagrams import architecture, mechanism, schematic, set_layer
from regard.drawing.maps import Heat, Window, landscape, overlay
from regard.drawing.matrices import calculation, dot, matrix, mixture, tables
from regard.drawing.picture import Picture
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
    "film",
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
