"""Plain PyTorch: torch's own attention and Transformer modules, and modules that call torch's attention function."""

import copy
import json
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.models import Direct
from torch import nn
from torch.nn import functional

import regard

WORDS = ["A", "dog", "ate", "the", "food", "because", "it"]
TOKENS, KEYS, WIDTH, HEADS = 7, 5, 16, 4
CLOSE = {"atol": 1e-10, "rtol": 1e-8}


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _mask(kind, batch, keys):
    """Of torch's kind: where it is True, a query may not look. The first key is always seen."""
    if kind is None:
        return None
    shape = (TOKENS, keys) if kind.endswith("2") else (batch * HEADS, TOKENS, keys)
    numbers = _random(*shape, seed=3)
    hidden = numbers > 0.5
    hidden[..., 0] = False
    return hidden if kind.startswith("bool") else numbers.masked_fill(hidden, -torch.inf)


def _same(got, want):
    for one, other in zip(got, want, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, **CLOSE)


OPTIONS = st.fixed_dictionaries({
    "cross": st.booleans(),
    "batch": st.sampled_from([None, 1, 3]),
    "batch_first": st.booleans(),
    "bias": st.booleans(),
    "add_bias_kv": st.booleans(),
    "add_zero_attn": st.booleans(),
    "dims": st.sampled_from([{}, {"kdim": 6, "vdim": 10}]),
    "mask": st.sampled_from([None, "bool2", "bool3", "float2", "float3"]),
    "padding": st.booleans(),
    "need_weights": st.booleans(),
    "average": st.booleans(),
    "training": st.booleans(),
    "no_grad": st.booleans(),
})  # fmt: skip


@given(OPTIONS)
def test_multi_head_attention_with_every_option(option):
    torch.manual_seed(0)
    names = ("batch_first", "bias", "add_bias_kv", "add_zero_attn")
    attention = nn.MultiheadAttention(
        WIDTH, HEADS, dtype=torch.float64, **{name: option[name] for name in names}, **option["dims"]
    ).train(option["training"])
    keys, batch = KEYS if option["cross"] else TOKENS, option["batch"]

    def text(tokens, width, seed):
        shape = (tokens, width) if batch is None else (batch, tokens, width)
        x = _random(*shape, seed=seed)
        return x if batch is None or option["batch_first"] else x.transpose(0, 1)

    query = text(TOKENS, WIDTH, 1)
    if option["dims"]:
        inputs = query, text(keys, 6, 2), text(keys, 10, 2)
    else:
        inputs = (query, *[text(keys, WIDTH, 2)] * 2) if option["cross"] else (query,) * 3
    mask, padding = _mask(option["mask"], batch or 1, keys), None
    if option["padding"]:
        padding = torch.zeros(batch or 1, keys, dtype=torch.bool)
        padding[-1, -2:] = True
        padding = padding[0] if batch is None else padding
        if mask is not None and mask.is_floating_point():
            padding = torch.zeros(padding.shape, dtype=torch.float64).masked_fill(padding, -torch.inf)
    options = {"attn_mask": mask, "key_padding_mask": padding}
    shown = {"need_weights": option["need_weights"], "average_attn_weights": option["average"]}
    with torch.set_grad_enabled(not option["no_grad"]):
        plain = attention(*inputs, **options, **shown)
        _, weights = attention(*inputs, **options, need_weights=True, average_attn_weights=False)
        with regard.watch(attention, strict=True) as record:
            watched = attention(*inputs, **options, **shown)
    _same(watched, plain)
    entry = record[""]
    torch.testing.assert_close(entry.to_dense(), weights.detach() if batch else weights.detach()[None], **CLOSE)
    other_text = option["cross"] or bool(option["dims"])
    assert entry.kind == "cross" if other_text else entry.kind in ("encoder", "decoder")
    assert len(record) == len(record.passes) == 1


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_causal_hint(need_weights, padded):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64).eval()
    x, mask = _random(2, TOKENS, WIDTH), nn.Transformer.generate_square_subsequent_mask(TOKENS, dtype=torch.float64)
    padding = torch.zeros(2, TOKENS, dtype=torch.float64)
    padding[1, 5:] = -torch.inf
    options = {"attn_mask": mask, "is_causal": True, "key_padding_mask": padding if padded else None}
    with torch.no_grad():
        plain = attention(x, x, x, need_weights=need_weights, **options)
        _, weights = attention(x, x, x, average_attn_weights=False, **options)
        with regard.watch(attention, tokens=[WORDS, WORDS]) as record:
            _same(attention(x, x, x, need_weights=need_weights, **options), plain)
    assert record[""].kind == "decoder"
    torch.testing.assert_close(record[""].to_dense(), weights, **CLOSE)
    assert {look.word for look in record.looks("dog")} == {"A", "dog"}


