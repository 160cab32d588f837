"""`watch` and `Record`: each question against the dense weights, our own layers, and what may go wrong."""

import copy
import threading

import pytest
import torch
from models import FAMILIES, made
from torch import nn

import regard
from regard.watching import knock_out
from regard.watching.tokens import Tokens

WORDS = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hun", "##gry", "dog", "."]


@pytest.fixture(scope="module")
def llama():
    model = made("Llama")
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**FAMILIES["Llama"].inputs("left"))
    return record


@pytest.fixture(scope="module")
def bart():
    model, inputs = made("BART"), FAMILIES["BART"].inputs(None)
    inputs["decoder_input_ids"] = inputs["decoder_input_ids"][:, :5]
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**inputs)
    return record


def _dense(record, **chosen):
    return torch.stack([entry.to_dense() for entry in record.at(**chosen).values()])  # layers first


class Layer(nn.Module):
    """The least that counts as a layer of ours."""

    def __init__(self, heads=2, kind="encoder"):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.project = nn.Linear(8 * heads, 3 * 8 * heads)
        self.attend = regard.attention

    def forward(self, x, mask=None):
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, 8)).movedim(-3, 0).transpose(-3, -2).unbind(0)
        return x + self.attend(q, k, v, mask=mask, dropout=0.0).transpose(-3, -2).flatten(-2)


class Ours(nn.Module):
    def __init__(self, kind="encoder"):
        super().__init__()
        self.layers = nn.ModuleList(Layer(kind=kind) for _ in range(3))

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


# Questions


def test_looks_is_the_mean_row_by_word(llama):
    dense = _dense(llama)
    looks = llama.looks("it", sequence=0)
    row = dense[:, 0, :, 6].mean((0, 1))
    assert [look.weight for look in looks] == sorted((look.weight for look in looks), reverse=True)
    assert looks.of("food") == pytest.approx(float(row[4]), abs=1e-6)
    assert looks.of("hungry") == pytest.approx(float(row[8:10].sum()), abs=1e-6)
    assert sum(look.weight for look in looks) == pytest.approx(1, abs=1e-5)


def test_a_word_of_several_tokens_is_one_word(llama):
    rows = _dense(llama, layer=1, head=2)[0, 0, 0, 8:10].mean(0)
    looks = llama.looks("hungry", layer=1, head=2)
    assert looks.word == "hungry"
    assert looks.of("it") == pytest.approx(float(rows[6]), abs=1e-6)
    assert llama.looks(range(8, 10), layer=1, head=2).of("it") == pytest.approx(looks.of("it"))


def test_what_looks_at_a_word(llama):
    columns = _dense(llama)[:, 0].mean((0, 1))[:, 4]
    looks = llama.looked_at("food")
    found = {look.position: look.weight for look in looks}
    assert found[6] == pytest.approx(float(columns[6]), abs=1e-6)
    assert found[8] == pytest.approx(float(columns[8:10].mean()), abs=1e-6)  # "hungry": the mean of its two rows


def test_heads_between_two_words(llama):
    dense = _dense(llama)
    heads = llama.heads("hungry", "food")
    assert len(heads) == 8
    best = heads[0]
    want = dense[:, 0, :, 8:10, 4].mean(-1)
    assert best.score == pytest.approx(float(want.max()), abs=1e-6)
    assert (best.layer, best.head) == tuple(torch.tensor(want.shape).new_tensor(divmod(int(want.argmax()), 4)).tolist())
    assert best.name == f"model.layers.{best.layer}.self_attn"


