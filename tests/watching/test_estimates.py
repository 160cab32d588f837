"""Activations of another run, and estimates of effects: those of plain hooks on dense attention in float64."""

import contextlib
import math

import pytest
import torch
from support.models import FAMILIES, WORDS, made
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama

import regard
from regard import Activation, Link

SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2, intermediate_size=48)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=99, n_embd=32, n_layer=3, n_head=4)),
    "ours": lambda: regard.Transformer(regard.TransformerConfig.tiny(vocabulary=99)),
}
NINE = ["A", "dog", "ate", "the", "food", "because", "it", "was", "good"]


@pytest.fixture(params=MODELS)
def model(request):
    return model_of(request.param)


def model_of(name):
    torch.manual_seed(0)
    model = MODELS[name]().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.15 if parameter.dim() > 1 else 0.1))
    return model


def text_of(model, seed=1, count=9):
    ids = torch.randint(5, 99, (1, count), generator=torch.Generator().manual_seed(seed))
    return [ids, ids.roll(2, 1)[:, :7]] if isinstance(model, regard.Transformer) else {"input_ids": ids}


def called(model, inputs):
    output = model(*inputs) if isinstance(inputs, list) else model(**inputs)
    return output if isinstance(output, torch.Tensor) else output.logits


def watched(model, inputs, **options):
    with torch.no_grad(), regard.watch(model, **options) as record:
        called(model, inputs)
    return record