@pytest.mark.parametrize("added", [False, True])
def test_torchs_multi_head_function_called_directly(added):
    """Masks of bools reach it as they are; `nn.MultiheadAttention` makes floats of them before."""

    class Pooling(nn.MultiheadAttention):
        def forward(self, x, need_weights):
            weights = self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, 0.0
            return functional.multi_head_attention_forward(
                x, x.clone(), x.clone(), WIDTH, HEADS, *weights, self.out_proj.weight, self.out_proj.bias,
                need_weights=need_weights, attn_mask=_mask("bool2", 2, TOKENS), average_attn_weights=False,
            )  # fmt: skip

    model = Pooling(WIDTH, HEADS, add_bias_kv=added, add_zero_attn=added, dtype=torch.float64)
    x = _random(TOKENS, 2, WIDTH)
    plain, weights = model(x, True)
    with regard.watch(model) as record:
        torch.testing.assert_close(model(x, False)[0], plain, **CLOSE)
    torch.testing.assert_close(record[""].to_dense(), weights.detach(), **CLOSE)
    assert record[""].kind == "encoder"  # the same text, in another tensor


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_is_what_it_was(need_weights):
    """The same random numbers are drawn, and the record shows the weights before dropout."""
    attention = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.4, batch_first=True, dtype=torch.float64)
    x = _random(2, TOKENS, WIDTH).requires_grad_()

    def run():
        torch.manual_seed(5)
        output, weights = attention(x, x, x, need_weights=need_weights, average_attn_weights=False)
        output.sum().backward()
        gradient, x.grad = x.grad, None
        return output, weights, gradient, torch.rand(3)

    plain = run()
    with regard.watch(attention) as record:
        watched = run()
    assert all(torch.equal(a, b) for a, b in zip(watched, plain, strict=True) if a is not None)
    _, weights = attention.eval()(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(record[""].to_dense(), weights.detach(), **CLOSE)


# Layers and stacks


def _layer(kind, **options):
    torch.manual_seed(0)
    return kind(WIDTH, HEADS, 32, dropout=0.0, dtype=torch.float64, **options)


def _encoder(norm=None, nested=True, **options):
    layer = _layer(nn.TransformerEncoderLayer, batch_first=True, **options)
    encoder = nn.TransformerEncoder(layer, 2, norm=norm, enable_nested_tensor=nested)
    for parameter in encoder.parameters():  # the copies of a layer are equal
        nn.init.normal_(parameter, std=0.3)
    return encoder


@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_and_stacks(mode, norm_first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch: that norm_first makes no nested tensors
        encoder = _encoder(norm_first=norm_first).train(mode == "train")
    x = _random(2, TOKENS, WIDTH)
    with torch.set_grad_enabled(mode != "no_grad"):
        plain, alone = encoder(x), encoder.layers[0](x)
        with regard.watch(encoder, tokens=[WORDS, WORDS], strict=True) as record:
            torch.testing.assert_close(encoder(x), plain, **CLOSE)
            torch.testing.assert_close(encoder.layers[0](x), alone, **CLOSE)
    first = record.passes[0]
    assert list(first) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert [(entry.kind, entry.layer) for entry in first.values()] == [("encoder", 0), ("encoder", 1)]
    assert list(record.passes[1]) == ["layers.0.self_attn"]
    assert first.looks("it", layer=1)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(WIDTH, dtype=torch.float64)])
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_an_encoder_that_would_make_nested_tensors(norm, floats, left, grad):
    encoder, x = _encoder(copy.deepcopy(norm)).eval(), _random(2, TOKENS, WIDTH)
    padding = torch.zeros(2, TOKENS, dtype=torch.bool)
    padding[1, slice(0, 3) if left else slice(4, None)] = True
    if floats:
        padding = torch.zeros(2, TOKENS, dtype=torch.float64).masked_fill(padding, -torch.inf)
    with warnings.catch_warnings(), torch.set_grad_enabled(grad):
        warnings.simplefilter("ignore")  # of torch: that nested tensors are a prototype
        plain = encoder(x, src_key_padding_mask=padding)
        with regard.watch(encoder) as record:
            torch.testing.assert_close(encoder(x, src_key_padding_mask=padding), plain, **CLOSE)
    hidden = padding[1] != 0
    assert not record["layers.1.self_attn"].received()[1, :, hidden].any()


