"""One law: of a padded text, every question gives what it gives for the text alone."""

import dataclasses

import numpy as np
import pytest
import torch
from support.models import FAMILIES, made
from torch import Tensor, nn

import regard
from regard.drawing import Picture
from regard.scores import bind
from regard.watching.capture.masks import within_text
from regard.watching.questions.cache import RULES
from regard.watching.questions.looks import Answer
from regard.watching.record.tokens import Tokens

TEXT = ["A", "dog", "ate", ".", "The", "dog", "sat", "."]
LONGER = ["Then", "it", "went", "out", ".", "It", "was", "hungry", "and", "old", "but", "quick"]


class Words:
    """A tokenizer of words, each with a number of its own; 0 is padding."""

    all_special_tokens = ("[PAD]",)
    known = ("[PAD]", *sorted({*TEXT, *LONGER}))

    def convert_ids_to_tokens(self, ids):
        return [self.known[n] if n < len(self.known) else f"w{n}" for n in ids]

    def convert_tokens_to_string(self, tokens):
        return " ".join(tokens)

    def ids(self, words):
        return torch.tensor([self.known.index(word) for word in words])


WORDS = Words()


def padded(side):
    """Two texts, the second of them padded, and which of their tokens are real."""
    one, other = WORDS.ids(LONGER), WORDS.ids(TEXT)
    ids, real = one.repeat(2, 1), torch.ones(2, len(one), dtype=torch.long)
    here = slice(0, len(other)) if side == "right" else slice(len(one) - len(other), None)
    ids[1], real[1] = 0, 0
    ids[1, here], real[1, here] = other, 1
    return ids, real


def read(name, side, keep):
    """A record of the batch, and one of its second text alone."""
    model, (ids, real) = made(name), padded(side)
    places = {"position_ids": (real.cumsum(1) - 1).clamp_min(0)} if side == "left" and name != "T5" else {}
    more = (
        {"decoder_input_ids": WORDS.ids(["Then", "it", "went", "Then", "it"]).repeat(2, 1)}
        if FAMILIES[name].feeds == "texts"
        else {}
    )
    with torch.no_grad():
        with regard.watch(model, tokenizer=WORDS, keep=keep) as both:
            model(ids, attention_mask=real, **places, **more)
        with regard.watch(model, tokenizer=WORDS, keep=keep) as alone:
            model(ids[1:, real[1].bool()], **{name: value[1:] for name, value in more.items()})
    both.prompt = alone.prompt = 4
    return both, alone


def written(name, side, keep):
    """The same of a generation, and of the text that it wrote."""
    model, (ids, real) = made(name), padded(side)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        with regard.watch(model, tokenizer=WORDS, keep=keep) as both:
            found = model.generate(ids, attention_mask=real, **options)
        with regard.watch(model, tokenizer=WORDS, keep=keep) as alone:
            own = ids[1:, real[1].bool()]
            if model.config.is_encoder_decoder:
                model(own, decoder_input_ids=found[1:, :-1])
            else:
                model(torch.cat([own, found[1:, ids.shape[1] : -1]], 1))
    both.prompt = alone.prompt = 1 if model.config.is_encoder_decoder else len(TEXT)
    return both, alone


def continued(name, keep):
    """Padding between a text and what is written after it, step by step."""
    model, (ids, real), new = made(name), padded("right"), WORDS.ids(LONGER[:4])
    places, mask, cache = (real.cumsum(1) - 1).clamp_min(0), real, None
    with torch.no_grad():
        with regard.watch(model, tokenizer=WORDS, keep=keep) as both:
            for token in (None, *new):
                step = ids if token is None else token.repeat(2, 1)
                cache = model(
                    step, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
                ).past_key_values
                places, mask = mask.sum(1, keepdim=True), torch.cat([mask, torch.ones(2, 1, dtype=torch.long)], 1)
        with regard.watch(model, tokenizer=WORDS, keep=keep) as alone:
            model(torch.cat([ids[1:, real[1].bool()], new[None]], 1))
    both.prompt = alone.prompt = len(TEXT)
    return both, alone


