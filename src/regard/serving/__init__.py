"""Ask a model that vLLM serves what it looked at: a plugin, and the `Record` of a request.

Read in this order:

client.py    `record`: what a request that asked has, from the processes of vLLM, as a `Record`
plugin.py    what vLLM loads: it hands the attention of the requests that asked to the store of its process
requests.py  `WatchedRequest`, what is kept of one; `Store`, all of them in a process
paged.py     the keys of one request, gathered from the blocks of vLLM's cache
endpoint.py  a route for the server of `vllm serve`

A request that did not ask is not looked at, and a step of the server without one that asked runs as it did before.
"""

from regard.serving.client import read, record, requests_seen
from regard.serving.plugin import register

__all__ = ["read", "record", "register", "requests_seen"]
