"""Watching `generate`: the joined steps are the matrix of the finished text."""

import copy
import weakref

import numpy as np
import pytest
import torch
import transformers as hf
from support.models import BART, FAMILIES, GROUPED, made

import regard
from regard.watching.capture import passes
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.masks import Pattern
from regard.watching.capture.passes import ModuleCalls, Passes
from regard.watching.record import reductions
from regard.watching.record.reductions import Keep
from regard.watching.record.tokens import Text, Vocabulary

DECODERS = ["GPT-2", "GPT-NeoX", "OPT", "Llama", "Mistral", "Gemma 2", "Gemma 3", "Phi-3", "GPT-OSS", "DeepSeek-V3"]
TRANSLATORS = ["T5", "BART", "Marian"]
STEPS = 9  # more than the windows of these models are wide


def _generate(model, inputs, **options):
    options = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False, **options}
    return model.generate(**inputs, **options)


def _same(record, whole, inputs):
    assert list(record) == list(whole)
    real = inputs["attention_mask"].bool()
    for name, entry in record.items():
        ours, theirs = entry.to_dense(), whole[name].to_dense()
        assert ours.shape == theirs.shape
        rows = torch.ones(2, ours.shape[2], dtype=torch.bool)
        if entry.kind != "cross" and real.shape[1] <= ours.shape[2]:
            rows[:, : real.shape[1]] = real
        torch.testing.assert_close(ours.movedim(1, 2)[rows], theirs.movedim(1, 2)[rows], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_steps_join_to_the_matrix_of_the_whole_text(name, cache):
    model, inputs = made(name), FAMILIES[name].inputs("left")
    options = {"cache_implementation": "static", "disable_compile": True} if cache == "static" else {}
    with torch.no_grad():
        plain = _generate(model, inputs, **options)
        with regard.watch(model) as record:
            text = _generate(model, inputs, **options)
        assert torch.equal(text, plain)
        mask = torch.cat([inputs["attention_mask"], torch.ones(2, STEPS - 1, dtype=torch.long)], 1)
        places = (mask.cumsum(-1) - 1).clamp_min(0)
        with regard.watch(model) as whole:
            model(text[:, :-1], attention_mask=mask, position_ids=places)
    assert len(record.passes) == 1
    assert {entry.calls for entry in record.values()} == {STEPS}
    _same(record, whole, inputs)
    assert record.check().difference < 2e-6


def test_listed_words_are_those_of_the_prompt(recwarn):
    """What is written after them is called by its number."""
    model, inputs = made("GPT-2"), FAMILIES["GPT-2"].inputs("left")
    read = inputs["input_ids"].shape[1]
    words = [[f"{name}{n}" for n in range(read)] for name in "ab"]
    with torch.no_grad(), regard.watch(model, tokens=words) as record:
        _generate(model, inputs)
    tokens = record[next(iter(record))].tokens
    assert [list(text) for text in tokens] == [[*each, *map(str, range(read, read + STEPS - 1))] for each in words]
    assert f"b{read - 1}" in {look.word for look in record.looks(str(read), sequence=1)}
    assert not [each for each in recwarn if "tokens has" in str(each.message)]


def test_words_that_do_not_fit_are_said_to_be_unknown():
    model, inputs = made("GPT-2"), FAMILIES["GPT-2"].inputs("left")
    with torch.no_grad(), regard.watch(model, tokens=["A", "dog"]) as record:
        model(**inputs)
    with (
        pytest.warns(UserWarning, match=r"tokens has 1 list\(s\) of 2 tokens"),
        pytest.raises(regard.InputError, match=rf"each of the {inputs['input_ids'].shape[1]} tokens, in one list"),
    ):
        record.looks("dog")


@pytest.mark.parametrize("name", TRANSLATORS)
def test_translators_too(name):
    model, inputs = made(name), FAMILIES[name].inputs("right")
    del inputs["decoder_input_ids"]
    with torch.no_grad():
        with regard.watch(model) as record:
            text = _generate(model, inputs)
        with regard.watch(model) as whole:
            model(**inputs, decoder_input_ids=text[:, :-1])
    assert {entry.kind: entry.calls for entry in record.values()} == {"encoder": 1, "decoder": STEPS, "cross": STEPS}
    _same(record, whole, inputs)


def test_the_words_grow_with_the_text():
    model = made("Llama")
    inputs = FAMILIES["Llama"].inputs(None)

    class Letters:
        all_special_tokens = ()

        def convert_ids_to_tokens(self, ids):
            return [f"w{n}" for n in ids]

        def convert_tokens_to_string(self, tokens):
            return "".join(tokens)

    with torch.no_grad(), regard.watch(model, tokenizer=Letters()) as record:
        text = _generate(model, inputs)
    entry = record["model.layers.1.self_attn"]
    assert [list(tokens) for tokens in entry.tokens] == [[f"w{n}" for n in row] for row in text[:, :-1].tolist()]
    spans = record.spans({"prompt": (0, 12), "answer": (12, 12 + STEPS - 1)})
    assert sum(spans["answer"].values()) == pytest.approx(1, abs=1e-4)
    assert spans["prompt"]["answer"] == 0


def test_two_texts_are_two_passes():
    model, inputs = made("BART"), FAMILIES["BART"].inputs(None)
    del inputs["decoder_input_ids"]
    with torch.no_grad(), regard.watch(model) as record:
        _generate(model, inputs)
        _generate(model, {name: tensor[:1] for name, tensor in inputs.items()})
    assert [len(one) for one in record.passes] == [6, 6]
    assert [next(iter(one.values())).shape[0] for one in record.passes] == [2, 1]


def test_without_a_cache_every_step_is_a_pass():
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    with torch.no_grad(), regard.watch(model) as record:
        text = _generate(model, inputs, use_cache=False)
    assert len(record.passes) == STEPS
    assert record["model.layers.0.self_attn"].shape[2] == text.shape[1] - 1


def test_reductions_grow_too():
    model, inputs = made("Mistral"), FAMILIES["Mistral"].inputs("left")
    with torch.no_grad():
        with regard.watch(model) as whole:
            _generate(model, inputs)
        with regard.watch(model, keep=("received", "entropy", "top")) as record:
            _generate(model, inputs)
    for name, entry in record.items():
        assert entry.shape == whole[name].shape
        torch.testing.assert_close(entry.received(), whole[name].received(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(entry.entropy(), whole[name].entropy(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(entry.top(2).weights, whole[name].top(2).weights, atol=1e-5, rtol=1e-5)
        weights, keys = entry.top(2)  # of several keys with one weight, any may come first
        found = whole[name].to_dense().gather(-1, keys.clamp_min(0)) * (keys >= 0)
        torch.testing.assert_close(found, weights, atol=1e-5, rtol=1e-5)


def _blocks(dense, bins):
    """The mean of each bin of a dense matrix, in float64: bins of 1, 2, 4, … tokens, the fewest that are enough."""
    for axis in (-2, -1):
        size = 1
        while -(-dense.shape[axis] // size) > bins:
            size *= 2
        dense = torch.stack([part.mean(axis) for part in dense.double().split(size, axis)], axis)
    return dense


@pytest.mark.parametrize("bins", [4, 256])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["Llama", "Mistral", "BART"])
def test_summaries_grow_too(name, cache, bins, monkeypatch):
    """Also where bins double, and where the steps are reduced a few at a time."""
    monkeypatch.setattr(reductions, "BINS", bins)
    monkeypatch.setattr(passes, "_ROWS", 3)
    model, inputs = made(name), FAMILIES[name].inputs("left" if name != "BART" else "right")
    inputs.pop("decoder_input_ids", None)
    options = {"cache_implementation": "static", "disable_compile": True} if cache == "static" else {}
    with torch.no_grad():
        with regard.watch(model) as whole:
            _generate(model, inputs, **options)
        with regard.watch(model, keep="summary") as record:
            _generate(model, inputs, **options)
    assert list(record) == list(whole)
    for key, entry in record.items():
        assert entry.shape == whole[key].shape
        assert entry.calls == whole[key].calls
        dense, real = whole[key].to_dense(), whole[key].real
        want = _blocks(dense if real is None else dense * real[:, None, :, None], bins)
        torch.testing.assert_close(entry.pool().double(), want, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(entry.received(), whole[key].received(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(entry.entropy(), whole[key].entropy(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tokens", [(255, 1, 1, 1), (300, 1, 2, 1), (512, 1), (40, 600, 1), (700, 5, 400)])
def test_the_picture_of_steps_is_that_of_the_whole(tokens):
    torch.manual_seed(0)
    total = sum(tokens)
    query, key = torch.randn(2, 1, 2, total, 8).unbind(0)
    whole = regard.AttentionMatrix(query, key, mask=regard.causal())
    grown, first = None, 0
    for count in tokens:
        stop = first + count
        rows = regard.AttentionMatrix(query[:, :, first:stop], key[:, :, :stop], mask=regard.causal(first))
        found = reductions.pool_sums(rows, range(first, stop), range(stop))
        grown, first = found if grown is None else grown.plus(found), stop
    assert max(grown.sums.shape[-2:]) <= reductions.BINS
    torch.testing.assert_close(grown.mean().double(), _blocks(whole.to_dense(), 256), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(  # at once
        reductions.pool_sums(whole, range(total), range(total)).mean().double(), _blocks(whole.to_dense(), 256),
        atol=1e-6, rtol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["Llama", "BART"])
def test_what_rewrites_the_cache_is_refused_before_the_first_token(name):
    model, inputs, options = made(name), FAMILIES[name].inputs(None), {"prompt_lookup_num_tokens": 2}
    inputs.pop("decoder_input_ids", None)
    calls = []
    handle = model.register_forward_pre_hook(lambda *_: calls.append(1))
    config = hf.GenerationConfig(**{**model.generation_config.to_dict(), **options})
    for more in (options, {"generation_config": config}):
        with pytest.raises(regard.WatchError, match="without an assistant"), torch.no_grad(), regard.watch(model):
            model.generate(**inputs, max_new_tokens=STEPS, **more)
    handle.remove()
    assert not calls
    assert model.config._attn_implementation == "sdpa"
    assert "generate" not in vars(model)


@pytest.mark.parametrize("name", ["Llama", "Mistral"])
def test_a_prompt_that_generate_reads_in_chunks(name):
    model, inputs = made(name), FAMILIES[name].inputs(None)
    with torch.no_grad():
        with regard.watch(model) as record:
            text = _generate(model, inputs, prefill_chunk_size=5)
        with regard.watch(model) as whole:
            model(text[:, :-1])
    assert {entry.calls for entry in record.values()} == {STEPS + 2}
    _same(record, whole, inputs)


def test_a_cache_reordered_by_hand_is_refused():
    model, ids = made("Llama"), torch.randint(5, 90, (2, 8))
    for keep in ("matrix", "summary"):
        with pytest.raises(regard.WatchError, match="reordered"), torch.no_grad(), regard.watch(model, keep=keep):  # noqa: PT012
            cache = model(ids, use_cache=True).past_key_values
            model(ids[:, :1], past_key_values=cache)
            cache.reorder_cache(torch.tensor([1, 0]))
            model(ids[:, :1], past_key_values=cache)


@pytest.mark.parametrize("keep", ["matrix", "summary"])
def test_a_static_cache_that_is_used_again_changes_no_earlier_record(keep):
    """Its tensors are written over by the next text."""
    model, texts = made("Llama"), torch.randint(5, 90, (2, 1, 6))

    def write(ids, cache):
        for start, stop in ((0, 6), (6, 7), (7, 8)):
            model(ids[:, : stop - start], past_key_values=cache, cache_position=torch.arange(start, stop))

    with torch.no_grad():
        cache = hf.StaticCache(config=model.config, max_cache_len=12)
        with regard.watch(model, keep=keep) as both:
            for text in texts:
                cache.reset()
                write(text, cache)
        for one, text in zip(both.passes, texts, strict=True):
            with regard.watch(model) as alone:
                write(text, hf.DynamicCache(config=model.config))
            for name, entry in one.items():
                torch.testing.assert_close(entry.entropy(), alone[name].entropy(), atol=1e-5, rtol=1e-4)
                torch.testing.assert_close(entry.received(), alone[name].received(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("keep", [None, ("received", "entropy")])
def test_a_step_holds_the_newest_keys_of_a_cache_and_no_others(keep):
    """An array lives as long as the memory of its tensor is held, by whichever view."""
    causal, numbers = Pattern(bands=((None, 0),)), np.random.default_rng(0).normal(size=(1, 1, 11, 4))
    module, arrays = None, []
    for stop in range(5, 12):
        queries = range(stop - 1, stop) if arrays else range(stop)
        array = numbers[:, :, :stop].copy()  # as a cache that makes a new tensor in each step
        arrays.append(weakref.ref(array))
        call = AttentionCall(torch.randn(1, 1, len(queries), 4).double(), torch.from_numpy(array),
                             causal.mask(queries, range(stop)), kind="decoder", queries=queries, keys=range(stop),
                             pattern=causal)  # fmt: skip
        if module is None:
            module = ModuleCalls("m", call, call.matrix(), Keep(keep), Text(Vocabulary(None, None)))
        else:
            module.append(call)
        del call, array
    assert [reference() is not None for reference in arrays] == [False] * (len(arrays) - 1) + [True]
    assert module.entry().shape == (1, 1, 11, 11)
    if keep is not None:
        module.finish()
        assert all(reference() is None for reference in arrays)


def test_the_copy_of_a_watched_model_generates_by_itself():
    model, ids = made("Llama"), torch.randint(5, 90, (1, 5))
    with torch.no_grad(), regard.watch(model) as record:
        twin = copy.deepcopy(model)
        twin.generate(ids, max_new_tokens=2, num_beams=2)
    assert len(record) == 0


def test_a_cache_that_was_cut_is_refused():
    model = made("Llama")
    ids = torch.randint(5, 90, (1, 8))
    with torch.no_grad(), regard.watch(model):
        cache = model(ids, use_cache=True).past_key_values
        cache.crop(-3)
        with pytest.raises(regard.WatchError, match="cut or rewound"):
            model(ids[:, 5:6], past_key_values=cache)


def test_a_cache_filled_before_the_block():
    model = made("Llama")
    ids = torch.randint(5, 90, (1, 8))
    with torch.no_grad():
        whole = model(ids).logits
        cache = model(ids[:, :5], use_cache=True).past_key_values
        with regard.watch(model) as record:
            for n in range(5, 8):
                last = model(ids[:, n : n + 1], past_key_values=cache).logits
        with regard.watch(model) as full:
            model(ids)
    torch.testing.assert_close(last[:, -1], whole[:, -1], atol=1e-5, rtol=1e-5)
    for name, entry in record.items():
        assert entry.shape == (1, 4, 3, 8)
        torch.testing.assert_close(entry.to_dense(), full[name].to_dense()[:, :, 5:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma 3"])
def test_steps_of_several_tokens(name):
    """A prompt read in chunks."""
    model = made(name)
    ids = torch.randint(5, 90, (1, 14))
    with torch.no_grad():
        with regard.watch(model) as record:
            cache = None
            for start, stop in ((0, 6), (6, 9), (9, 10), (10, 14)):
                cache = model(ids[:, start:stop], past_key_values=cache, use_cache=True).past_key_values
        with regard.watch(model) as whole:
            model(ids)
    for key, entry in record.items():
        assert entry.calls == 4
        torch.testing.assert_close(entry.to_dense(), whole[key].to_dense(), atol=2e-5, rtol=1e-4)


def _grown(model):
    """Larger weights: otherwise attention would be all but uniform."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4) if parameter.dim() > 1 else None
    return model.eval()


@pytest.mark.parametrize("name", ["Doge", "Moshi"])
def test_joined_rows_are_those_of_the_steps(name):
    """Doge makes a new dense mask in each step; Moshi's cache drops keys that its mask would show."""
    torch.manual_seed(0)
    more = {"sliding_window": 4} if name == "Moshi" else {}
    config = getattr(hf, f"{name}Config")(**GROUPED, max_position_embeddings=64, **more)
    model, ids = _grown(getattr(hf, f"{name}ForCausalLM")(config)), torch.randint(5, 90, (1, 3))
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    with torch.no_grad():
        with regard.watch(model) as record:
            seen = model.generate(ids, **options)
        model.set_attn_implementation("eager")
        eager = model.generate(ids, **options, output_attentions=True, return_dict_in_generate=True)
    assert torch.equal(seen, eager.sequences)
    assert len(record.passes) == 1
    for layer, entry in enumerate(record.values()):
        assert entry.kind == "decoder"
        dense = entry.to_dense()
        for step, attentions in enumerate(eager.attentions):
            want, stop = attentions[layer], 3 + step
            rows = dense[:, :, stop - want.shape[2] : stop]
            first = stop - want.shape[3]  # the keys that the cache still had
            torch.testing.assert_close(rows[..., first:stop], want)
            assert not rows[..., :first].any()
            assert not rows[..., stop:].any()


def test_a_cache_that_drops_keys_at_its_own_pace_is_hidden_row_by_row():
    """Rows of a long prompt see all of it, later rows only what is left: no window describes both."""
    torch.manual_seed(0)
    causal, key = Pattern(bands=((None, 0),)), torch.randn(1, 1, 9, 4)
    calls = [(range(6), range(6)), (range(6, 7), range(4, 7)), (range(7, 9), range(5, 9))]
    steps = [
        AttentionCall(torch.randn(1, 1, len(q), 4), key[:, :, k.start : k.stop], causal.mask(q, k), kind="decoder",
                      queries=q, keys=k, pattern=causal)
        for q, k in calls
    ]  # fmt: skip
    module = ModuleCalls("m", steps[0], steps[0].matrix(), Keep(), Text(Vocabulary(None, None)))
    for step in steps[1:]:
        module.append(step)
    dense = module.entry().to_dense()
    for step, (queries, keys) in zip(steps, calls, strict=True):
        rows = dense[:, :, queries.start : queries.stop]
        torch.testing.assert_close(rows[..., keys.start : keys.stop], step.matrix().to_dense())
        assert not rows[..., : keys.start].any()


@pytest.mark.parametrize("keep", ["matrix", "summary"])
def test_steps_that_are_alike_take_the_short_way(keep, monkeypatch):
    """And a call of several tokens, between them or after a reduction, finds its place."""
    monkeypatch.setattr(passes, "_ROWS", 4)
    model, ids, sizes, long_way = made("Llama"), torch.randint(5, 90, (2, 20)), [6, 1, 1, 1, 1, 1, 3, 1, 1, 2, 1, 1], []
    observe = Passes.observe
    monkeypatch.setattr(Passes, "observe", lambda self, *call: (long_way.append(call[0].name), observe(self, *call))[1])
    with torch.no_grad():
        with regard.watch(model, keep=keep) as record:
            cache, start = None, 0
            for size in sizes:
                cache = model(ids[:, start : start + size], past_key_values=cache, use_cache=True).past_key_values
                start += size
        took = long_way.count("model.layers.0.self_attn")
        with regard.watch(model, keep=keep) as whole:
            model(ids)
    # Those of several tokens, and each first one after them or after a reduction.
    assert took == (6 if keep == "matrix" else 7)
    for name, entry in record.items():
        assert entry.shape == whole[name].shape
        assert entry.calls == len(sizes)
        torch.testing.assert_close(entry.received(), whole[name].received(), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(entry.entropy(), whole[name].entropy(), atol=1e-5, rtol=1e-4)
    assert torch.equal(record["model.layers.1.self_attn"].ids, ids)


@pytest.mark.parametrize("keep", ["matrix", "summary"])
def test_a_reordering_is_noticed_among_steps_that_are_alike(keep):
    model, ids = made("Llama"), torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    same = ids[:1, :1].expand(2, 1)  # in the first layer their keys are the same
    with pytest.raises(regard.WatchError, match="reordered"), torch.no_grad(), regard.watch(model, keep=keep):  # noqa: PT012
        cache = model(ids, use_cache=True).past_key_values
        for step in range(8):
            model(same, past_key_values=cache)
            if step == 5:
                cache.reorder_cache(torch.tensor([1, 0]))


def test_whisper_switches_to_eager_for_the_times_of_its_tokens():
    torch.manual_seed(0)
    sizes = {"num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 64, "median_filter_width": 3}
    model = hf.WhisperForConditionalGeneration(hf.WhisperConfig(**{**BART, **sizes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4) if parameter.dim() > 1 else None
    config = model.generation_config
    config.no_timestamps_token_id, config.alignment_heads, config.is_multilingual = 80, [[0, 1], [1, 2]], False
    asked = {"return_timestamps": True, "max_new_tokens": 8, "input_features": torch.randn(1, 8, 24)}
    timed = {**asked, "return_token_timestamps": True, "num_frames": torch.tensor([24])}
    before = model.config._attn_implementation
    with regard.watch(model, strict=True) as record:
        watched = model.generate(**timed)
    assert model.config._attn_implementation == before
    plain = model.generate(**timed)
    assert all(torch.equal(watched[name], plain[name]) for name in ("sequences", "token_timestamps"))
    model.set_attn_implementation("sdpa")
    with regard.watch(model) as alone:
        model.generate(**asked)
    for name, entry in record.items():
        torch.testing.assert_close(entry.to_dense(), alone[name].to_dense(), atol=1e-5, rtol=1e-4)
