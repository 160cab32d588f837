"""Attention of a model that vLLM serves: a plugin for vLLM, and the `Record` of a request.

Read in this order:

client.py    `record`: the record of a request, from the processes of vLLM; `Endpoint`, the same over HTTP
plugin.py    the plugin that vLLM loads: it gives queries, and keys from the paged cache, to the store of its process
requests.py  `WatchedRequest`, the calls and entries of a request; `Store`, all watched requests of a process

Only requests that ask for a record are watched. A step of the server without a watched request runs unchanged.
"""

from regard.serving.client import read, record, requests_seen
from regard.serving.plugin import register

__all__ = ["read", "record", "register", "requests_seen"]