def torch_encoder(side, keep):
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 16, batch_first=True), 2).eval()
    _, real = padded(side)
    x = 2 * torch.randn(2, real.shape[1], 16)
    hidden = ~real.bool()
    with torch.no_grad():
        with regard.watch(model, tokens=[LONGER, TEXT], keep=keep) as both:
            model(x, src_key_padding_mask=hidden)
        with regard.watch(model, tokens=TEXT, keep=keep) as alone:
            model(x[1:, real[1].bool()])
    both.prompt = alone.prompt = 4
    return both, alone


def ended(name, keep):
    """The second text of a batch ends before the first: what is read after that is padding."""
    model, (ids, real) = made(name), padded("left")
    inputs = {"input_ids": ids, "attention_mask": real, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        plain = model.generate(**inputs, max_new_tokens=6, min_new_tokens=6, eos_token_id=98)[1]
        end = {"eos_token_id": int(plain[-3]), "max_new_tokens": 6}
        with regard.watch(model, tokenizer=WORDS, keep=keep) as both:
            found = model.generate(**inputs, **end)
        with regard.watch(model, tokenizer=WORDS, keep=keep) as alone:
            own = model.generate(ids[1:, real[1].bool()], do_sample=False, pad_token_id=0, **end)
    assert found[1, -1] == 0
    assert len(own[0]) - 1 < found.shape[1]
    both.prompt = alone.prompt = None
    return both, alone


def our_transformer(side, keep):
    torch.manual_seed(0)
    model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=99, pad=0)).eval()
    (ids, real), target = padded(side), WORDS.ids(["Then", "it", "went", "Then", "it", "out"]).repeat(2, 1)
    target[1, 5:] = 0
    with torch.no_grad():
        with regard.watch(model, tokenizer=WORDS, keep=keep) as both:
            model(ids, target)
        with regard.watch(model, tokenizer=WORDS, keep=keep) as alone:
            model(ids[1:, real[1].bool()], target[1:, :5])
    both.prompt = alone.prompt = 4
    return both, alone


CASES = {
    f"{name}, {side}, {how.__name__}": (how, name, side)
    for how, names in (
        (read, ("BERT", "GPT-2", "Llama", "Gemma 2", "GPT-OSS", "T5", "BART")),
        (written, ("GPT-2", "Llama", "T5", "Marian")),
    )
    for name in names
    for side in ("left", "right")
    if not (name in ("BART", "Marian") and side == "left")  # whose encoders count places from the left
    if not (how is written and name in ("GPT-2", "Llama") and side == "right")  # where the last prediction is padding's
} | {
    f"{how.__name__}, {given}": (how, given)
    for how, given in (
        (torch_encoder, "left"), (torch_encoder, "right"), (our_transformer, "right"),
        (continued, "GPT-2"), (continued, "Llama"), (ended, "Llama"), (ended, "T5"),
    )
}  # fmt: skip

PLACES = ("dog", 1, -1, range(1, 3))
QUESTIONS = {
    "looks": lambda r, kind, n: [r.looks(place, kind=kind, sequence=n, sinks=sinks) for place in _places(r, kind) for sinks in (None, True)],
    "a head looks": lambda r, kind, n: r.looks(1, kind=kind, layer=-1, head=1, sequence=n, sinks=False),
    "looked at": lambda r, kind, n: [r.looked_at(place, kind=kind, sequence=n, sinks=sinks) for place in _places(r, kind, "key_tokens") for sinks in (None, True)],
    "heads": lambda r, kind, n: r.heads(-1, 1, kind=kind, sequence=n),
    "spans": lambda r, kind, n: [r.spans(by, kind=kind, sequence=n) for by in ("word", "sentence", {"end": -1, "start": (0, 2)})],
    "weights": lambda r, kind, n: r.weights(kind=kind, sequence=n),
    "pool": lambda r, kind, n: r.pool(3, 3, kind=kind, sequence=n),
    "atlas": lambda r, kind, n: r.atlas(context=r.prompt if kind == "decoder" else None, kind=kind, sequence=n),
    "lines": lambda r, kind, n: r.picture("lines", word=-1, kind=kind, sequence=n),
    "matrix": lambda r, kind, n: r.picture("matrix", kind=kind, sequence=n),
    "grid": lambda r, kind, n: r.picture("grid", kind=kind, sequence=n),
    "map": lambda r, kind, n: r.picture("map", kind=kind, sequence=n),
    "by norm": lambda r, kind, n: r.by_norm().weights(kind=kind, sequence=n),
}  # fmt: skip
OF_ONE_TEXT = {
    "flow": lambda r, kind, n: r.picture("flow", kind=kind, sequence=n),
    "scores": lambda r, kind, n: [r.at(kind=kind).scores(habit, sequence=n) for habit in ("sink", "previous", "diagonal")],
    "induction": lambda r, kind, n: r.at(kind=kind).scores("induction", sequence=n),
    "rollout": lambda r, kind, n: [r.rollout(1, sequence=n, sinks=sinks) for sinks in (None, True)],
}  # fmt: skip
OF_A_CACHE = {
    "forgettable": lambda r, kind, n: [_shares(r.forgettable(2, by=by, sequence=n, window=3)) for by in RULES]
}