@pytest.mark.parametrize("habit", ["sink", "previous", "diagonal", "induction"])
@pytest.mark.parametrize("sequence", [0, 1])
def test_habits_of_heads(llama, habit, sequence):
    dense = _dense(llama)[:, sequence]
    first = 4 if sequence else 0  # the second text is padded on the left
    rows = torch.arange(first + 1, 12)
    ids = FAMILIES["Llama"].inputs("left")["input_ids"][sequence].tolist()
    if habit == "induction":
        pairs = [
            (i, max(j for j in range(first, i) if ids[j] == ids[i]) + 1)
            for i in range(first, 12)
            if ids[i] in ids[first:i]
        ]
        if not pairs:
            with pytest.raises(regard.InputError, match="twice"):
                llama.scores(habit, sequence=sequence)
            return
        rows, columns = torch.tensor(pairs).unbind(1)
    else:
        columns = {"sink": torch.full_like(rows, first), "previous": rows - 1, "diagonal": rows}[habit]
    want = dense[:, :, rows, columns].mean(-1)
    heads = llama.scores(habit, sequence=sequence)
    for head in heads:
        assert head.score == pytest.approx(float(want[head.layer, head.head]), abs=1e-6)


def test_induction_sees_what_came_after_the_same_token():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 8]])
    with torch.no_grad(), regard.watch(model) as record:
        model(ids)
    want = _dense(record)[:, 0][:, :, [4, 5, 6, 7], [1, 2, 3, 4]].mean(-1)
    assert record.scores("induction")[0].score == pytest.approx(float(want.max()), abs=1e-6)


def test_spans_are_sums_over_keys_and_means_over_queries(llama):
    mean = _dense(llama)[:, 0].mean((0, 1))
    spans = llama.spans({"animal": "A dog", "food": (3, 5), "it": 6})
    assert spans["it"]["animal"] == pytest.approx(float(mean[6, :2].sum()), abs=1e-6)
    assert spans["food"]["food"] == pytest.approx(float(mean[3:5, 3:5].sum(-1).mean()), abs=1e-6)
    words = llama.spans("word")
    assert words.names[-3:] == ("hungry", "dog 2", ".")
    assert words["hungry"]["it"] == pytest.approx(float(mean[8:10, 6].mean()), abs=1e-6)
    assert llama.spans("sentence").names == ("A dog ate the food because it was hungr…",)


def test_spans_of_a_chat():
    turns = ["<|im_start|>", "user", "Hi", "<|im_end|>", "<|im_start|>", "assistant", "Hello", "."]
    with regard.watch(Layer(), tokens=turns) as record:
        record.model(torch.randn(1, 8, 16))
    spans = record.spans("message")
    assert spans.names == ("user", "assistant")
    assert torch.allclose(spans.weights.sum(-1), torch.ones(2))


def test_rollout_is_a_row_of_the_product_of_layers(llama):
    eye = torch.eye(12)
    product = eye
    for layer in _dense(llama)[:, 0].mean(1):
        product = (eye + layer) / 2 @ product
    rolled = llama.rollout("it").own
    assert rolled.of("food") == pytest.approx(float(product[6, 4]), abs=1e-5)
    assert rolled.of("hungry") == pytest.approx(float(product[6, 8:10].sum()), abs=1e-5)
    assert sum(look.weight for look in rolled) == pytest.approx(1, abs=1e-5)


def test_rollout_reaches_the_source_of_a_translation(bart):
    rolled = bart.rollout(2)
    total = sum(look.weight for look in rolled.own) + sum(look.weight for look in rolled.source)
    assert total == pytest.approx(1, abs=1e-4)
    assert {look.word for look in rolled.source} >= {"dog", "hungry"}


def test_kinds_and_lengths(bart):
    assert {entry.kind for entry in bart.values()} == {"encoder", "decoder", "cross"}
    assert bart["model.decoder.layers.1.encoder_attn"].shape == (2, 4, 5, 12)
    assert bart.looks(2, kind="cross").found[0].word in {
        w.text for w in bart["model.encoder.layers.0.self_attn"].tokens[0].words
    }
    with pytest.raises(regard.InputError, match="choose kind"):
        bart.looks("it")


