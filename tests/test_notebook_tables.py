"""What a notebook and a prompt show of the answers: small tables of escaped text, without the words that are hidden."""

import re
import sys
import types
from html.parser import HTMLParser

import pytest
import torch
from support.models import Layer, Layers

import regard
from regard.drawing.terminal import html_table
from regard.errors import InputError
from regard.matrix import Top
from regard.translation.result import Alternative, Translation
from regard.watching.questions.atlas import Habits
from regard.watching.questions.looks import Head, Heads, Look, Looks, Rollout, Spans
from regard.watching.record.record import Record
from regard.watching.see import Question, describe

EVIL = '<script>alert("1")</script>&amp;'
WORDS = ["A", "dog", EVIL, "ate"]


class Page(HTMLParser):
    """The tags, the styles and the rows of a page; tags must be balanced."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.styles, self.text, self.rows = [], set(), [], "", []
        self.feed(html)
        self.close()
        assert not self.open, f"{self.open} are left open"

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.styles += [value for name, value in attrs if name == "style"]
        assert {name for name, _ in attrs} <= {"style", "scope", "colspan"}
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def _record(layers=Layer, words=WORDS):
    torch.manual_seed(0)
    with torch.no_grad(), regard.watch(layers(kind="decoder"), tokens=words) as record:
        record.model(torch.randn(1, len(words), 16), regard.causal())
    return record


def _named(name):
    """A record whose only module has this name."""
    return Record([{name: next(iter(_record().values()))}], unseen=[EVIL])


def _translation():
    found = [Alternative(f"Un chien {EVIL}", -0.1), Alternative("Le chien", -0.7)]
    return Translation(EVIL, found[0].text, -0.1, found, [], [], [], [], [])


SHOWN = {
    "looks": lambda: _record().looks("ate"),
    "looks of an odd word": lambda: _record().looks(2),
    "looked_at": lambda: _record().looked_at(2),
    "heads": lambda: _record().heads(3, 2),
    "heads by name": lambda: Heads(f"it → {EVIL}", (Head(EVIL, 4, 3, 0.61),)),
    "spans": lambda: _record().spans("word"),
    "rollout": lambda: _record(Layers).rollout("ate"),
    "Translation": _translation,
    "Record": lambda: _named("attention"),
    "Top": lambda: next(iter(_record().values())).top(3),
}
WITHOUT_WORDS = {"Top", "heads"}  # numbers and the names of modules only


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_a_table_of_escaped_text(name):
    page = Page(SHOWN[name]()._repr_html_())
    assert page.tags <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span"}
    assert name in WITHOUT_WORDS or EVIL in page.text
    assert 2 <= len(page.rows) <= 25


@pytest.mark.parametrize("name", SHOWN)
def test_the_colours_are_those_of_the_page(name):
    """Light or dark: nothing has a colour of its own."""
    page = Page(SHOWN[name]()._repr_html_())
    found = {value for style in page.styles for value in re.findall(r"(?:color|background)[^:;]*:([^;]*)", style)}
    assert found <= {"inherit", "none", "currentColor"}


@pytest.mark.parametrize("name", SHOWN)
def test_a_prompt_shows_few_lines(name):
    shown = repr(SHOWN[name]())
    assert len(shown.splitlines()) <= 12
    assert max(map(len, shown.splitlines())) <= 200
    assert not re.search(r"\w=|tensor\(", shown), "the fields of a dataclass"


def test_long_answers_are_cut_and_say_so():
    looks = Looks("it", tuple(Look(f"word{n}", 0.01, n) for n in range(1234)))
    heads = Heads("it → dog", tuple(Head("layer", n, 0, 0.01) for n in range(1234)))
    top = Top(torch.rand(2, 3, 1234, 50), torch.arange(50).expand(2, 3, 1234, 50))
    for answer in (looks, heads, top):
        page = Page(answer._repr_html_())
        assert len(page.rows) <= 12
        assert re.fullmatch(r"… and 1,2\d\d (more|others)", page.rows[-1][0])
        assert len(repr(answer)) < 1000
    spans = Spans(tuple(map(str, range(300))), tuple(map(str, range(300))), torch.rand(300, 300))
    page = Page(spans._repr_html_())
    assert len(page.rows) <= 13
    assert len(page.rows[0]) == len(page.rows[1]) <= 13
    assert "…" in page.rows[0]
    page = Page(Spans(("a", "b"), ("c", "d"), torch.tensor([[0.25, 0.75], [0.0, 1.0]]))._repr_html_())
    assert page.rows == [["", "c", "d"], ["a", "25 %", "75 %"], ["b", "", "100 %"]]


def test_nothing_is_a_table_too():
    record = Record([])
    assert "0 attentions" in Page(record._repr_html_()).text
    assert repr(Top(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.long))) == "Top of shape (0, 3)"
    Page(Top(torch.zeros(2, 0, 3), torch.zeros(2, 0, 3, dtype=torch.long))._repr_html_())
    Page(Looks("it", ())._repr_html_())
    Page(html_table([]))


def test_bars_are_as_long_as_shares():
    page = Page(html_table([["a", 0.5], ["b", 1.0], ["c", float("nan")], ["d", 7.0], ["e", -1.0]]))
    widths = [float(found) for style in page.styles for found in re.findall(r";width:([\d.]+)em", style)]
    assert [width / widths[1] for width in widths] == [0.5, 1, 0, 1, 0]
    assert [row[1] for row in page.rows[:3]] == ["50 %", "100 %", "nan"]


def test_controls_and_lone_surrogates_can_be_shown_and_saved():
    html = html_table([["\ud800 \u202e \x1b[2J two\nlines"]], ["\udfff"], caption="\x00")
    assert html.encode()
    assert not re.search("[\x00-\x1f\u202e]", html)


# What the mask hides


def test_hidden_words_are_not_listed():
    record = _record()
    for n in range(len(WORDS)):
        assert sorted(look.position for look in record.looks(n)) == list(range(n + 1))
        assert sorted(look.position for look in record.looked_at(n)) == list(range(n, len(WORDS)))
        assert sorted(look.position for look in record.rollout(n).own) == list(range(n + 1))
    assert record.looks("dog").of("ate") == 0
    assert sum(look.weight for look in record.looks("dog")) == pytest.approx(1)
    spans = Page(record.spans("word")._repr_html_()).rows[1:]
    assert [[cell != "" for cell in row[1:]] for row in spans] == torch.ones(4, 4).tril().bool().tolist()


def test_a_word_that_some_head_may_see_is_listed():
    """Also at a weight that is rounded to 0."""
    visible = torch.ones(1, 2, 4, 4, dtype=torch.bool)
    visible[0, 0, :, 3] = visible[0, :, :, 2] = False
    layer = Layer()
    with torch.no_grad(), regard.watch(layer, tokens=["A", "dog", "the", "ate"]) as record:
        layer.project.weight *= 1000  # all weight on one key of each row
        layer(100 * torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(1)), visible)
    assert 0.0 in [look.weight for look in record.looks("A")]
    assert {look.word for look in record.looks("A")} == {"A", "dog", "ate"}
    assert {look.word for look in record.looks("A", head=0)} == {"A", "dog"}
    assert {look.word for look in record.looked_at("ate")} == {"A", "dog", "the", "ate"}
    assert not len(record.looked_at("the"))


def test_padding_of_one_text_and_a_bias_hide_words():
    words = ["A", "dog", "cat", "ate"]
    bias = torch.zeros(4, 4).masked_fill(torch.eye(4, dtype=torch.bool), -torch.inf)
    layer = Layer()
    with torch.no_grad(), regard.watch(layer, tokens=[words, words]) as record:
        layer(torch.randn(2, 4, 16), regard.padding(torch.tensor([4, 2])) & regard.bias(bias))
    assert [{look.word for look in record.looks("A", sequence=n)} for n in (0, 1)] == [{"dog", "cat", "ate"}, {"dog"}]
    assert {look.word for look in record.looked_at("dog", sequence=1)} == {"A"}  # the others are padding
    with pytest.raises(InputError, match="not in the text"):  # padding is none of it
        record.looked_at("ate", sequence=1)


def test_see_lists_what_may_be_seen():
    record = _record(words=["A", "dog", "cat", "ate"])
    lines = describe(record, Question(), "A dog cat ate").splitlines()[1:]
    assert [len(re.findall("━+ ", line)) for line in lines] == [1, 2, 3, 4]
    assert '"ate"' not in describe(record, Question(start="dog"), "A dog cat ate", as_json=True)
    assert "A" not in describe(record, Question(end="dog"), "").splitlines()[1].replace("is looked at by", "")


def test_the_name_of_a_column_stands_over_its_numbers():
    html = html_table([["a", 5, 0.5], ["b", None, 0.25]], ["word", "layer", "share"])
    assert re.findall(r"text-align:(\w+)\">(word|layer|share)<", html) == [
        ("left", "word"), ("right", "layer"), ("left", "share"),
    ]  # fmt: skip


FRAMES = {
    "looks": (lambda: _record().looks("ate"), ("word", "weight", "position")),
    "heads": (lambda: _record().heads(3, 2), ("name", "layer", "head", "weight")),
    "spans": (lambda: _record().spans("word"), ("start", "end", "weight")),
    "rollout": (lambda: _record(Layers).rollout("ate"), ("word", "weight", "position", "source")),
    "atlas": (lambda: _record().atlas(), Habits._fields),
    "forgettable": (lambda: _record().forgettable(2), ("layer", "weight")),
    "effects": (
        lambda: regard.effects(Layer(), torch.randn(1, 4, 16)),
        ("name", "change", "before", "after", "layer", "head", "estimate", "true", "start", "end"),
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_answer_is_a_sequence_and_a_pandas_frame(name, monkeypatch):
    """The tests do without pandas: what it is called with stands for it."""
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns)))
    make, fields = FRAMES[name]
    answer = make()
    rows, columns = answer.to_pandas()
    assert columns == fields
    assert rows == list(answer) == [answer[n] for n in range(len(answer))]
    assert len(answer) == len(rows) > 0
    assert answer[:2] == tuple(rows[:2])


def test_spans_and_rollouts_begin_with_the_largest_weight():
    spans = _record().spans("word")
    assert len(spans) == 16
    assert [pair.weight for pair in spans] == sorted(spans.weights.flatten().tolist(), reverse=True)
    assert spans[spans[0].start][spans[0].end] == spans[0].weight
    rollout = _record(Layers).rollout("ate")
    assert [origin[:3] for origin in rollout] == list(rollout.own)
    both = Rollout(Looks("it", (Look("dog", 0.5, 1), Look("ate", 0.1, 2))), Looks("it", (Look("chien", 0.4, 1),)))
    assert [(origin.word, origin.source) for origin in both] == [("dog", False), ("chien", True), ("ate", False)]


def test_pandas_is_asked_for_only_where_it_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(regard.MissingDependencyError, match="pip install pandas"):
        _record().looks("ate").to_pandas()
