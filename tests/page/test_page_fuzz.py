"""Requests that nobody would send: no error of ours, memory that stays, and a page that is alive afterwards.

`REGARD_REQUESTS=10000 pytest tests/page/test_page_fuzz.py -s` is the long version; it prints what came back.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.page_client import TEXT

import regard
from regard.page.app import HEADERS
from regard.page.jobs import BROKEN

REQUESTS = int(os.environ.get("REGARD_REQUESTS", "300"))
EXPECTED = {200, 204, 400, 403, 404, 405, 413, 415, 503}

texts = st.one_of(
    st.sampled_from(
        [TEXT, "The cat eats the apple!", "", " ", "é", "42", "<b>&amp;</b>", "\x00", "a\u202eb", "\n\n", "🦊" * 9]
    ),
    st.text(max_size=200),
    st.text("The dog sees the bread. \n", max_size=2000),
)
numbers = st.one_of(st.integers(-3, 20), st.integers(-(2**70), 2**70))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
bodies = st.fixed_dictionaries(
    {"text": st.one_of(texts, values)},
    optional={
        "new_tokens": st.one_of(numbers, values),
        "part": st.one_of(numbers, values),
        "hide": st.one_of(st.lists(st.integers(-1, 13), max_size=4), values),
        "off": st.one_of(st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 4)), max_size=4), values),
    },
)
words = st.one_of(
    st.sampled_from(
        ["ID", "source", "target", "read", "dog", "0.0", "0.1,1.2", "3.0,3.1", "0,12", "0,5", "4,4", "../../x"]
    ),
    numbers.map(str),
    st.lists(numbers.map(str), max_size=3).map(",".join),
    st.lists(st.tuples(numbers, numbers), max_size=3).map(lambda pairs: ",".join(f"{a}.{b}" for a, b in pairs)),
    st.text(max_size=20),
)
NAMES = ["reading", "entry", "head", "heads", "rows", "columns", "bins", "token", "side", "from", "to", "text"]
queries = st.one_of(
    st.fixed_dictionaries(
        {"reading": st.just("ID"), "entry": st.integers(-1, 7).map(str)}, optional=dict.fromkeys(NAMES[2:], words)
    ),
    st.dictionaries(st.sampled_from(NAMES), words),
)
tiles = st.fixed_dictionaries(
    {"reading": st.just("ID"), "heads": st.sampled_from(["0.0", "0.0,1.1", "2.0", "3.3"])},
    optional={
        name: st.tuples(st.integers(-1, 20), st.integers(-1, 20)).map("{0[0]},{0[1]}".format)
        for name in ("rows", "columns", "bins")
    },
)
known = st.fixed_dictionaries(
    {
        "reading": st.just("ID"), "entry": st.integers(0, 5).map(str), "head": st.integers(0, 3).map(str),
        "token": st.integers(0, 13).map(str), "side": st.sampled_from(["source", "target", "read"]),
        "from": st.integers(0, 3).map(str), "to": st.integers(3, 9).map(str), "text": texts,
    },
)  # fmt: skip
ADDRESSES = ["weights", "tile", "thumbnails", "tokens", "find", "ready", "steps", "save", "about", "reading/ID", "read"]
paths = st.one_of(
    st.sampled_from([f"/api/{name}" for name in ADDRESSES]),
    st.text("abc/.%\\?#é", max_size=12).map(lambda name: f"/viewer/{quote(name, safe='/%.')}"),
    st.binary(max_size=12).map(lambda name: f"/{quote(name, safe='/%.')}"),
)
headers = st.fixed_dictionaries(
    {},
    optional={
        "host": st.sampled_from(["127.0.0.1:8765", "evil.org", "[::1]", "", "localhost:1:2"]),
        "origin": st.sampled_from(["http://127.0.0.1:8765", "null", "http://evil.org", "x"]),
        "sec-fetch-site": st.sampled_from(["same-origin", "cross-site", "none", "?"]),
        "content-type": st.sampled_from(["application/json", "text/plain", "application/json; charset=utf-16", ""]),
        "content-length": st.sampled_from(["0", "3", "-1", "x", "99999999999"]),
    },
)
requests = st.one_of(
    st.tuples(st.just("GET"), paths, queries, st.just(b""), st.just({})),
    st.tuples(st.just("GET"), st.just("/api/tile"), tiles, st.just(b""), st.just({})),
    st.tuples(st.just("GET"), st.sampled_from([f"/api/{name}" for name in ADDRESSES]), known, st.just(b""), st.just({})),
    st.tuples(st.just("POST"), st.just("/api/read"), st.just({}), bodies, st.just({})),
    st.tuples(st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "X"]), paths, queries,
              st.one_of(bodies, st.binary(max_size=300)), headers),
)  # fmt: skip


SERVER = """
import sys
from regard.page import Page, TranslatorReader, listen, serve, url
from regard.page.readings import Readings
from regard.translation import Translator