class Dense:
    """Runs a model on attention that is written out, with every part of every head at hand, and perhaps changed."""

    def __init__(self, model):
        self.model = model

    def run(self, inputs, change=lambda part, layer, x: x):
        """The logits; `calls` has the parts of each attention (batch, heads, …), each layer's in the order they ran."""
        self.calls, self._change = [], change
        with contextlib.ExitStack() as undo:
            if isinstance(self.model, regard.Transformer):
                for module in self.model.modules():
                    if isinstance(module, regard.MultiHeadAttention):
                        undo.callback(setattr, module, "attend", module.attend)
                        module.attend = self._ours
            else:
                before = self.model.config._attn_implementation
                self.model.set_attn_implementation("eager")
                undo.callback(self.model.set_attn_implementation, before)
                for module in (modeling_gpt2, modeling_llama):
                    undo.callback(setattr, module, "eager_attention_forward", module.eager_attention_forward)
                    module.eager_attention_forward = self._theirs
            return called(self.model, inputs)

    def _ours(self, query, key, value, *, mask=None, dropout=0.0):
        shown = regard.AttentionMatrix(query, key, mask=mask).to_dense() > 0
        return self._attend(query, key, value, shown)

    def _theirs(self, module, query, key, value, mask, **options):
        shown = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        return self._attend(query, key, value, shown).transpose(1, 2), None

    def _attend(self, query, key, value, shown):
        n, heads = len(self.calls), query.shape[1]
        key, value = (x.repeat_interleave(heads // x.shape[1], 1) for x in (key, value))
        parts = {"query": query, "key": key, "value": value}
        parts = {part: self._change(part, n, x) for part, x in parts.items()}
        parts["shown"] = shown
        parts["pattern"] = self._change("pattern", n, pattern_of(parts))
        output = parts["pattern"] @ parts["value"]
        if torch.is_grad_enabled():
            output.requires_grad_(output.requires_grad or output.is_leaf)
            output.retain_grad()
        parts["output"] = self._change("output", n, output)
        self.calls.append(parts)
        return parts["output"]


def pattern_of(parts):
    scores = parts["query"] @ parts["key"].mT / math.sqrt(parts["query"].shape[-1])
    return scores.masked_fill(~parts["shown"], -math.inf).softmax(-1).nan_to_num(0.0)


def put(x, heads, numbers, tokens=slice(None), source=None):
    x, source = x.clone(), tokens if source is None else source
    for head in heads:
        x[:, head, tokens] = numbers[:, head, source]
    return x


# Another run's activations


@pytest.mark.parametrize("part", ["output", "query", "key", "value", "pattern"])
def test_activations_of_another_run_are_those_of_plain_hooks(model, part):
    inputs, others, dense = text_of(model), text_of(model, seed=2), Dense(model)
    record = watched(model, others)
    layer, kind = (1, "decoder") if isinstance(model, regard.Transformer) else (1, None)
    with torch.no_grad():
        dense.run(others)
        calls = dense.calls
        names = [*record]
        (name,) = record.at(layer=layer, kind=kind)
        n = names.index(name)
        expected = dense.run(
            inputs, lambda what, at, x: put(x, [2, 3], calls[n][part]) if (what, at) == (part, n) else x
        )
        plain = dense.run(inputs)
    # Both heads have one key and value in Llama, where as many heads are chosen as there are keys and values.
    what = Activation(part, layers=layer, heads=[2, 3], kind=kind)
    found = regard.effect(model, inputs, instead={what: record})
    torch.testing.assert_close(found.before, plain, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(found.after, expected, atol=1e-9, rtol=1e-9)
    assert float((expected - plain).abs().max()) > 1e-3
    assert found.changes == (f"{part} of layer 1, heads 2, 3{', decoder' * (kind is not None)} is that of another run",)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_some_tokens_means_and_modules(name):
    model = model_of(name)
    inputs, others, dense = text_of(model), text_of(model, seed=2, count=12), Dense(model)
    longer, other = watched(model, others), watched(model, text_of(model, seed=3))
    with torch.no_grad():
        dense.run(others)
        calls = dense.calls

        def of_tokens(part, layer, x):
            return put(x, [1], calls[2]["value"], [4, 5], [10, 11]) if (part, layer) == ("value", 2) else x

        expected = dense.run(inputs, of_tokens)
        dense.run(text_of(model, seed=3))
        mean = torch.cat([calls[1]["output"], dense.calls[1]["output"]], 2).mean(2, keepdim=True)

        def of_texts(part, layer, x):
            return put(x, [2], mean.expand_as(x)) if (part, layer) == ("output", 1) else x

        means = dense.run(inputs, of_texts)
    some = Activation("value", layers=-1, heads=1, tokens=range(4, 6), source=range(10, 12))
    torch.testing.assert_close(regard.effect(model, inputs, instead={some: longer}).after, expected)
    found = regard.effect(model, inputs, instead={Activation(layers=1, heads=2): [longer, other]})
    torch.testing.assert_close(found.after, means)
    assert found.changes == ("output of layer 1, head 2 is the mean over 2 texts",)
    block = {"llama": "model.layers.1", "gpt2": "transformer.h.1"}[name]
    whole = regard.effect(model, inputs, instead={block: other})
    with torch.no_grad():
        torch.testing.assert_close(whole.after, called(model, text_of(model, seed=3)))  # all that comes after it
    one = regard.effect(model, inputs, instead={Activation(block, tokens=8, source=2): longer}).after
    torch.testing.assert_close(one[:, :8], whole.before[:, :8])
    assert float((one - whole.before)[:, 8].abs().max()) > 1e-3


@pytest.mark.parametrize("side", ["query", "key", "value"])
def test_a_path_goes_into_one_side_of_one_head(model, side):
    if isinstance(model, regard.Transformer):
        pytest.skip("the encoder has two layers only")
    inputs, others, dense = text_of(model), text_of(model, seed=2), Dense(model)
    with torch.no_grad():
        dense.run(others)
        calls = dense.calls
        dense.run(inputs)
        clean = dense.calls

        def sends(part, layer, x):
            x = clean[layer]["output"] if part == "output" else x
            return put(x, [3], calls[0]["output"]) if (part, layer) == ("output", 0) else x

        dense.run(inputs, sends)
        through = dense.calls[2][side]
        expected = dense.run(inputs, lambda part, n, x: put(x, [1], through) if (part, n) == (side, 2) else x)
    path = Activation(layers=0, heads=3, into=Activation(side, layers=2, heads=1))
    found = regard.effect(model, inputs, instead={path: watched(model, others)})
    torch.testing.assert_close(found.after, expected, atol=1e-9, rtol=1e-9)
    assert found.difference > 1e-5
    everything = regard.effect(model, inputs, instead={Activation(layers=0, heads=3): watched(model, others)})
    assert everything.difference > 2 * found.difference


def test_padding_and_batches_keep_their_places():
    model, batch = made("Llama").double(), FAMILIES["Llama"].inputs("left")
    record, what = watched(model, batch), Activation("key", layers=1, heads=[2])
    swapped = {name: x.flip(0) for name, x in batch.items()}
    with pytest.raises(regard.InputError, match="as many tokens"):
        regard.effect(model, swapped, instead={what: record})
    other = batch | {"input_ids": batch["input_ids"].roll(1, 0)}
    found = regard.effect(model, other, instead={what: record})
    for text, real in enumerate(batch["attention_mask"].bool()):
        alone = [{"input_ids": each["input_ids"][text, real][None]} for each in (other, batch)]
        single = regard.effect(model, alone[0], instead={what: watched(model, alone[1])})
        torch.testing.assert_close(found.after[text, real], single.after[0], atol=1e-6, rtol=1e-6)


def test_a_mean_leaves_padding_out():
    model, batch = made("Llama").double(), FAMILIES["Llama"].inputs("left")
    inputs, what = {"input_ids": batch["input_ids"][:1]}, Activation("value", layers=1, heads=2)
    texts = [
        watched(model, {"input_ids": batch["input_ids"][text, batch["attention_mask"][text].bool()][None]})
        for text in (0, 1)
    ]
    means = [regard.effect(model, inputs, instead={what: each}).after for each in ([watched(model, batch)], texts)]
    torch.testing.assert_close(*means)


@pytest.mark.parametrize("what", [Activation("value", tokens=range(12)), Activation(tokens=0)])
def test_the_answer_goes_on_with_the_replaced_tokens(what):
    model, inputs = made("Llama"), {"input_ids": FAMILIES["Llama"].inputs(None)["input_ids"][:1]}
    record = watched(model, {"input_ids": inputs["input_ids"].flip(1)})
    found = regard.effect(model, inputs, instead={what: record}, generate=3)
    ids = inputs["input_ids"]
    for _ in range(3):
        after = regard.effect(model, {"input_ids": ids}, instead={what: record}).after
        ids = torch.cat([ids, after[:, -1:].argmax(-1)], 1)
    assert found.answers[1] == (" ".join(map(str, ids[0, 12:].tolist())),)


# Estimates


def gradients(model, inputs, token):
    """The calls of a run with their gradients, and that run."""
    dense = Dense(model)
    logits = dense.run(inputs)
    logits[0, -1].log_softmax(-1)[token].backward()
    return dense.calls


def test_estimates_are_gradients_times_changes_of_dense_attention(model):
    inputs, others, dense = text_of(model), text_of(model, seed=2), Dense(model)
    record = watched(model, others)
    parts = ("head", "query", "key", "value", "pattern")
    found = regard.effects(model, inputs, parts, answer=7, instead=record, estimate=True, check=3)
    calls = gradients(model, inputs, 7)
    with torch.no_grad():
        dense.run(others)
    names, kinds = [*record], {}
    for part in parts:
        for n, (call, other) in enumerate(zip(calls, dense.calls, strict=True)):
            patched = call | {part: other[part]} if part not in ("head", "pattern") else call
            pattern = other["pattern"] if part == "pattern" else pattern_of(patched)
            after = other["output"] if part == "head" else pattern @ patched["value"]
            amounts = ((after - call["output"]) * call["output"].grad).sum((0, 2, 3))
            for head, amount in enumerate(amounts.tolist()):
                entry = record[names[n]]
                kind = f"{entry.kind}, " if isinstance(model, regard.Transformer) else ""
                kinds[f"{kind}layer {entry.layer} head {head}" + f" {part}" * (part != "head")] = amount
    assert {each.name: each.estimate for each in found} == pytest.approx(kinds, abs=1e-9)
    sizes = [abs(each.estimate) for each in found]
    assert sizes == sorted(sizes, reverse=True)
    assert [each.true is not None for each in found] == [n < 3 for n in range(len(found))]
    first = next(each for each in found if each.true is not None)
    kind = first.name.partition(",")[0] if isinstance(model, regard.Transformer) else None
    part = first.name.split()[-1] if first.name.split()[-1] in parts else "output"
    effect = regard.effect(
        model, inputs, instead={Activation(part, layers=first.layer, heads=first.head, kind=kind): record}
    )
    before, after = (x[0, -1].log_softmax(-1)[7] for x in (effect.before, effect.after))
    assert first.true == pytest.approx(float(after - before), abs=1e-9)


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_estimates_of_links_are_those_of_dense_attention(name, renormalise):
    model = model_of(name)
    inputs, options = text_of(model), {"tokens": NINE, "answer": 7, "estimate": True, "renormalise": renormalise}
    calls = gradients(model, inputs, 7)

    def moved(hidden):
        total = 0.0
        for call in calls:
            pattern = call["pattern"].masked_fill(hidden, 0.0)
            pattern = pattern / pattern.sum(-1, keepdim=True) if renormalise else pattern
            after = pattern.nan_to_num(0.0) @ call["value"]
            total += float(((after - call["output"]) * call["output"].grad).sum())
        return total

    spans = {"a": range(2, 4), "b": range(0, 1), "c": range(7, 9)}
    places = torch.arange(9)
    found = regard.effects(model, inputs, "link", spans=spans, **options)
    expected = {}
    for start, rows in spans.items():
        for end, columns in spans.items():
            hidden = torch.isin(places, torch.tensor([*rows]))[:, None] & torch.isin(places, torch.tensor([*columns]))
            if rows.start > columns.start:
                expected[f"{start} → {end}"] = moved(hidden)
    assert {each.name: each.estimate for each in found} == pytest.approx(expected, abs=1e-9)
    assert {(each.start, each.end) for each in found} == {("a", "b"), ("c", "a"), ("c", "b")}
    by_layer = [regard.effects(model, inputs, "link", spans=spans, layers=[n], check=0, **options) for n in range(3)]
    sums = {name: sum(each.estimate for one in by_layer for each in one if each.name == name) for name in expected}
    assert sums == pytest.approx(expected, abs=1e-9)
    single = regard.effect(model, inputs, without=Link(range(7, 9), range(2, 4)), renormalise=renormalise)
    before, after = (x[0, -1].log_softmax(-1)[7] for x in (single.before, single.after))
    true = next(each.true for each in found if each.name == "c → a")
    assert true == pytest.approx(float(after - before), abs=1e-9)
    heads = regard.effects(model, inputs, **options)
    amounts = [-(call["output"] * call["output"].grad).sum((0, 2, 3)) for call in calls]
    assert {(each.layer, each.head): each.estimate for each in heads} == pytest.approx(
        {(n, head): float(amount) for n, each in enumerate(amounts) for head, amount in enumerate(each)}, abs=1e-9
    )


def test_a_saturated_head_that_the_slope_of_its_softmax_misses():
    """The correction of AtP*: the query's gradient is 0 where a weight is nearly 1, and a new query moves it anyway."""
    model, inputs = model_of("llama"), text_of(MODELS["llama"]())
    with torch.no_grad():
        model.model.layers[2].self_attn.q_proj.weight[8:16] *= 300  # head 1
    others = text_of(model, seed=2)
    dense = Dense(model)
    with torch.no_grad():
        dense.run(others)
    other, queries = dense.calls[2]["query"], []

    def leaf(part, layer, x):
        if (part, layer) != ("query", 2):
            return x
        queries.append(x.detach().requires_grad_())
        return queries[0]

    dense.run(inputs, leaf)[0, -1].log_softmax(-1)[7].backward()
    weights = dense.calls[2]["pattern"][0, 1]
    assert float(weights[-1].max()) > 0.999  # saturated
    plain = float(((other - queries[0]) * queries[0].grad)[0, 1].sum())
    found = regard.effects(model, inputs, "query", answer=7, instead=watched(model, others), estimate=True, check=12)
    one = next(each for each in found if each.name == "layer 2 head 1 query")
    assert abs(one.true) > 0.02
    assert abs(plain) < 0.05 * abs(one.true)  # the false negative
    assert 0.5 < one.estimate / one.true < 2


def test_a_translator_has_links_of_three_kinds():
    model, inputs = made("BART").double(), {key: x[:1] for key, x in FAMILIES["BART"].inputs(None).items()}
    found = regard.effects(model, inputs, ("layer", "link"), spans={"x": (0, 2), "y": (4, 6)}, estimate=True)
    names = {each.name for each in found}
    assert {f"{kind}, layer {n}" for kind in ("encoder", "decoder", "cross") for n in (0, 1)} <= names
    assert {"encoder, x → y", "encoder, y → x", "decoder, y → x", "cross, x → x", "cross, y → x"} <= names
    assert "decoder, x → y" not in names
    cross = regard.effects(model, inputs, "link", spans={"x": (0, 2), "y": (4, 6)}, kind="cross", estimate=True)
    assert {each.name: each.estimate for each in cross} == pytest.approx(
        {each.name.removeprefix("cross, "): each.estimate for each in found if each.name.startswith("cross, y → ") or each.name.startswith("cross, x → ")}
    )  # fmt: skip


def test_padding_changes_no_estimate():
    model, batch = made("Llama").double(), FAMILIES["Llama"].inputs("left")
    padded = {name: x[1:] for name, x in batch.items()}
    alone = {name: x[1:, 4:] for name, x in batch.items()}
    options = {"answer": 7, "estimate": True, "check": 2, "spans": {"x": (0, 2), "y": (4, 6), "z": (6, 8)}}
    expected, found = (regard.effects(model, each, ("head", "link"), **options) for each in (alone, padded))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.name == theirs.name
        assert (ours.estimate, ours.true) == pytest.approx((theirs.estimate, theirs.true), abs=1e-6)


def test_the_model_is_as_it_was_and_graphs_go():
    model = model_of("llama")
    model.lm_head.requires_grad_(False)
    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    estimates = []
    for mode in (contextlib.nullcontext, torch.no_grad, torch.inference_mode):
        with mode():
            estimates.append(regard.effects(model, text_of(model), answer=7, estimate=True, check=2).items)
    assert estimates[1] == estimates[2] == estimates[0]
    assert {name: parameter.requires_grad for name, parameter in model.named_parameters()} == before
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


# What is printed and refused


def test_it_prints_and_draws():
    model, inputs = made("Llama"), {key: x[:1] for key, x in FAMILIES["Llama"].inputs(None).items()}
    found = regard.effects(model, inputs, ("head", "link"), answer=(7, 8), tokens=WORDS, estimate=True, check=12)
    lines = str(found).splitlines()
    assert lines[0] == "without each head and link: how far token 7 against token 8 moved, in nats"
    assert lines[-2] == f"Correlation of the 12 that were run: {found.correlation:.2f}"
    assert lines[-1].startswith("An estimate takes the model after the change as linear.")  # what is frozen
    assert len(lines) == 15
    pairs = torch.tensor([(each.estimate, each.true) for each in found if each.true is not None])
    assert len(pairs) == 12  # two more than are printed
    assert found.correlation == pytest.approx(float(torch.corrcoef(pairs.T)[0, 1]), abs=1e-4)
    assert "<table" in found._repr_html_()
    picture = found.picture(title="why")
    assert picture.numbers["numbers"].shape == (12, 2)
    svg = picture.to_svg()
    assert "estimate" in svg
    assert svg.count("<rect") >= 2 + 2 * 12
    assert str(regard.effects(model, inputs, "head", estimate=True, check=2, answer=7)).count("correlation") == 0
    heads = regard.effects(model, inputs, "head", answer=(7, 8))
    single = regard.effect(model, inputs, without={})
    assert heads[0].before == pytest.approx(float((single.before[0, -1, 7] - single.before[0, -1, 8]).sigmoid()))
    unlike = regard.effects(
        made("BART"), {key: x[:1] for key, x in FAMILIES["BART"].inputs(None).items()}, "link", kind="cross",
        spans={"x": (0, 2), "y": (4, 6)}, estimate=True,
    )  # fmt: skip
    assert unlike.picture().to_svg()


def test_what_is_refused(tmp_path, unchecked):
    model, inputs = made("Llama"), {key: x[:1] for key, x in FAMILIES["Llama"].inputs(None).items()}
    record = watched(model, inputs)
    shorter = watched(model, {"input_ids": inputs["input_ids"][:, :5]})
    record.save(tmp_path / "record.safetensors")
    for instead, said in (
        ({Activation(layers=9): record}, "was seen"),
        ({Activation(heads=9): record}, "has 4 heads"),
        ({Activation("ouput"): record}, "none of output"),
        ({Activation("key"): shorter}, "Here are 12, there 5"),
        ({Activation("key", tokens=7): shorter}, "Here are 1, there 1"),
        ({Activation("key", tokens=range(3), source=range(2)): record}, "Here are 3, there 2"),
        ({Activation(): []}, "at least one record"),
        ({Activation(): 3}, "come from a Record"),
        ({3: record}, "takes an Activation"),
    ):
        with pytest.raises(regard.InputError, match=said):
            regard.effect(model, inputs, instead=instead)
    for wrong in (
        {"part": "mlp", "layers": 3},
        {"into": Activation("output")},
        {"layers": "all"},
        {"part": "pattern", "tokens": 1},
    ):
        with pytest.raises(regard.RegardError):
            Activation(**wrong)
    opened = regard.Record.open(tmp_path / "record.safetensors")
    with pytest.raises(regard.WatchError, match="opened from a file"):
        regard.effect(model, inputs, instead={Activation(): opened})
    for options, said in (
        ({"by": "query"}, "needs another run"),
        ({"by": ("head", "link"), "instead": record}, "instead is for"),
        ({"by": {"x": 3}, "instead": record}, "instead is for"),
        ({"answer": (1, 2, 3)}, "a token or two"),
        ({"check": -1}, "check at least 0"),
        ({"by": "link", "estimate": True}, "words of the text"),
    ):
        with pytest.raises(regard.InputError, match=said):
            regard.effects(model, inputs, **options)
    with pytest.raises(regard.InputError, match="predicts no tokens"):
        regard.effects(made("BERT"), {key: x[:1] for key, x in FAMILIES["BERT"].inputs(None).items()}, estimate=True)
    with pytest.raises(regard.InputError, match="training mode"):
        regard.effects(made("Llama").train(), inputs, estimate=True)
    for by in ("word", {"x": Link("was", "it")}):
        with pytest.raises(regard.InputError, match="estimates are of heads"):
            regard.effects(model, inputs, by, tokens=WORDS, estimate=True)