def _shares(forgettable):
    """Without which tokens they are: of the same words, any may stay."""
    return forgettable.tokens, forgettable.size, forgettable.weights


def _places(record, kind, side="tokens"):
    tokens = getattr(next(iter(record.at(kind=kind).values())), side)
    return PLACES if tokens is not None and tokens[-1].has("dog") else PLACES[1:]


QUICK = ("BERT, left, read", "Llama, right, read", "T5, left, read", "ended, Llama", "continued, GPT-2")
SOME_SLOW = [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]


@pytest.mark.parametrize("case", SOME_SLOW)
def test_a_padded_text_is_answered_as_the_text_alone(case):
    how, *given = CASES[case]
    both, alone = how(*given, ("matrix", "value"))
    for kind in dict.fromkeys(entry.kind for entry in alone.values()):
        own = {} if kind == "cross" else OF_ONE_TEXT if how is not ended else {"flow": OF_ONE_TEXT["flow"]}
        for question, ask in {**QUESTIONS, **own, **(OF_A_CACHE if kind == "decoder" else {})}.items():
            same(ask(both, kind, 1), ask(alone, kind, 0), f"{question} of {kind}")
    for name, entry in both.items():
        one, only = entry.text(1), alone[name]
        for reduction in ("received", "entropy", "pool"):
            same(getattr(one, reduction)(), getattr(only, reduction)(), f"{reduction} of {name}")
            padding = getattr(entry, reduction)()[1]  # gives nothing, and gets nothing
            assert (
                float(padding.sum()) == pytest.approx(float(getattr(only, reduction)().sum()), rel=1e-3)
                or reduction == "pool"
            )


@pytest.mark.parametrize("case", SOME_SLOW)
def test_so_are_the_reductions_that_are_kept(case):
    how, *given = CASES[case]
    both, alone = how(*given, ("received", "entropy", "pool", "top"))
    for name, entry in both.items():
        one, only = entry.text(1), alone[name]
        for reduction in ("received", "entropy", "pool"):
            same(getattr(one, reduction)(), getattr(only, reduction)(), f"{reduction} of {name}")
        same(one.top(3), only.top(3), f"top of {name}")


def _place(ranked):
    return ranked.position if hasattr(ranked, "position") else (ranked.name, ranked.head)


def same(found, expected, where):
    """Alike in all parts; numbers up to rounding, and so where they stand in a sentence."""
    if isinstance(expected, Picture):
        found, expected = ((p.kind, p.words, dict(p.numbers)) for p in (found, expected))
    if isinstance(expected, Tensor | np.ndarray):
        torch.testing.assert_close(
            torch.as_tensor(found).double(), torch.as_tensor(expected).double(), atol=2e-5, rtol=1e-3, msg=lambda m: f"{where}: {m}", equal_nan=True,
        )  # fmt: skip
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=2e-5, rel=1e-3, nan_ok=True), where
    elif dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            if field.name != "note":  # has rounded numbers
                parts = [getattr(each, field.name) for each in (found, expected)]
                if isinstance(expected, Answer) and field.name == "items":  # equal shares may come in any order
                    parts = [sorted(part, key=_place) for part in parts]
                same(*parts, f"{where}, {field.name}")
    elif isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key, value in expected.items():
            same(found[key], value, f"{where}, {key}")
    elif isinstance(expected, tuple | list):
        assert len(found) == len(expected), f"{where}: {found}, {expected}"
        for n, (one, other) in enumerate(zip(found, expected, strict=True)):
            same(one, other, f"{where}, {n}")
    else:
        assert found == expected, where