@pytest.mark.parametrize("where", ["mask", "src_key_padding_mask"])
def test_a_mask_that_the_fast_path_misreads_is_refused(where):
    """It hides a key where a float mask is not 0; everywhere else torch adds the mask."""
    encoder, x = _encoder(nested=False).eval(), _random(2, TOKENS, WIDTH)
    mask = _random(TOKENS, TOKENS) if where == "mask" else _random(2, TOKENS)
    mask[:, 0] = 0
    with torch.no_grad():
        fast = encoder(x, **{where: mask})
        torch.testing.assert_close(fast, encoder(x, **{where: mask != 0}), **CLOSE)
        with pytest.raises(regard.WatchError, match="instead of adding the mask"), regard.watch(encoder):
            encoder(x, **{where: mask})
    plain = encoder(x, **{where: mask})
    assert not torch.allclose(plain, fast)
    with regard.watch(encoder):
        torch.testing.assert_close(encoder(x, **{where: mask}), plain, **CLOSE)


@pytest.mark.filterwarnings("ignore:.*nested tensors")
@pytest.mark.parametrize("kind", ["stack", "layer", "attention", "function"])
def test_nested_tensors_are_refused(kind):
    encoder = _encoder().eval()
    nested = torch.nested.nested_tensor([_random(3, WIDTH), _random(5, WIDTH)])
    model = {"stack": encoder, "layer": encoder.layers[0], "attention": encoder.layers[0].self_attn}.get(
        kind, Direct(causal=False)
    )
    if kind == "function":
        nested = torch.nested.nested_tensor([_random(3, 2 * 8), _random(5, 2 * 8)], layout=torch.jagged)
    with torch.no_grad(), pytest.raises(regard.WatchError, match="padded tensor"), regard.watch(model):
        model(*[nested] * (3 if kind == "attention" else 1))
    assert torch.backends.mha.get_fastpath_enabled()
    assert functional.scaled_dot_product_attention is ORIGINAL


ORIGINAL = functional.scaled_dot_product_attention


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("hint", [None, True])
def test_the_whole_transformer(batch_first, hint):
    torch.manual_seed(0)
    model = nn.Transformer(
        WIDTH, HEADS, 2, 2, 32, dropout=0.0, batch_first=batch_first, dtype=torch.float64,
    ).eval()  # fmt: skip
    source, target = _random(2, 6, WIDTH, seed=1), _random(2, TOKENS, WIDTH, seed=2)
    if not batch_first:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    mask = nn.Transformer.generate_square_subsequent_mask(TOKENS, dtype=torch.float64)
    inputs = {"src": source, "tgt": target, "tgt_mask": mask, "tgt_is_causal": hint}
    with torch.no_grad():
        plain = model(**inputs)
        with regard.watch(model, tokens=[WORDS, WORDS], strict=True) as record:
            torch.testing.assert_close(model(**inputs), plain, **CLOSE)
    assert {name: (entry.kind, entry.shape) for name, entry in record.items()} == {
        **{f"encoder.layers.{n}.self_attn": ("encoder", (2, HEADS, 6, 6)) for n in (0, 1)},
        **{f"decoder.layers.{n}.self_attn": ("decoder", (2, HEADS, TOKENS, TOKENS)) for n in (0, 1)},
        **{f"decoder.layers.{n}.multihead_attn": ("cross", (2, HEADS, TOKENS, 6)) for n in (0, 1)},
    }
    assert record.looks("dog", kind="decoder").of("ate") == 0
    ours = regard.from_torch(model.decoder, causal=True)
    x, memory = (t if batch_first else t.transpose(0, 1) for t in (target, model.encoder(source)))
    with torch.no_grad(), regard.watch(ours) as again:
        ours(x, memory)
    for got, want in zip(again.values(), record.at(kind="decoder").values(), strict=False):
        torch.testing.assert_close(got.to_dense(), want.to_dense(), **CLOSE)
        break  # the first layer's self-attention


def test_a_decoder_stack_and_its_layers_alone():
    decoder = nn.TransformerDecoder(_layer(nn.TransformerDecoderLayer, batch_first=True), 1).eval()
    target, memory = _random(1, TOKENS, WIDTH), _random(1, TOKENS, WIDTH, seed=2)  # as long as each other
    for model in (decoder, decoder.layers[0]):
        plain = model(target, memory)
        with regard.watch(model) as record:
            torch.testing.assert_close(model(target, memory), plain, **CLOSE)
        assert [entry.kind for entry in record.values()] == ["encoder", "cross"]


# Heads, nesting, threads, errors


@pytest.mark.parametrize("need_weights", [False, True])
def test_heads_are_knocked_out(need_weights):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64).eval()
    x = _random(2, TOKENS, WIDTH)
    without = copy.deepcopy(attention)
    with torch.no_grad():
        without.out_proj.weight[:, 4:8] = 0  # what comes from head 1
    expected = without(x, x, x, need_weights=need_weights)
    with regard.watch(attention, without={"": [1]}):
        _same(attention(x, x, x, need_weights=need_weights), expected)


