"""Ask a model that vLLM serves what it looked at: a plugin, and the `Record` of a request.

Read in this order:

client.py    `record`: what a request that asked has, from the processes of vLLM, as a `Record`
requests.py  `Asked`, what a request asks for; `WatchedRequest`, what is kept of it; `Store`, all of them in a process
paged.py     the keys of one request, gathered from the blocks of vLLM's cache
plugin.py    what vLLM loads: it hands the attention of the requests that asked to the store; the only file that
             imports vllm

A request that did not ask is not looked at, and a step of the server without one that asked runs as it did before.
"""

from regard.serving.client import read, record, requests_seen
from regard.serving.plugin import VERSIONS, register

__all__ = ["VERSIONS", "read", "record", "register", "requests_seen"]