def test_slices_and_means(llama):
    dense = _dense(llama)
    assert len(llama.at(layer=1)) == 1
    one = llama.at(layer=1, head=3)["model.layers.1.self_attn"]
    assert one.heads == range(3, 4)
    torch.testing.assert_close(one.to_dense()[:, 0], dense[1, :, 3])
    assert llama.at(head=slice(1, 3)).at(head=2).heads("it", "dog ate")[0].head == 2
    torch.testing.assert_close(llama.weights(), dense[:, 0].mean((0, 1)))
    torch.testing.assert_close(llama.weights(layer=0, sequence=1), dense[0, 1].mean(0))
    torch.testing.assert_close(llama.pool(12, 12), dense[:, 0].mean((0, 1)))
    assert llama.pool(3, 4).shape == (3, 4)


def test_check_compares_with_the_plain_computation(llama, bart, capsys):
    found = llama.check()
    assert "8 heads, 2 calls" in capsys.readouterr().out
    assert found.difference < 1e-6
    assert found.row_sum < 1e-5
    assert bart.check().difference < 1e-6
    for name in ("GPT-OSS", "Gemma 2", "T5"):  # sinks; softcap and windows; position bias
        model = made(name)
        with torch.no_grad(), regard.watch(model) as record:
            model(**FAMILIES[name].inputs("right"))
        assert record.check().difference < 2e-6
        narrow = record.at(head=slice(1, 3), kind="decoder").check()
        assert narrow.difference < 2e-6
        assert narrow.heads == 4


def test_check_sees_a_wrong_matrix(llama):
    narrow = llama.at(layer=0)
    entry = narrow["model.layers.0.self_attn"]
    wrong = copy.copy(entry)
    wrong.source = copy.copy(entry.source)
    object.__setattr__(wrong.source, "scale", 0.9 * entry.source.scale)
    narrow._passes[-1]._entries["model.layers.0.self_attn"] = wrong
    assert narrow.check().difference > 1e-3


# Words


def test_words_of_several_tokenizers():
    words = lambda pieces, special=(): [w.text for w in Tokens(pieces, special).words]  # noqa: E731
    assert words(["[CLS]", "hun", "##gry", "dog"], ["[CLS]"]) == ["[CLS]", "hungry", "dog"]
    assert words(["▁hun", "gry", "▁dog", ".", "</s>"], ["</s>"]) == ["hungry", "dog", ".", "</s>"]
    assert words(["hun", "gry", "Ġdog", "'", "s", "Ċ", "The"]) == ["hungry", "dog", "'", "s", "Ċ", "The"]
    assert words(["A", "dog"]) == ["A", "dog"]


def test_a_word_is_found_or_the_error_says_why(llama):
    with pytest.raises(regard.InputError, match=r'"cat" is not in the text. Its words are: A dog ate'):
        llama.looks("cat")
    with pytest.raises(regard.InputError, match=r'"dog" occurs 2 times, at tokens 1, 10'):
        llama.looks("dog")
    assert llama.looks("IT").of("food") == llama.looks("it").of("food")
    assert llama.looks("the food").of("A") == pytest.approx(llama.looks(range(3, 5)).of("A"))
    with pytest.raises(regard.InputError, match="from 0 to 11"):
        llama.looks(12)
    with pytest.raises(regard.InputError, match="2 sequences"):
        llama.looks("it", sequence=2)
    with regard.watch(Layer()) as record:
        record.model(torch.randn(1, 4, 16))
    with pytest.raises(regard.InputError, match="tokenizer="):
        record.looks("it")
    assert record.looks(2).word == "2"


# What is kept


@pytest.mark.parametrize("keep", ["summary", ("received", "entropy", "pool", "top"), ["top"], "received", "entropy"])
def test_kept_reductions_equal_those_of_the_matrix(llama, keep):
    with torch.no_grad(), regard.watch(llama.model, tokens=[WORDS, WORDS], keep=keep) as kept:
        llama.model(**FAMILIES["Llama"].inputs("left"))
    for name, entry in kept.items():
        matrix = llama[name]
        assert entry.shape == matrix.shape
        if "received" in entry.keeps:
            torch.testing.assert_close(entry.received(), matrix.received())
        if "entropy" in entry.keeps:
            torch.testing.assert_close(entry.entropy(), matrix.entropy())
        if "pool" in entry.keeps:
            torch.testing.assert_close(entry.pool(), matrix.pool())
        if "top" in entry.keeps:
            torch.testing.assert_close(entry.top(3).weights, matrix.top(3).weights)
        with pytest.raises(regard.WatchError, match="was not kept"):
            entry.to_dense()
        with pytest.raises(regard.WatchError, match="was not kept"):
            kept.check()
    assert {what for entry in kept.values() for what in entry.keeps} <= {"received", "entropy", "pool", "top"}


