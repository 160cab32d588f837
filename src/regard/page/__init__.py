"""The page: a small server, and the JavaScript with which a browser looks into a model.

server/    reading a text, keeping the reading, and answering at each address: start here
client/    the JavaScript and CSS of the page; its map is the map of drawing/viewer
    index.html, page.js    the page: its tabs, its form, its state
    address.js             the state as the part of the address after #
    api.js                 the server's answers, kept
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
