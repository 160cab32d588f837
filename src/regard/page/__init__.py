"""The page: a small server, and the JavaScript with which a browser looks into a model.

server/    what reads a text, what is kept of it, and the addresses: start here
client/    what only `regard serve` shows; the map that it contains is that of drawing/viewer
    index.html, page.js    the page: its tabs, its form, its state
    address.js             the state as the part of the address after #
    api.js                 the server's answers
    look.js, stage.js, heads.js    "Look": the words and their lines, the grid of heads
    steps.js, walk.js, strips.js   "Steps": every number of one word in one head
    whatif.js, map_tab.js, save.js, ui.js, page.css, views.css
"""

from regard.page.server.app import Page, listen, serve, url
from regard.page.server.readers import (
    HuggingFaceReader,
    Reader,
    ReadRequest,
    RecordReader,
    TranslatorReader,
    open_model,
)

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