def test_what_to_keep_must_be_known():
    for keep in ("everything", (), ["top", "bottom"]):
        with pytest.raises(regard.InputError, match="keep must be"):
            regard.watch(Layer(), keep=keep)


@pytest.mark.parametrize("name", ["Llama", "Gemma 3", "GPT-OSS", "Gemma 2", "T5", "BART", "ViT", "CLIP"])
def test_saved_and_opened(name, tmp_path):
    model = made(name)
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**FAMILIES[name].inputs("right" if FAMILIES[name].sides else None))
    record.save(tmp_path / "record.safetensors")
    again = regard.Record.open(tmp_path / "record.safetensors")
    assert list(again) == list(record)
    for key, entry in record.items():
        assert repr(again[key]) == repr(entry)
        torch.testing.assert_close(again[key].to_dense(), entry.to_dense(), rtol=0, atol=0)
    if name == "Llama":
        assert again.looks("hungry") == record.looks("hungry")
        record.at(head=2).save(tmp_path / "one")
        torch.testing.assert_close(regard.Record.open(tmp_path / "one").weights(), record.weights(head=2))


def test_saved_and_opened_reductions(tmp_path):
    model = made("BERT")
    with torch.no_grad(), regard.watch(model, keep=("received", "top")) as record:
        model(**FAMILIES["BERT"].inputs(None))
    record.at(head=1).save(tmp_path / "record")
    again = regard.Record.open(tmp_path / "record")
    for name, entry in record.items():
        assert again[name].heads == range(1, 2)
        assert torch.equal(again[name].received(), entry.received()[:, 1:2])
        assert torch.equal(again[name].top(2).keys, entry.top(2).keys[:, 1:2])
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other")
    with pytest.raises(regard.InputError, match="no record"):
        regard.Record.open(tmp_path / "other")


# Heads taken out


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "BART"])
def test_knocking_out_a_head_is_zeroing_its_output(name):
    model, inputs = made(name), FAMILIES[name].inputs(None)
    with torch.no_grad(), regard.watch(model) as record:
        model(**inputs)
    target = list(record)[-1]
    effect = knock_out(model, {target: [1, 3]}, **inputs)
    projection = {
        "BERT": "encoder.layer.1.attention.output.dense",
        "GPT-2": "transformer.h.1.attn.c_proj",
        "Llama": "model.layers.1.self_attn.o_proj",
        "BART": f"{target}.out_proj",
    }[name]

    def zero(_, args):
        heads = args[0].unflatten(-1, (4, 8)).clone()
        heads[..., [1, 3], :] = 0
        return (heads.flatten(-2), *args[1:])

    hook = model.get_submodule(projection).register_forward_pre_hook(zero)
    with torch.no_grad():
        output = model(**inputs)
    hook.remove()
    want = output.logits if "logits" in output else output.last_hidden_state
    torch.testing.assert_close(effect.after, want, atol=1e-4, rtol=1e-5)
    assert effect.difference > 1e-3
    if name == "GPT-2":
        assert effect.divergence.shape == (2, 12)
        assert effect.divergence.min() > -1e-6
        assert len(effect.moved(k=3)) == 3
    assert "changed by" in str(effect)