page = Page(TranslatorReader(Translator.load(sys.argv[1]), "small"))
page.readings = Readings(most=32, largest=4_000_000)  # so that what is kept does not look like a leak
with listen("127.0.0.1", 0) as listening:
    print(url(listening), flush=True)
    serve(page, listening)
"""


@pytest.fixture
def server(tmp_path, tiny_translator):
    """A page in a process of its own, whose memory is its own, and its address."""
    tiny_translator.save(tmp_path / "model")
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    command = [sys.executable, "-c", SERVER, str(tmp_path / "model")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process, process.stdout.readline().strip().removeprefix("http://").rstrip("/")
    finally:
        process.terminate()
        process.wait()


def resident(process):
    """The memory of a process, in bytes."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("memory is read from /proc")
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmRSS"))


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str


class Client:
    """Sends what it is told to, right or wrong."""

    def __init__(self, address):
        self.address, self.connection = address, None

    def send(self, method, path, headers, body):
        """The answer; a connection is used again unless the request is such that its end is unclear."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.address, timeout=60)
        unclear = "content-length" in headers
        headers = {"host": self.address, "content-length": str(len(body))} | headers
        self.connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            self.connection.putheader(name, value)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it refuses
            self.connection.endheaders(body)
        found = self.connection.getresponse()
        text = found.read().decode("utf-8", "replace")
        if unclear or found.will_close:
            self.connection.close()
            self.connection = None
        return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, text)


@pytest.mark.slow
def test_no_request_breaks_it(server, tiny_translator):
    process, address = server
    client = Client(address)
    seen, memory = Counter(), []
    asked = {"content-type": "application/json"}

    def reading():
        answer = client.send("POST", "/api/read", asked, json.dumps({"text": TEXT}).encode())
        return json.loads(answer.text.splitlines()[-1])["reading"]

    last = [reading()["id"]]

    @settings(
        max_examples=REQUESTS, deadline=None, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )  # fmt: skip
    @given(requests)
    def send(request):
        method, path, query, body, more = request
        query = {name: last[-1] if value == "ID" else value for name, value in query.items()}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        more = {"content-type": "application/json"} | more if content else more
        target = f"{path.replace('ID', last[-1])}?{urlencode(query, errors='replace')}" if query else path
        answer = client.send(method, target.replace("ID", last[-1]), more, content)
        seen[answer.status] += 1
        assert answer.status in EXPECTED, (request, answer)
        if answer.status == 400 and answer.headers["content-type"].startswith("text/plain"):  # not HTTP, says uvicorn
            seen["not HTTP"] += 1
            return
        assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
        if answer.status >= 400 and method != "HEAD":
            assert json.loads(answer.text)["error"]
            assert "Traceback" not in answer.text
        if path == "/api/read" and answer.status == 200:
            end = json.loads(answer.text.splitlines()[-1])
            seen[f"read: {next(iter(end))}"] += 1
            assert end.get("error") != BROKEN, request
            if "reading" in end:
                last[:] = [end["reading"]["id"]]
        if sum(n for status, n in seen.items() if isinstance(status, int)) % max(REQUESTS // 20, 1) == 0:
            memory.append(resident(process))

    send()
    assert process.poll() is None
    assert reading()["written"] == tiny_translator.translate(TEXT).text
    print(f"\n{dict(seen)}; memory in MB: {[n >> 20 for n in memory]}")
    settled = memory[len(memory) // 4 :]  # caches fill, and libraries are loaded, in the beginning
    assert max(settled) - settled[0] < 50_000_000