def test_watches_nest_in_any_order_and_an_error_restores_everything():
    encoder, x = _encoder(nested=False).eval(), _random(1, TOKENS, WIDTH)
    outer, inner = regard.watch(encoder), regard.watch(encoder.layers[1])
    with torch.no_grad():
        first, second = outer.__enter__(), inner.__enter__()
        encoder(x)
        outer.__exit__(None, None, None)
        encoder(x)
        inner.__exit__(None, None, None)
    assert (len(first.passes), len(second.passes)) == (1, 2)
    torch.testing.assert_close(first["layers.1.self_attn"].to_dense(), second["self_attn"].to_dense())
    before = functional.multi_head_attention_forward
    with pytest.raises(RuntimeError), regard.watch(encoder):
        encoder(x, mask=torch.zeros(2, 3, dtype=torch.float64))

    def interrupt(*_):
        raise KeyboardInterrupt

    hook = encoder.layers[1].linear1.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt), regard.watch(encoder):
        encoder(x)
    hook.remove()
    assert torch._C._len_torch_function_stack() == 0
    assert torch.backends.mha.get_fastpath_enabled()
    assert functional.scaled_dot_product_attention is ORIGINAL
    assert functional.multi_head_attention_forward is before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in encoder.modules())


def test_a_switched_off_fast_path_stays_off():
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with regard.watch(_encoder(nested=False)):
            pass
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_copies_and_models_in_other_threads_are_not_seen():
    model, x, found = Direct(), _random(1, TOKENS, WIDTH), []
    with regard.watch(model) as record:
        model(x)
        copy.deepcopy(model)(x)
        functional.scaled_dot_product_attention(x, x, x)
        thread = threading.Thread(target=lambda: found.append(Direct()(x)))
        thread.start()
        thread.join()
        assert len(record.passes) == 1
        thread = threading.Thread(target=lambda: model(x))  # this one is: it is the watched model
        thread.start()
        thread.join()
    assert found
    assert len(record.passes) == 2


@pytest.mark.parametrize("what", ["compile", "checkpoint", "autocast"])
def test_compiled_checkpointed_and_under_autocast(what):
    encoder, x = _encoder(nested=False).float().eval(), _random(1, TOKENS, WIDTH).float()
    model = torch.compile(encoder, backend="eager") if what == "compile" else encoder
    if what == "checkpoint":

        def run():
            return torch.utils.checkpoint.checkpoint(encoder, x, use_reentrant=False)
    else:

        def run():
            with torch.autocast("cpu", enabled=what == "autocast"):
                return model(x)

    plain = run()
    with regard.watch(model) as record:
        watched = run()
        watched.sum().backward()
    torch.testing.assert_close(watched, plain, atol=2e-2 if what == "autocast" else 1e-5, rtol=1e-3)
    assert list(record) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert len(record.passes) == 1


# Memory


def test_masks_are_kept_as_they_were_given():
    """torch adds padding to the mask, in batch × heads × queries × keys numbers for each layer."""
    encoder, x = _encoder(nested=False).eval(), _random(3, TOKENS, WIDTH)
    mask, padding = _random(TOKENS, TOKENS), torch.zeros(3, TOKENS, dtype=torch.float64)
    padding[1, 4:] = -torch.inf
    plain = encoder(x, mask=mask, src_key_padding_mask=padding)
    with regard.watch(encoder) as record:
        torch.testing.assert_close(encoder(x, mask=mask, src_key_padding_mask=padding), plain, **CLOSE)
    for entry in record.values():
        assert {tensor.data_ptr() for tensor in entry.call.mask.tensors} == {mask.data_ptr(), padding.data_ptr()}


PROBE = """
import json, sys, torch, regard
from torch import nn
torch.set_num_threads(1)
sys.path.insert(0, {benchmarks!r})
from measure import peak_extra
N = 4096
layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
x, padding = torch.randn(2, N, 32), torch.zeros(2, N, dtype=torch.bool)
padding[1, 3000:] = True
mask = nn.Transformer.generate_square_subsequent_mask(N)
def watched(keep, **options):
    with torch.no_grad(), regard.watch(encoder, keep=keep) as record:
        encoder(x, **options)
    return record
def run(keep, **options):
    kept = []
    return peak_extra(lambda: kept.append(watched(keep, **options)))
watched("matrix")
print(json.dumps({{
    "matrix": run("matrix"), "summary": run("summary"),
    "padding": run("matrix", src_key_padding_mask=padding), "causal": run("matrix", mask=mask, is_causal=True),
}}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's high-water mark")
def test_no_matrix_of_all_tokens_is_stored():
    """Dense, each layer would take 2 texts × 2 heads × 4,096² × 4 bytes = 268 MB."""
    benchmarks = str(Path(__file__).parents[2] / "benchmarks")
    probe = PROBE.format(benchmarks=benchmarks)
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    taken = json.loads(done.stdout)
    assert all(extra < 60 for extra in taken.values()), taken