def test_heads_to_take_out_must_exist():
    model = Ours()
    with pytest.raises(regard.InputError, match=r"no module 'layer.1'.*'layers.1'"):
        regard.watch(model, without={"layer.1": [0]})
    with pytest.raises(regard.InputError, match="has 2 heads"), regard.watch(model, without={"layers.1": [2]}):
        model(torch.randn(1, 3, 16))
    with pytest.raises(regard.InputError, match="numbered from 0"):
        regard.watch(model, without={"layers.1": [-1]})


# Our own layers


def test_our_own_layers():
    model, x = Ours(), torch.randn(2, 6, 16)
    before = model(x, regard.causal())
    with regard.watch(model, tokens=[["a", "b", "c", "d", "e", "f"]] * 2) as record:
        inside = model(x, regard.causal())
    torch.testing.assert_close(inside, before, rtol=0, atol=0)
    assert list(record) == ["layers.0", "layers.1", "layers.2"]
    assert all(layer.attend is regard.attention for layer in model.layers)
    assert "attend" in vars(model.layers[0])
    assert record["layers.1"].layer == 1
    assert record.looks("c").of("f") == 0
    assert record.check().difference < 1e-6
    effect = knock_out(model, {"layers.2": [0]}, x)
    assert effect.difference > 1e-3
    inside.sum().backward()  # the block did not cut the graph
    assert model.layers[0].project.weight.grad.abs().sum() > 0
    assert not record["layers.0"].received().requires_grad


def test_our_own_layers_with_a_function_of_the_users():
    model, seen = Layer(), []

    def attend(query, key, value, **options):
        seen.append(query.shape)
        return 2 * regard.attention(query, key, value, **options)

    model.attend = attend
    x = torch.randn(2, 5, 16)
    before = model(x)
    with regard.watch(model) as record:
        torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    assert len(seen) == 2
    assert model.attend is attend
    assert record[""].shape == (2, 2, 5, 5)


def test_our_own_layers_step_by_step():
    """A decoder with a cache: steps join to the matrix of the whole text."""
    q, k, v = torch.randn(3, 2, 2, 7, 8).unbind(0)
    kept = regard.padding(torch.tensor([7, 5]))

    class Cached(nn.Module):
        heads, kind, attend = 2, "decoder", staticmethod(regard.attention)

        def forward(self, start, stop):
            keep = torch.tensor([stop, min(stop, 5)])
            mask = regard.causal(start) & regard.padding(keep)
            return self.attend(q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], mask=mask)

    with regard.watch(Cached()) as record:
        for start, stop in ((0, 4), (4, 5), (5, 6), (6, 7)):
            record.model(start, stop)
    whole = regard.AttentionMatrix(q, k, mask=regard.causal() & kept)
    assert record[""].calls == 4
    torch.testing.assert_close(record[""].to_dense(), whole.to_dense())


# What may go wrong


def test_the_model_is_restored_after_an_exception():
    model = made("Llama")
    before = model.config._attn_implementation
    with pytest.raises(ZeroDivisionError), regard.watch(model) as record:  # noqa: PT012
        model(torch.tensor([[5, 6, 7]]))
        raise ZeroDivisionError
    assert model.config._attn_implementation == before
    assert not model._forward_pre_hooks
    assert len(record) == 2


def test_another_attention_inside_the_block_is_told():
    model, ids = made("Llama"), torch.tensor([[5, 6, 7]])
    before = model.config._attn_implementation
    with pytest.raises(regard.WatchError, match="set to 'eager' while it was watched"), regard.watch(model):  # noqa: PT012
        model(ids)
        model.set_attn_implementation("eager")
        model(ids)
    assert model.config._attn_implementation == before


