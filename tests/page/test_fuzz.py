"""Requests that nobody would send: no error of ours, memory that stays, and a page that is alive afterwards.

`REGARD_REQUESTS=10000 pytest tests/page/test_fuzz.py -s` is the long version; it prints what came back.
"""

import json
import os
from collections import Counter
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_client import FILES, TEXT, read
from starlette.testclient import TestClient

from regard.page import Page, TranslatorReader
from regard.page.guard import HEADERS
from regard.page.jobs import BROKEN
from regard.page.readings import Readings

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
        {"reading": st.just("ID"), "entry": st.integers(-1, 7).map(str)},
        optional=dict.fromkeys(NAMES[2:], words),
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


def resident():
    """The memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("memory is read from /proc")
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmRSS"))


@pytest.mark.slow
def test_no_request_breaks_it(tiny_translator):
    page = Page(TranslatorReader(tiny_translator, "small"), FILES)
    page.readings = Readings(most=32, largest=4_000_000)
    seen, memory, last = Counter(), [], []
    with closing(page), TestClient(page.app(), base_url="http://127.0.0.1:8765") as client:
        last.append(read(client, text=TEXT)["id"])

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
            query = {name: value.encode("utf-8", "replace").decode() for name, value in query.items()}
            address = f"http://127.0.0.1:8765{path.replace('ID', last[-1])}"
            answer = client.request(method, address, params=query, content=content, headers=more)
            seen[answer.status_code] += 1
            assert answer.status_code in EXPECTED, (request, answer.text)
            assert HEADERS["content-security-policy"] == answer.headers["content-security-policy"]
            if answer.status_code >= 400 and method != "HEAD":
                assert answer.json()["error"]
                assert "Traceback" not in answer.text
            if path == "/api/read" and answer.status_code == 200:
                end = json.loads(answer.text.splitlines()[-1])
                seen[f"read: {next(iter(end))}"] += 1
                assert end.get("error") != BROKEN, request
                if "reading" in end:
                    last[:] = [end["reading"]["id"]]
            if sum(n for status, n in seen.items() if isinstance(status, int)) % max(REQUESTS // 20, 1) == 0:
                memory.append(resident())

        send()
        assert read(client, text=TEXT)["written"] == tiny_translator.translate(TEXT).text
        assert len(page.readings) <= 32
    print(f"\n{dict(seen)}; memory in MB: {[n >> 20 for n in memory]}")
    settled = memory[len(memory) // 4 :]  # caches fill, and libraries are loaded, in the beginning
    assert max(settled) - settled[0] < 60_000_000
