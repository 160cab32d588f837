"""The page: a small server, and the JavaScript with which a browser looks into a model. Read in this order:

readings.py   what a model did with a text, and which readings are kept
inside.py     every number of one token in one head of one layer, and the matrices of a head
readers.py    what reads a text: a translator of regard's own, models of Hugging Face, records from files
jobs.py       the model's work in one thread, slice by slice; everything else in a pool of threads
app.py        the addresses, from a request to an answer; the checks of every request; the server's start and end
client/       the JavaScript and CSS of the page; its map is the map of drawing/viewer
    index.html, page.js    the page: its tabs, its form, its state
    address.js             the state as the part of the address after #
    api.js                 the server's answers, kept
    look.js, stage.js, heads.js    "Look": the words and their lines, the grid of heads
    steps.js, walk.js, strips.js   "Steps": every number of one word in one head
    model.js, matrices.js          the whole model to walk in, and "Matrices": one head from X to Z
    why.js, whatif.js, map_tab.js, save.js, ui.js, page.css, views.css
"""

from regard.page.app import Page, listen, serve, url
from regard.page.readers import HuggingFaceReader, Reader, ReadRequest, RecordReader, TranslatorReader, open_model

__all__ = [
    "HuggingFaceReader",
    "Page",
    "ReadRequest",
    "Reader",
    "RecordReader",
    "TranslatorReader",
    "listen",
    "open_model",
    "serve",
    "url",
]
