"""Who may ask, and what every answer says about itself."""

import json

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.page_client import TEXT

from regard.page.app import HEADERS, Guard, own_names

ASKED = {"content": json.dumps({"text": TEXT}).encode()}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("address", ["/", "/api/about", "/nothing", "/viewer/map.js", "/api/weights", "/api/read"])
def test_every_answer_has_the_headers(client, address):
    answer = client.get(address)
    for name, value in HEADERS.items():
        assert answer.headers.get_list(name) == [value]
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "set-cookie" not in answer.headers
    assert "server" not in answer.headers


def test_the_policy_lets_nothing_in(client):
    policy = dict(part.strip().split(" ", 1) for part in client.get("/").headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    for directive in ("base-uri", "form-action", "frame-ancestors"):
        assert policy[directive] == "'none'"
    assert "unsafe" not in str(policy)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200), ("localhost:8765", 200), ("LOCALHOST", 200), ("[::1]:8765", 200), ("localhost:9000", 200),
        ("evil.org", 403), ("evil.org:8765", 403), ("127.0.0.1.evil.org", 403), ("localhost.evil.org:8765", 403),
        ("", 403), ("[::2]", 403), ("192.168.0.7:8765", 403), ("localhost:8765@evil.org", 200),
    ],
)  # fmt: skip
def test_only_under_its_own_name(client, host, status):
    """The last is what no browser sends: a name of ours with more behind the colon."""
    assert client.get("/api/about", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("bound", "host", "own"),
    [
        ("127.0.0.1", "localhost", True), ("127.0.0.1", "127.0.0.1", True), ("::1", "[::1]:1", True),
        ("0.0.0.0", "192.168.0.7:80", True), ("0.0.0.0", "[fe80::1]", True), ("0.0.0.0", "localhost", True),
        ("0.0.0.0", "evil.org", False), ("192.168.0.7", "192.168.0.7", True), ("192.168.0.7", "192.168.0.8", False),
        ("lab.example.org", "lab.example.org:8765", True), ("lab.example.org", "localhost", False),
    ],
)  # fmt: skip
def test_the_names_of_an_address(bound, host, own):
    scope = {"headers": [(b"host", host.encode())], "path": "/", "method": "GET"}
    assert (Guard(None, own_names(bound), 100)._refused(scope) is None) is own


def test_this_machines_name_where_it_listens_to_all(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Desk.local")
    scope = {"headers": [(b"host", b"desk.local:8765")], "path": "/", "method": "GET"}
    assert Guard(None, own_names("0.0.0.0"), 100)._refused(scope) is None


def test_two_hosts_are_none():
    scope = {"headers": [(b"host", b"localhost"), (b"host", b"evil.org")], "path": "/", "method": "GET"}
    assert Guard(None, own_names("127.0.0.1"), 100)._refused(scope)[0] == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # curl
        ({"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://127.0.0.1:3000"}, 403),
        ({"origin": "http://evil.org"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 200),
    ],
    ids=str,
)
def test_a_text_comes_from_this_page_only(client, headers, status):
    assert client.post("/api/read", **ASKED, headers=JSON | headers).status_code == status


def test_pages_of_others_may_not_make_it_work(client):
    headers = {"sec-fetch-site": "cross-site"}
    assert client.get("/api/tile", headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 200  # a link to it


def test_a_body_is_cut_off_where_it_is_too_long(client):
    def endless():
        for _ in range(1000):
            yield b" " * 1000

    answer = client.post("/api/read", content=endless(), headers=JSON)
    assert answer.status_code == 413
    assert client.post("/api/read", content=b"{}", headers=JSON | {"content-length": "many"}).status_code in (400, 413)


@pytest.mark.parametrize(("length", "status"), [("100", None), ("101", 413), ("x", 400), ("", 400)])
def test_a_body_that_says_it_is_too_long_is_not_waited_for(length, status):
    headers = [(b"host", b"localhost"), (b"content-length", length.encode())]
    refused = Guard(None, own_names("127.0.0.1"), 100)._refused({"headers": headers, "path": "/", "method": "POST"})
    assert (refused and refused[0]) == status


def test_there_are_no_web_sockets(page):
    with (
        TestClient(page.app(), base_url="http://127.0.0.1") as client,
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/api/about"),
    ):
        pass
