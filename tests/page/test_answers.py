"""Every address: what it answers, that its numbers are those of the Python API, and what it says when it cannot."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from support.page_client import LONG, TEXT, events, read

import regard
from regard import __version__
from regard.page.app import LIMITS

ROOMS = Path(regard.__file__).parent


def numbers(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    shape = [int(n) for n in answer.headers["x-shape"].split(",")]
    return np.frombuffer(answer.content, "<f4").reshape(shape)


@pytest.fixture(scope="module")
def record(tiny_translator):
    return tiny_translator.translate(TEXT).watch()


# Files and the model


def test_files_are_those_of_a_table(client):
    page, viewer = ROOMS / "page" / "client", ROOMS / "drawing" / "viewer"
    for address, file in (
        ("/", page / "index.html"),
        ("/viewer/index.html", page / "index.html"),
        ("/viewer/page.js", page / "page.js"),
        ("/viewer/map.js", viewer / "map.js"),
    ):
        answer = client.get(address)
        assert (answer.status_code, answer.content) == (200, file.read_bytes())
    assert client.get("/viewer/map.js").headers["content-type"].startswith("text/javascript")
    for address in (
        "/viewer/app.py",
        "/viewer/..%2f..%2fapp.py",
        "/viewer/%2e%2e/app.py",
        "/etc/passwd",
        "/api",
        "/viewer/map.js/",
    ):
        answer = client.get(address)
        assert answer.status_code == 404
        assert answer.json()["error"]


def test_about(client):
    about = client.get("/api/about").json()
    assert about["version"] == __version__
    assert (about["name"], about["task"], about["languages"]) == ("small", "translate", "")
    assert about["limits"] == LIMITS
    assert about["reading"] is None


# Reading


@pytest.mark.parametrize(("text", "is_shown"), [("A dog ate the food because it was hungry.", True), (TEXT, False)])
def test_the_models_note_stands_beside_it(client, tiny_translator, monkeypatch, text, is_shown):
    monkeypatch.setattr(tiny_translator, "note", "This head looks at the dog whatever is said.")
    assert (tiny_translator.note in events(client, text=text)[-1]["reading"]["note"]) == is_shown


def test_a_sentence(client, tiny_translator, record):
    said = events(client, text=TEXT)
    assert said[0] == {"progress": "translating", "share": 0.0}
    translation = tiny_translator.translate(TEXT)
    assert said[1]["written"] == translation.text
    reading = said[-1]["reading"]
    assert reading["text"] == TEXT
    assert reading["written"] == translation.text
    assert reading["confidence"] == round(translation.confidence, 4)
    assert reading["took"] > 0
    assert "part" not in reading
    assert [entry["name"] for entry in reading["entries"]] == list(record)
    for entry, own in zip(reading["entries"], record.values(), strict=True):
        assert (entry["kind"], entry["layer"], entry["heads"]) == (own.kind, own.layer, list(own.heads))
        assert (entry["queries"], entry["keys"]) == own.shape[2:]
        assert reading["sides"][entry["rows"]]["count"] == entry["queries"]
        assert reading["sides"][entry["columns"]]["count"] == entry["keys"]
        assert len(list(filter(None, entry["roles"]))) == len(entry["heads"])
    source, target = reading["sides"]["source"], reading["sides"]["target"]
    assert "".join(source["tokens"]).strip() == f"{TEXT}</s>"
    assert [word for word, _, _ in source["words"]][-7:] == ["The", "dog", "sees", "the", "bread", ".", "</s>"]
    assert [word for word, _, _ in target["words"]][-1] == "</s>"
    assert client.get(f"/api/reading/{reading['id']}").json() == reading


def test_which_side_an_entry_looks_from_and_to(reading):
    sides = {entry["kind"]: (entry["rows"], entry["columns"]) for entry in reading["entries"]}
    assert sides == {"encoder": ("source", "source"), "decoder": ("read", "read"), "cross": ("target", "source")}
    assert reading["sides"]["read"]["tokens"][0] == "<start>"


def test_a_long_text_comes_in_parts(client, tiny_translator):
    said = events(client, text=LONG)
    written = [event["written"] for event in said if "written" in event]
    assert len(written) == 40
    assert all(b.startswith(a) for a, b in pairwise(written))
    assert written[-1] == tiny_translator.translate(LONG).text
    first = said[-1]["reading"]
    assert first["part"]["index"] == 0
    assert len(first["part"]["ids"]) == 41, "the sentences, and the whole text"
    sentences = [event["sentence"] for event in said if "sentence" in event]
    assert sentences == first["part"]["sentences"]
    assert sentences[2] == ["The bird sees the bread.", tiny_translator.translate("The bird sees the bread.").text]
    third = client.get(f"/api/reading/{first['part']['ids'][2]}").json()
    assert third["text"] == "The bird sees the bread."
    assert third["part"]["index"] == 2
    assert third["written"] == tiny_translator.translate(third["text"]).text
    again = read(client, text=LONG, part=2)
    assert again["id"] == third["id"]
    hidden = read(client, text=LONG, part=2, hide=[1])
    assert (hidden["text"], hidden["part"]["index"]) == (third["text"], 2)
    assert weights(client, hidden, 0)[..., 1].max() == 0


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        (b"", 400, "JSON"),
        (b"{", 400, "JSON"),
        (b"[" * 100_000, 400, "JSON"),
        (b"[]", 400, "text"),
        (b'{"text": 1}', 400, "text"),
        (b'{"text": "  "}', 400, "empty"),
        (b'{"text": "\\ud800"}', 400, "surrogate"),
        (b'{"text": "a", "model": "b"}', 400, "nothing else"),
        (b'{"text": "a", "new_tokens": -1}', 400, "new_tokens"),
        (b'{"text": "a", "new_tokens": true}', 400, "new_tokens"),
        (b'{"text": "a", "part": -1}', 400, "part"),
        (b'{"text": "a", "hide": 3}', 400, "hide"),
        (b'{"text": "a", "hide": [1.5]}', 400, "hide"),
        (b'{"text": "a", "off": [[1]]}', 400, "off"),
        (b'{"text": "a", "off": [[1, "2"]]}', 400, "off"),
        (json.dumps({"text": "a" * (LIMITS["characters"] + 1)}).encode(), 413, "20,000 characters"),
        (json.dumps({"text": "a" * 300_000}).encode(), 413, "262,144 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_request_that_cannot_be_read(client, asked, status, says):
    answer = client.post("/api/read", content=asked, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert says in answer.json()["error"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"hide": [99]}, "from 0 to"),
        ({"hide": [-1]}, "from 0 to"),
        ({"hide": list(range(12))}, "all tokens are hidden"),
        ({"off": [[99, 0]]}, "no head 0 of entry 99"),
        ({"off": [[0, 99]]}, "no head 99"),
        ({"part": 5}, "parts from 0 to 0"),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_made(client, more, says):
    (error,) = [event["error"] for event in events(client, text=TEXT, **more) if "error" in event]
    assert says in error


def test_only_json_is_read(client):
    answer = client.post("/api/read", content=b'{"text": "a"}', headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert client.get("/api/read").status_code == 405


# Hidden words and heads that are off


def weights(client, reading, entry):
    return numbers(client.get("/api/weights", params={"reading": reading["id"], "entry": entry}))


def test_hidden_tokens_are_seen_by_nobody(client):
    before, after = read(client, text=TEXT), read(client, text=TEXT, hide=[1, 3])
    assert before["id"] != after["id"]
    for n, entry in enumerate(after["entries"]):
        found = weights(client, after, n)
        assert found.sum(-1) == pytest.approx(1.0, abs=1e-5)
        if entry["columns"] == "source":
            assert found[..., [1, 3]].max() == 0
            assert weights(client, before, n)[..., [1, 3]].max() > 0
    assert weights(client, read(client, text=TEXT), 0)[..., 1].max() > 0  # and the model is as it was


def test_heads_that_are_off_give_nothing(client, tiny_translator):
    before, after = read(client, text=TEXT), read(client, text=TEXT, off=[[0, 1], [3, 0]])
    names = [entry["name"] for entry in before["entries"]]
    translation = tiny_translator.translate(TEXT)
    ids = torch.tensor([[*tiny_translator.words.encode(TEXT), tiny_translator.words.end]])
    target = torch.tensor([[tiny_translator.model.config.start, *tiny_translator.words.encode(after["written"])]])
    from regard import watch

    with torch.no_grad(), watch(tiny_translator.model, without={names[0]: [1], names[3]: [0]}) as record:
        tiny_translator.model(ids, target)
    for n, name in enumerate(names):
        assert np.array_equal(weights(client, after, n), record[name].matrix[0].numpy()), name
    assert not np.array_equal(weights(client, after, 1), weights(client, before, 1))
    assert read(client, text=TEXT)["written"] == translation.text


# Weights


def test_weights_are_those_of_the_record(client, reading, record):
    for n, entry in enumerate(record.values()):
        assert np.array_equal(weights(client, reading, n), entry.matrix[0].numpy())


@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
@pytest.mark.parametrize("sinks", ["aside", "shown"])
def test_looks_are_those_of_the_record(client, reading, record, kind, sinks):
    """Of all words at once, of one word, and of some heads: the words, their shares, and what is set aside."""
    alike = [(n, entry) for n, entry in enumerate(reading["entries"]) if entry["kind"] == kind]
    side, count = alike[0][1]["rows"], alike[0][1]["queries"]
    words = {start: stop for _, start, stop in reading["sides"][side]["words"]}
    heads = ",".join(f"{n}.{head}" for n, entry in alike for head in entry["heads"])
    ask = {"reading": reading["id"], "heads": heads, "rows": f"0,{count}", "sinks": sinks}
    answers = client.get("/api/looks", params=ask).json()
    assert {answer["start"] for answer in answers} == set(words)
    for answer in answers:
        place = range(answer["start"], words[answer["start"]])
        looks = record.looks(place, kind=kind, sinks=sinks == "shown")
        expected = {look.position: pytest.approx(look.weight, abs=2e-6) for look in looks}
        assert dict(answer["looks"]) == expected
        assert dict(answer["aside"]) == {s.position: pytest.approx(s.weight, abs=2e-6) for s in looks.aside}
        assert answer["own"] == 0
        one = client.get("/api/looks", params=ask | {"rows": f"{place.start},{place.stop}"}).json()
        assert [each["start"] for each in one] == [place.start]
        assert dict(one[0]["looks"]) == expected
    last = alike[-1][0]
    some = client.get("/api/looks", params=ask | {"heads": f"{last}.1"}).json()
    looks = record.looks(range(0, words[0]), kind=kind, layer=-1, head=1, sinks=sinks == "shown")
    assert dict(some[0]["looks"]) == {look.position: pytest.approx(look.weight, abs=2e-6) for look in looks}


def test_heads_between_two_words_are_those_of_the_record(client, reading, record):
    for n, (row, column) in ((1, ((3, 4), (1, 2))), (3, ((1, 3), (0, 2)))):
        kind = reading["entries"][n]["kind"]
        ask = {"reading": reading["id"], "entry": n, "row": "{},{}".format(*row), "column": "{},{}".format(*column)}
        ranked = client.get("/api/heads", params=ask).json()
        expected = [
            (head.name, head.head, pytest.approx(head.weight, abs=1e-6))
            for head in record.heads(range(*row), range(*column), kind=kind)
        ]
        assert [(reading["entries"][entry]["name"], head, weight) for entry, head, weight in ranked] == expected


def test_a_tile_is_the_mean_of_its_heads(client, reading, record):
    entries = list(record.values())
    ask = {"reading": reading["id"], "heads": "0.0,1.2", "rows": "1,7", "columns": "0,6", "bins": "6,6"}
    exact = (entries[0].matrix[0, 0, 1:7, :6].double() + entries[1].matrix[0, 2, 1:7, :6].double()) / 2
    assert numbers(client.get("/api/tile", params=ask)) == pytest.approx(exact.numpy(), abs=1e-7)
    pooled = exact.view(3, 2, 2, 3).mean((1, 3))
    ask["bins"] = "3,2"
    assert numbers(client.get("/api/tile", params=ask)) == pytest.approx(pooled.numpy(), abs=1e-7)


def test_thumbnails(client, reading, record):
    found = numbers(client.get("/api/thumbnails", params={"reading": reading["id"], "entry": 2}))
    assert found == pytest.approx(list(record.values())[2].matrix[0].numpy(), abs=3e-6)


def test_tokens_find_and_ready(client, reading):
    name = reading["id"]
    tokens = client.get("/api/tokens", params={"reading": name, "side": "source", "from": 1, "to": 3}).json()["tokens"]
    assert tokens == reading["sides"]["source"]["tokens"][1:3]
    find = {"reading": name, "side": "source", "text": "the"}
    starts = [start for word, start, _ in reading["sides"]["source"]["words"] if word.lower() == "the"]
    assert client.get("/api/find", params=find).json() == {"places": starts, "more": False}
    assert client.get("/api/find", params=find | {"text": "zebra"}).json() == {"places": [], "more": False}
    assert client.get("/api/ready", params={"reading": name, "entry": 0}).json() == {"share": 1.0}


@pytest.mark.parametrize("token", [None, 0, -1])
def test_what_made_a_word_is_what_effects_say(client, reading, record, tiny_translator, token):
    model, words = tiny_translator.model, tiny_translator.words
    written = [*words.encode(reading["written"]), words.end]
    inputs = torch.tensor([[*words.encode(TEXT), words.end]]), torch.tensor([[model.config.start, *written[:-1]]])
    with torch.no_grad():
        best = model(*inputs)[0].topk(2)
    pairs = [(n, a if a != n else b) for n, (a, b) in zip(written, best.indices.tolist(), strict=True)]
    leads = [
        float(v[0] - v[1]) * (1 if i[0] == n else -1)
        for n, i, v in zip(written, best.indices, best.values, strict=True)
    ]
    n = leads.index(min(leads)) if token is None else token % len(written)
    params = {"reading": reading["id"], "kind": "cross"} | ({} if token is None else {"token": n})
    answer = client.get("/api/made", params=params).json()
    found = regard.effects(
        model, [inputs[0], inputs[1][:, : n + 1]], ("head", "link"), answer=pairs[n], kind="cross", estimate=True,
        tokenizer=tiny_translator.tokenizer,
    )  # fmt: skip
    assert (answer["token"], f"{answer['word']} against {answer['rival']}") == (n, found.answer)
    shown = re.findall("<title>(.*), (estimate|true): (.*)</title>", answer["pictures"]["light"])
    expected = {(each.name, "true"): each.true for each in found if each.true is not None}
    expected |= {(each.name, "estimate"): each.estimate for each in found if each.true is not None}
    assert len(shown) == len(expected) == 20
    for name, what, number in shown:
        assert float(number) == pytest.approx(
            expected[name.replace("&gt;", ">").replace("&lt;", "<"), what], rel=1e-2, abs=1e-4
        )


def test_a_map_is_saved_as_a_file(client, reading):
    for asked, heads in (({}, 8), ({"heads": "3.0,3.2"}, 2)):
        answer = client.get("/api/save", params={"reading": reading["id"], **asked})
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == 'attachment; filename="regard-map.html"'
        about = json.loads(re.search('id="regard-about">(.*?)</script>', answer.text)[1])
        assert len(about["heads"]) == heads
        assert about["title"] == TEXT
        assert {entry["kind"] for entry in about["entries"]} == ({"cross"} if asked else {"encoder"})


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("weights?entry=0", 400, "reading=…"),
        ("weights?reading=nobody&entry=0", 404, "read the text again"),
        ("reading/nobody", 404, "read the text again"),
        ("weights?reading=ID", 400, "entry=…"),
        ("weights?reading=ID&entry=99", 400, "from 0 to"),
        ("weights?reading=ID&entry=-1", 400, "whole number"),
        ("weights?reading=ID&entry=²", 400, "whole number"),
        ("weights?reading=ID&entry=1&entry=2", 400, "once"),
        ("weights?reading=ID&entry=99999999999999999999", 400, "whole number"),
        ("thumbnails?reading=ID&entry=99", 400, "from 0 to"),
        ("looks?reading=ID&heads=0.0&rows=0,99&sinks=aside", 400, "rows 0 to"),
        ("looks?reading=ID&heads=0.0&rows=3,3&sinks=aside", 400, "rows 0 to"),
        ("looks?reading=ID&heads=0.0,3.0&rows=0,1&sinks=aside", 400, "one kind"),
        ("looks?reading=ID&heads=0.99&rows=0,1&sinks=aside", 400, "heads"),
        ("looks?reading=ID&heads=0.0&rows=0,1&sinks=x", 400, "aside"),
        ("heads?reading=ID&entry=0&row=0,99&column=0,1", 400, ""),
        ("tile?reading=ID&heads=0&rows=0,1&columns=0,1&bins=1,1", 400, "heads=3.0"),
        ("tile?reading=ID&heads=0.99&rows=0,1&columns=0,1&bins=1,1", 400, "heads"),
        ("tile?reading=ID&heads=99.0&rows=0,1&columns=0,1&bins=1,1", 400, "from 0 to"),
        ("tile?reading=ID&heads=0.0,3.0&rows=0,1&columns=0,1&bins=1,1", 400, "one kind"),
        ("tile?reading=ID&heads=0.0&rows=5,2&columns=0,1&bins=1,1", 400, "rows"),
        ("tile?reading=ID&heads=0.0&rows=0,1&columns=0&bins=1,1", 400, "columns"),
        ("tile?reading=ID&heads=0.0&rows=0,5&columns=0,5&bins=0,1", 400, "rows"),
        ("tile?reading=ID&heads=0.0&rows=0,5&columns=0,5&bins=9999,9999", 400, "262,144 bins"),
        ("tokens?reading=ID&side=source&from=0&to=99", 400, "from 0 to"),
        ("tokens?reading=ID&side=middle&from=0&to=1", 400, "source"),
        ("find?reading=ID&side=source&text=", 400, "characters"),
        ("find?reading=ID&side=../../x&text=a", 400, "source"),
        ("steps?reading=ID&entry=0&head=99&token=0", 400, "heads 0 to"),
        ("steps?reading=ID&entry=0&head=0&token=99", 400, "token"),
        ("matrices?reading=ID&entry=0&head=99", 400, "heads 0 to"),
        ("matrices?reading=ID&entry=99&head=0", 400, "from 0 to"),
        ("why?reading=ID&entry=0&head=0&token=99", 400, "tokens from 0 to"),
        ("why?reading=ID&entry=0&head=0&token=0&key=99", 400, "keys to"),
        ("why?reading=ID&entry=0&head=99&token=0", 400, "heads"),
        ("why?reading=nobody&entry=0&head=0&token=0", 404, "read the text again"),
        ("made?reading=ID&kind=encoder&token=99", 400, "tokens are from 0 to"),
        ("made?reading=ID&kind=x", 400, "cross"),
        ("save?reading=ID&heads=0.0,3.0", 400, "one kind"),
        ("save?reading=ID&heads=99.0", 400, "from 0 to"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_what_is_not_there(client, reading, address, status, says):
    answer = client.get(f"/api/{address.replace('ID', reading['id'])}")
    assert answer.status_code == status
    assert says in answer.json()["error"]


def test_an_error_of_ours_shows_nothing_of_itself(page, reading, monkeypatch, capsys):
    """What went wrong is printed where the server runs; a visitor sees neither code nor paths."""
    monkeypatch.setattr("regard.page.readings.Reading.weights", lambda *_: 1 / 0)
    monkeypatch.setattr("regard.page.readers.TranslatorReader._translate", lambda *_: 1 / 0)
    with TestClient(page.app(), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        answer = client.get("/api/weights", params={"reading": reading["id"], "entry": 0})
        (event,) = events(client, text=TEXT)
    assert answer.status_code == 500
    for error in (answer.json()["error"], event["error"]):
        assert "went wrong" in error
        assert not re.search("Zero|/|\\.py|Traceback", error)
    assert capsys.readouterr().err.count("ZeroDivisionError") == 2