def test_a_model_that_changes_and_moves_while_it_is_watched():
    model, ids = made("Llama"), torch.tensor([[5, 6, 7]])
    before, name = model.config._attn_implementation, "model.layers.0.self_attn"
    with pytest.raises(regard.WatchError, match="meta device"), torch.no_grad(), regard.watch(model) as record:  # noqa: PT012
        model(ids)
        model.double()
        model(ids)
        model.to("meta")
        model(ids.to("meta"))
    first, second = (made_pass[name].to_dense() for made_pass in record.passes[:2])  # what was seen stays
    assert (first.dtype, second.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(first.double(), second, atol=1e-5, rtol=1e-5)
    assert model.config._attn_implementation == before


def test_nested_and_repeated_watching():
    model = made("BART")
    inputs = FAMILIES["BART"].inputs(None)
    before = model.config._attn_implementation
    with torch.no_grad(), regard.watch(model) as outer:
        with regard.watch(model.model.encoder) as inner:
            model(**inputs)
        assert model.config._attn_implementation == "regard"
        model(**FAMILIES["BART"].inputs("left"))
    assert model.config._attn_implementation == before
    assert list(inner) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert len(outer.passes) == 2
    torch.testing.assert_close(
        outer.passes[0]["model.encoder.layers.0.self_attn"].to_dense(), inner["layers.0.self_attn"].to_dense()
    )
    assert not torch.allclose(
        outer["model.encoder.layers.0.self_attn"].to_dense(), inner["layers.0.self_attn"].to_dense()
    )
    twice = regard.watch(model)
    with twice, pytest.raises(regard.WatchError, match="already open"), twice:
        pass


def test_layers_that_share_their_weights():
    model = made("ALBERT")
    with torch.no_grad(), regard.watch(model) as record:
        model(**FAMILIES["ALBERT"].inputs(None))
        model(**FAMILIES["ALBERT"].inputs("left"))
    assert [entry.layer for entry in record.values()] == [0, 1]
    assert len(record.passes) == 2


def test_threads_each_with_their_model():
    models = [made("Llama") for _ in range(3)]
    ids = [torch.randint(5, 90, (1, n)) for n in (4, 5, 6)]
    found = {}

    def run(n):
        with torch.no_grad(), regard.watch(models[n]) as record:
            for _ in range(5):
                models[n](ids[n])
        found[n] = record

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n]["model.layers.0.self_attn"].shape[2] for n in range(3)] == [4, 5, 6]
    assert all(len(record.passes) == 5 for record in found.values())
    assert all(model.config._attn_implementation == "sdpa" for model in models)


def test_one_model_in_two_threads_is_refused():
    model, errors = made("BERT"), []

    def run():
        try:
            with regard.watch(model):
                pass
        except regard.WatchError as error:
            errors.append(str(error))

    with regard.watch(model):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        model(torch.tensor([[5, 6]]))
    assert "another thread" in errors[0]
    assert model.config._attn_implementation == "sdpa"


