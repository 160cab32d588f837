"""The page: a small server through which a browser looks into a model. The viewer itself lies in drawing/.

Read server/: what reads a text, what is kept of it, and the addresses.
"""

from regard.page.server.app import Page
from regard.page.server.listening import listen, serve, url
from regard.page.server.other_models import HuggingFaceReader, RecordReader, open_model
from regard.page.server.readers import Asked, Reader, TranslatorReader

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
