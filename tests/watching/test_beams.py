"""Watching beam search and guided generation: each hypothesis is a text of its own, equal to eager's weights."""

import contextlib

import pytest
import torch
import transformers as hf
from support.models import FAMILIES, made

import regard
from regard.watching import Link

DECODERS = ["GPT-2", "Llama", "Mistral", "Gemma 3", "GPT-OSS"]
TRANSLATORS = ["T5", "BART", "Marian"]
STEPS, BEAMS, RETURNED = 9, 4, 3


def _inputs(name, side=None):
    inputs = FAMILIES[name].inputs(side)
    inputs.pop("decoder_input_ids", None)
    return inputs


def _search(model, inputs, **options):
    options = {"max_new_tokens": STEPS, "num_beams": BEAMS, "num_return_sequences": RETURNED, **options}
    return model.generate(**inputs, **options)


@contextlib.contextmanager
def _eager(model):
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    yield
    model.set_attn_implementation(before)


def _some_end(ids, scores, **_):
    """Some hypotheses end early, by no rule that a model has learnt."""
    return ids[:, -3:].sum(-1) % 5 == 0


def _weights(output, kind):
    """Of each layer, the weights along each hypothesis, by beam_indices as transformers documents them; -1: ended."""
    steps = {"decoder": "decoder_attentions", "cross": "cross_attentions"}[kind]
    steps = getattr(output, steps, None) or output.attentions
    rows, layers = output.beam_indices, []
    prompt, ended = output.sequences.shape[1] - rows.shape[1], (rows < 0)[..., None, None, None]
    for layer in range(len(steps[0])):
        parts = []
        for step in range(rows.shape[1]):
            weights = steps[step][layer][rows[:, step].clamp_min(0)].masked_fill(ended[:, step], 0.0)
            stop = prompt + step  # the text so far; a window has the last of its keys
            around = (stop - weights.shape[-1], rows.shape[1] - 1 - step) if kind == "decoder" else (0, 0)
            parts.append(torch.nn.functional.pad(weights, around))
        layers.append(torch.cat(parts, 2))
    return layers


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS + TRANSLATORS)
def test_each_hypothesis_has_the_weights_of_eager(name, cache):
    model, inputs = made(name), _inputs(name, "left" if name in DECODERS else "right")
    options = {"cache_implementation": "static", "disable_compile": True} if cache == "static" else {}
    ends = {"stopping_criteria": [_some_end], "pad_token_id": 0, "length_penalty": 0.5}
    with torch.no_grad():
        plain = _search(model, inputs, **ends, **options)
        with regard.watch(model) as record:
            found = _search(model, inputs, **ends, **options)
        with _eager(model):
            eager = _search(model, inputs, **ends, return_dict_in_generate=True, output_attentions=True)
    assert torch.equal(found, plain)
    assert torch.equal(found, eager.sequences)
    if name == "T5" and not eager.cross_attentions[0]:
        pytest.skip(f"transformers {hf.__version__} gives no weights of T5")
    assert (eager.beam_indices < 0).any(), "none ended early"
    assert len(set(map(tuple, eager.beam_indices.tolist()))) > 2
    assert len(record.passes) == 1
    real = inputs["attention_mask"].bool().repeat_interleave(RETURNED, 0)
    for kind in ("decoder", "cross") if name in TRANSLATORS else ("decoder",):
        entries = [entry for entry in record.values() if entry.kind == kind]
        for entry, expected in zip(entries, _weights(eager, kind), strict=True):
            ours = entry.to_dense()
            assert ours.shape[:3] == (2 * RETURNED, 4, found.shape[1] - 1)
            assert entry.calls == eager.beam_indices.shape[1]
            rows = torch.ones(ours.shape[0], ours.shape[2], dtype=torch.bool)
            if name in DECODERS:
                rows[:, : real.shape[1]] = real  # those of padding are nobody's
            torch.testing.assert_close(ours.movedim(1, 2)[rows], expected.movedim(1, 2)[rows], atol=2e-5, rtol=1e-4)
    for entry, expected in zip(
        [e for e in record.values() if e.kind == "encoder"],
        getattr(eager, "encoder_attentions", None) or (),
        strict=True,
    ):
        ours, expected = entry.to_dense(), expected.repeat_interleave(RETURNED, 0)
        torch.testing.assert_close(ours.movedim(1, 2)[real], expected.movedim(1, 2)[real], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["GPT-OSS", "T5"])
