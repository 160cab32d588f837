"""The page: a small server through which a browser looks into a model. The viewer itself lies in drawing/.

Read in this order:
readings      what a model did with a text, and which of them are kept
inside        every number of one token in one head of one layer
readers       what reads a text: a translator of regard's own
other_models  models of Hugging Face, and records from files
jobs          the model's work in one thread, slice by slice; pictures' in others
guard         what holds for every request and every answer
app           the addresses, from a request to an answer
server        the server, from an address to its end
"""

from regard.page.app import Page
from regard.page.other_models import HuggingFaceReader, RecordReader, open_model
from regard.page.readers import Asked, Reader, TranslatorReader
from regard.page.server import listen, serve, url

__all__ = [
    "Asked",
    "HuggingFaceReader",
    "Page",
    "Reader",
    "RecordReader",
    "TranslatorReader",
    "listen",
    "open_model",
    "serve",
    "url",
]