def test_padding_may_lie_anywhere():
    """As in a batch that goes on after texts of several lengths."""
    tokens = Tokens(["▁A", "<pad>", "▁dog", "s", "<pad>"], ["<pad>"])
    text = tokens.without_padding([0, 2, 3], 0)
    assert [(word.text, word.start) for word in text.words] == [("A", 0), ("dogs", 1)]


@pytest.mark.parametrize(("name", "side"), [("BERT", "left"), ("Llama", "right")])
def test_so_is_what_a_word_rests_on_by_gradient(name, side):
    model, (ids, real) = made(name), padded(side)
    found = []
    for n, given, mask in ((1, ids, real), (0, ids[1:, real[1].bool()], real[1:, real[1].bool()])):
        with regard.watch(model, tokenizer=WORDS, keep=("matrix", "value", "gradient")) as record:
            output = model(given, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp_min(0))[0]
        output[n, mask[n].bool()][-1, :4].sum().backward()  # all squares add up to a constant after the norm
        found.append(record.relevance(-1, sequence=n))
    same(*found, "relevance")
    assert len(found[1]) > 3


CUT = torch.tensor([[True] * 4 + [False] * 5, [False, True, True, False] * 2 + [True]])
MASKS = {
    "causal": regard.causal(),
    "window": regard.window(2, 1, offset=1),
    "offsets": regard.window(3, 0, offset=[0, 1]),
    "documents": regard.documents(torch.tensor([[0] * 9, [0, 0, 1, 1, 1, 2, 2, 2, 2]])),
    "bias": regard.bias(torch.randn(2, 3, 9, 9).masked_fill(torch.rand(2, 3, 9, 9) < 0.3, -torch.inf)),
    "of each head": regard.bias(torch.randn(3, 1, 9)),
    "cut": regard.cut(slice(2, 7), slice(1, 4), within=regard.window(3, 0)) & regard.cut(CUT, CUT.flip(1), heads=[1]),
    "steered": regard.cut(CUT, slice(3, None), bias=1.5, heads=torch.tensor([[True] * 3, [False, True, True]])),
}


@pytest.mark.parametrize("positions", [range(2, 8), torch.tensor([0, 1, 4, 5, 8])])
@pytest.mark.parametrize("name", MASKS)
def test_a_mask_says_the_same_of_what_is_no_padding(name, positions):
    def numbers(mask, shape, *places):
        bound, device = bind(mask, shape, torch.device("cpu"), plain=False), torch.device("cpu")
        seen, bias = bound.tile(*places, device), bound.bias_tile(*places)
        bias = torch.zeros(1) if bias is None else bias
        return (bias if seen is None else bias.where(seen, -torch.inf)).expand(*shape[:2], *map(len, places)).double()

    count = len(positions)
    expected = numbers(MASKS[name], (2, 3, 9, 9), positions, positions)[1:]
    found = numbers(within_text(MASKS[name], 1, positions, positions), (1, 3, count, count), range(count), range(count))
    assert torch.equal(found, expected)


def test_links_count_from_the_first_token_that_is_no_padding():
    model, (ids, real) = made("Llama"), padded("left")
    for link in (regard.Link(5, 1), regard.Link(slice(3, None), slice(0, 2)), regard.Link("sat", "dog")):
        records = []
        for given, mask in ((ids, real), (ids[1:, real[1].bool()], None)):
            places = None if mask is None else (mask.cumsum(1) - 1).clamp_min(0)
            with torch.no_grad(), regard.watch(model, tokenizer=WORDS, without=link) as record:
                model(given, attention_mask=mask, position_ids=places)
            records.append(record.weights(sequence=len(given) - 1))
        torch.testing.assert_close(*records, atol=2e-5, rtol=1e-3)


def test_a_text_that_is_all_padding_is_named():
    model, (ids, real) = made("BERT"), padded("right")
    with torch.no_grad(), regard.watch(model) as record:
        model(ids, attention_mask=real * torch.tensor([[1], [0]]))
    with pytest.raises(regard.InputError, match="text 1 of the batch has no tokens but padding"):
        record.looks(0, sequence=1)