def test_a_call_from_another_thread_is_seen():
    """`generate` with a streamer runs in a thread of its own."""
    model = made("BERT")
    with regard.watch(model) as record:
        thread = threading.Thread(target=lambda: model(torch.tensor([[5, 6]])))
        thread.start()
        thread.join()
    assert len(record) == 2


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_compiled_models_run_uncompiled_while_watched(how):
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        before = model(ids).logits
        compiled = torch.compile(model, backend="eager") if how == "wrapped" else model
        if how == "in place":
            model.compile(backend="eager")
        compiled(ids)
        with regard.watch(compiled) as record:
            inside = compiled(ids).logits
        after = compiled(ids).logits
    assert list(record) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    torch.testing.assert_close(inside, before, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # torch would like torchao better
def test_quantised_models():
    model = torch.ao.quantization.quantize_dynamic(made("BERT"), {nn.Linear}, dtype=torch.qint8)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        before = model(ids).last_hidden_state
        with regard.watch(model) as record:
            inside = model(ids).last_hidden_state
    torch.testing.assert_close(inside, before, atol=0.1, rtol=0.1)  # a rounding may fall the other way
    assert len(record) == 2


def test_a_model_that_moves_to_another_dtype():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad(), regard.watch(model) as record:
        model(ids)
        model.to(torch.bfloat16)
        model(ids)
        model.to(torch.float64)
        model(ids)
    dtypes = [one["model.layers.0.self_attn"].matrix.dtype for one in record.passes]
    assert dtypes == [torch.float32, torch.bfloat16, torch.float64]


def test_autocast():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        before = model(ids).logits
        with regard.watch(model):
            inside = model(ids).logits
    torch.testing.assert_close(inside, before, atol=0.1, rtol=0.1)


def test_training_with_dropout_and_checkpoints():
    model = made("Llama")
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.randint(5, 90, (1, 12))
    torch.manual_seed(0)
    with regard.watch(model) as record:
        loss = model(ids, labels=ids).loss
        loss.backward()
    assert [entry.calls for entry in record.values()] == [1, 1]  # computing again in the backward is no second call
    assert model.model.layers[0].self_attn.q_proj.weight.grad.abs().sum() > 0
    assert not record["model.layers.0.self_attn"].received().requires_grad
    torch.manual_seed(1)
    with regard.watch(model):
        other = model(ids, labels=ids).loss
    assert other.item() != loss.item()  # dropout is at work


def test_output_attentions_inside_the_block():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad(), regard.watch(model) as record:
        weights = model(ids, output_attentions=True).attentions
    for entry, dense in zip(record.values(), weights, strict=True):
        torch.testing.assert_close(dense, entry.to_dense())


def test_a_mask_of_the_users():
    model = made("Llama")
    ids = torch.randint(5, 90, (1, 6))
    dense = torch.rand(1, 1, 6, 6) < 0.6
    dense |= torch.eye(6, dtype=torch.bool)
    with torch.no_grad():
        before = model(ids, attention_mask=dense).logits
        with regard.watch(model) as record:
            inside = model(ids, attention_mask=dense).logits
    torch.testing.assert_close(inside, before, atol=1e-5, rtol=1e-5)
    assert torch.equal(record["model.layers.0.self_attn"].to_dense() > 0, dense.expand(1, 4, 6, 6))


def test_packed_sequences_stay_a_pattern():
    model = made("Llama")
    ids = torch.randint(5, 90, (1, 7))
    places = torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
    with torch.no_grad():
        before = model(ids, position_ids=places, use_cache=False).logits
        with regard.watch(model) as record:
            inside = model(ids, position_ids=places, use_cache=False).logits
    torch.testing.assert_close(inside, before, atol=1e-5, rtol=1e-5)
    assert "documents" in repr(record["model.layers.0.self_attn"].matrix)
    assert record.looks(5).of("1") == 0


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_watched():
    with pytest.raises(regard.WatchError, match="has no attention"), regard.watch(nn.Linear(2, 2)):
        pass
    with pytest.raises(regard.InputError, match="torch module"):
        regard.watch("bert")
    with regard.watch(made("BERT")) as record:
        pass
    assert len(record) == 0
    with pytest.raises(regard.WatchError, match="call the model"):
        record["encoder"]
    with pytest.raises(regard.InputError, match="tokens are"):
        regard.watch(Layer(), tokens="a dog")


def test_names_that_were_not_seen(llama):
    with pytest.raises(KeyError, match="was not seen"):
        llama["layers.0"]
    with pytest.raises(regard.InputError, match=r"layers \[0, 1\]"):
        llama.at(layer=7)
    with pytest.raises(regard.InputError, match="heads 0 to 3"):
        llama.looks("it", head=9)


@pytest.mark.parametrize("keep", ["matrix", "summary"])
def test_inference_mode(keep):
    model = made("Llama")
    with torch.inference_mode(), regard.watch(model, keep=keep) as record:
        model(torch.tensor([[5, 6, 7]]))
    assert float(record["model.layers.0.self_attn"].received().sum()) == pytest.approx(12, abs=1e-4)
    if keep == "matrix":
        assert record.check().difference < 1e-6


def test_a_watch_can_be_opened_again():
    model = made("BERT")
    looking = regard.watch(model)
    with looking as first:
        model(torch.tensor([[5, 6]]))
    with looking as second:
        model(torch.tensor([[5, 6, 7]]))
    assert [next(iter(record.values())).shape[2] for record in (first, second)] == [2, 3]
    assert len(second.passes) == 1