def test_each_hypothesis_is_the_matrix_of_its_text(name):
    model, inputs = made(name), _inputs(name, "right" if name == "T5" else None)
    with torch.no_grad():
        with regard.watch(model) as record:
            found = _search(model, inputs, stopping_criteria=[_some_end], pad_token_id=0, length_penalty=0.5,
                            return_dict_in_generate=True)  # fmt: skip
        text, many = found.sequences[:, :-1], {n: t.repeat_interleave(RETURNED, 0) for n, t in inputs.items()}
        with regard.watch(model) as whole:
            model(**many, decoder_input_ids=text) if name == "T5" else model(text)
    lengths = (found.beam_indices >= 0).sum(1) + found.sequences.shape[1] - found.beam_indices.shape[1] - 1
    for key, entry in record.items():
        length = inputs["attention_mask"].sum(1).repeat_interleave(RETURNED) if entry.kind == "encoder" else lengths
        for ours, theirs, rows in zip(entry.to_dense(), whole[key].to_dense(), length.tolist(), strict=True):
            torch.testing.assert_close(ours[:, :rows], theirs[:, :rows], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["Llama", "BART"])
def test_reductions_of_hypotheses(name):
    model, inputs = made(name), _inputs(name, "left" if name == "Llama" else "right")
    ends = {"stopping_criteria": [_some_end], "pad_token_id": 0, "length_penalty": 0.5}
    with torch.no_grad():
        with regard.watch(model) as whole:
            _search(model, inputs, **ends)
        with regard.watch(model, keep=("received", "entropy", "top", "pool")) as record:
            _search(model, inputs, **ends)
    for key, entry in record.items():
        assert (entry.shape, entry.calls) == (whole[key].shape, whole[key].calls)
        torch.testing.assert_close(entry.received(), whole[key].received(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(entry.entropy(), whole[key].entropy(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(entry.top(2).weights, whole[key].top(2).weights, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(entry.pool(), whole[key].pool(), atol=1e-5, rtol=1e-5)


class _Letters:
    all_special_tokens = ()

    def convert_ids_to_tokens(self, ids):
        return [f"w{n}" for n in ids]

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens)


@pytest.mark.parametrize("name", ["Llama", "T5"])
def test_the_words_are_those_of_each_hypothesis(name):
    model, inputs = made(name), _inputs(name)
    with torch.no_grad(), regard.watch(model, tokenizer=_Letters()) as record:
        found = _search(model, inputs, stopping_criteria=[_some_end], pad_token_id=0, length_penalty=0.5)
    sources = [[f"w{n}" for n in row] for row in inputs["input_ids"].repeat_interleave(RETURNED, 0).tolist()]
    for entry in record.values():
        rows = sources if entry.kind == "encoder" else [[f"w{n}" for n in row] for row in found[:, :-1].tolist()]
        assert [list(tokens) for tokens in entry.tokens] == rows
        assert [list(tokens) for tokens in entry.key_tokens] == (sources if entry.kind == "cross" else rows)


def test_a_hypothesis_that_has_ended_gives_and_gets_nothing():
    model, inputs = made("Llama"), _inputs("Llama")
    with torch.no_grad(), regard.watch(model, tokenizer=_Letters()) as record:
        found = _search(model, inputs, stopping_criteria=[_some_end], pad_token_id=0, length_penalty=0.5,
                        return_dict_in_generate=True)  # fmt: skip
    lengths = (found.beam_indices >= 0).sum(1) - 1 + inputs["input_ids"].shape[1]
    assert lengths.min() < lengths.max()
    for entry in record.values():
        for one, length in zip(entry.to_dense(), lengths.tolist(), strict=True):
            assert one[:, :length].sum(-1).allclose(torch.ones(()))
            assert not one[:, length:].any()
            assert not one[..., length:].any()
    shortest = int(lengths.argmin())
    assert record.forgettable(3, sequence=shortest).tokens == int(lengths.min())


def test_links_are_cut_in_all_hypotheses():
    model, inputs = made("Llama"), _inputs("Llama", "left")
    with torch.no_grad():
        with regard.watch(model, tokenizer=_Letters(), without=Link(slice(11, None), slice(5, 8))) as record:
            found = _search(model, inputs)
        with regard.watch(model, keep=(), without=Link(slice(11, None), slice(5, 8))):
            assert torch.equal(_search(model, inputs), found)
        assert not torch.equal(_search(model, inputs), found)
    for entry in record.values():
        for text in map(entry.text, range(entry.shape[0])):  # counted without padding
            assert not text[:, :, 11:, 5:8].any()
            assert (text[:, :, 11:, 8] > 0).all()


def test_without_a_cache_every_step_is_a_pass_of_all_beams():
    model, inputs = made("Llama"), _inputs("Llama")
    with torch.no_grad(), regard.watch(model) as record:
        _search(model, inputs, use_cache=False)
    assert [one["model.layers.0.self_attn"].shape[::2] for one in record.passes] == [
        (2 * BEAMS, 12 + step) for step in range(STEPS)
    ]


def test_two_searches_are_two_passes():
    model, inputs = made("GPT-2"), _inputs("GPT-2")
    with torch.no_grad():
        with regard.watch(model) as record:
            _search(model, inputs)
            _search(model, inputs, num_return_sequences=1, do_sample=True)
        assert [one["transformer.h.0.attn"].shape[0] for one in record.passes] == [2 * RETURNED, 2]


def test_a_search_that_fails_leaves_no_entry_of_its_beams():
    model, inputs = made("Llama"), _inputs("Llama")

    def stop(ids, scores, **_):
        raise RuntimeError("enough")

    with torch.no_grad():
        with pytest.raises(RuntimeError, match="enough"), regard.watch(model) as record:
            _search(model, inputs, stopping_criteria=[stop])
        with pytest.raises(regard.WatchError, match="not ended"):
            record["model.layers.0.self_attn"]


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ({"guidance_scale": 2.0}, "matrix"),
        ({"prefill_chunk_size": 4}, "matrix"),
        ({"past_key_values": None}, "matrix"),
        ({}, ("matrix", "value")),
    ],
)
def test_what_cannot_be_followed_is_refused_before_the_first_token(options, keep):
    model, inputs = made("Llama"), _inputs("Llama")
    if "past_key_values" in options:
        ids = inputs["input_ids"].repeat_interleave(BEAMS, 0)
        options = {"past_key_values": model(ids[:, :-1], use_cache=True).past_key_values}
    calls = []
    handle = model.register_forward_pre_hook(lambda *_: calls.append(1))
    with pytest.raises(regard.WatchError, match="num_beams=1"), torch.no_grad(), regard.watch(model, keep=keep):
        _search(model, inputs, **options)
    handle.remove()
    assert not calls


# Classifier-free guidance


@pytest.mark.parametrize("keep", ["matrix", "summary"])
@pytest.mark.parametrize("negative", [None, 1, 12])
@pytest.mark.parametrize("name", ["Llama", "Mistral"])
def test_guided_texts_are_recorded_beside_what_guides_them(name, negative, keep):
    """A negative prompt as long as the prompt, a shorter one, or none: then the last token alone."""
    model, inputs = made(name), _inputs(name)
    other = inputs["input_ids"][:, -1:] if negative is None else torch.randint(5, 90, (2, negative))
    options = {"guidance_scale": 3.0, "max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False}
    options |= {} if negative is None else {"negative_prompt_ids": other}
    with torch.no_grad():
        plain = model.generate(**inputs, **options)
        with regard.watch(model, keep=keep, tokenizer=_Letters()) as record:
            text = model.generate(**inputs, **options)
        assert torch.equal(text, plain)
        written = text[:, 12:]
        with regard.watch(model) as expected:
            model(torch.cat([other, written], 1)[:, :-1])
            model(text[:, :-1])
    assert [one.name for one in record.passes] == ["unconditional", ""]
    assert "unconditional" in repr(record.passes[0])
    assert "unconditional" not in repr(record)
    for one, whole in zip(record.passes, expected.passes, strict=True):
        for key, entry in one.items():
            assert entry.calls == STEPS
            assert entry.shape == whole[key].shape
            torch.testing.assert_close(entry.received(), whole[key].received(), atol=2e-5, rtol=1e-4)
            torch.testing.assert_close(entry.entropy(), whole[key].entropy(), atol=2e-5, rtol=1e-4)
            assert [list(tokens) for tokens in entry.tokens] == [
                [f"w{n}" for n in row] for row in whole[key].ids.tolist()
            ]


def test_links_of_a_guided_text_stay_its_own():
    """The word lies elsewhere in what guides it; the same where nothing is recorded."""
    model, inputs = made("Llama"), _inputs("Llama")
    words, one = [f"w{n}" for n in inputs["input_ids"][0].tolist()], {key: tensor[:1] for key, tensor in inputs.items()}
    one |= {"guidance_scale": 3.0, "max_new_tokens": STEPS, "do_sample": False}
    one["negative_prompt_ids"] = one["input_ids"].flip(1)
    link = Link(slice(11, None), words[3])
    with torch.no_grad():
        with regard.watch(model, tokenizer=_Letters(), without=link) as record:
            text = model.generate(**one)
        with regard.watch(model, tokenizer=_Letters(), without=link, keep=()):
            again = model.generate(**one)
    assert torch.equal(text, again)
    for one, place in zip(record.passes, (8, 3), strict=True):
        for entry in one.values():
            assert not entry[:, :, 11:, place].any()
            assert (entry[:, :, 11:, 11 - place] > 0).all()
