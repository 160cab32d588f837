"""What heads do: retrieval and lookback as they were published, the rest as the dense matrix has it."""

import math
import re

import pytest
import torch
import transformers
from support.models import FAMILIES, WORDS, made

import regard
from regard.watching.questions.atlas import _ROWS, Atlas

NEW = 40


def _llama(vocabulary=8, positions=6000):
    """So few words that some are copied by chance."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=vocabulary, max_position_embeddings=positions, pad_token_id=0, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)  # so that heads have preferences
    return model


@torch.no_grad()
def _published(model, prompt, needle, context):
    """Wu and others' retrieval score, and Chuang and others' lookback ratio, as their code computes them: eager."""
    cache = model(prompt[:, :-1], use_cache=True).past_key_values
    model.set_attn_implementation("eager")
    read, text = prompt[:, -1:], prompt[0].tolist()
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    retrieval, ratios = torch.zeros(layers, heads), []
    for _ in range(NEW):
        output = model(read, past_key_values=cache, use_cache=True, output_attentions=True)
        read = output.logits[:, -1].argmax(-1, keepdim=True)
        ratio = torch.zeros(layers, heads)
        for layer in range(layers):
            for head in range(heads):
                weights = output.attentions[layer][0, head, -1]
                most = int(weights.argmax())
                if most in needle and text[most] == int(read):
                    retrieval[layer, head] += 1 / len(needle)
                old, new = weights[:context].mean(), weights[context:].mean()
                ratio[layer, head] = old / (old + new)
        ratios.append(ratio)
        text.append(int(read))
    model.set_attn_implementation("sdpa")
    return torch.tensor([text]), retrieval.flatten(), torch.stack(ratios, -1).flatten(0, 1)


@pytest.mark.parametrize("tokens", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_retrieval_and_lookback_are_those_that_were_published(tokens):
    model = _llama()
    prompt = torch.randint(2, 8, (1, tokens))
    needle, context = range(tokens // 4, tokens - 9), tokens - 7
    ids, retrieval, lookback = _published(model, prompt, needle, context)
    with torch.no_grad(), regard.watch(model) as record:
        generated = model.generate(prompt, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    assert torch.equal(generated, ids)
    atlas = record.atlas(needle=needle, context=context, ids=generated)
    assert retrieval.max() > 1.5 / len(needle)  # otherwise the comparison would show nothing
    torch.testing.assert_close(torch.tensor([h.retrieval for h in atlas]), retrieval)
    torch.testing.assert_close(atlas.lookback_steps, lookback, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.tensor([h.lookback for h in atlas]), lookback.mean(-1), atol=1e-5, rtol=1e-4)
    assert atlas.written == NEW


def test_a_text_that_is_read_at_once_has_the_numbers_of_its_generation():
    model = _llama()
    with torch.no_grad():
        ids = model.generate(torch.randint(2, 8, (1, 90)), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    with torch.no_grad(), regard.watch(model) as written:
        model.generate(ids[:, :90], max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    with torch.no_grad(), regard.watch(model) as read:
        model(ids)
    one, other = written.atlas(needle=range(5, 80), ids=ids), read.atlas(needle=range(5, 80), context=90)
    assert [h.retrieval for h in one] == [h.retrieval for h in other]
    assert one.lookback_steps[:, 0].isnan().all()  # nothing of its own is there yet
    torch.testing.assert_close(one.lookback_steps[:, 1:], other.lookback_steps[:, 1:NEW], atol=1e-5, rtol=1e-4)


def test_without_a_needle_all_that_is_copied_counts(tmp_path):
    model = _llama()
    prompt = torch.randint(2, 8, (1, 60))
    with torch.no_grad(), regard.watch(model) as record:
        ids = model.generate(prompt, max_new_tokens=20, min_new_tokens=20, do_sample=False)
    atlas = record.atlas()
    assert atlas.written == 19  # the last one was not read
    dense = torch.cat([entry.to_dense()[0] for entry in record.values()])
    for number, head in enumerate(atlas):
        copied = [int(ids[0, dense[number, row].argmax()]) == int(ids[0, row + 1]) for row in range(59, 78)]
        assert head.retrieval == pytest.approx(sum(copied) / 19)
    record.save(tmp_path / "record")
    assert str(regard.Record.open(tmp_path / "record").atlas()) == str(atlas)


@pytest.fixture(scope="module")
def drawn_up():
    """A text with repeated words that is padded on its left, its atlas and all its weights."""
    torch.manual_seed(1)
    ids, real = torch.randint(2, 8, (2, 30)), torch.ones(2, 30, dtype=torch.long)
    real[1, :4] = 0
    model = _llama()
    with torch.no_grad(), regard.watch(model) as record:
        model(ids, attention_mask=real)
    return record.atlas(sequence=1), torch.cat([entry.to_dense()[1] for entry in record.values()]), ids[1], record


def test_numbers_are_those_of_the_dense_matrix(drawn_up):
    atlas, dense, ids, record = drawn_up
    rows = range(5, 30)
    earlier = {n: [m for m in range(4, n) if ids[m] == ids[n]] for n in rows}
    repeated = [n for n in rows if earlier[n]]
    assert 5 < len(repeated) < len(rows)
    for number, head in enumerate(atlas):
        weights = dense[number]
        want = {
            "first": [weights[n, 4] for n in rows],
            "previous": [weights[n, n - 1] for n in rows],
            "itself": [weights[n, n] for n in rows],
            "local": [weights[n, max(n - 16, 0) : n + 17].sum() for n in rows],
            "same": [weights[n, earlier[n]].sum() for n in repeated],
            "induction": [weights[n, earlier[n][-1] + 1] for n in repeated],
        }
        for name, shares in want.items():
            assert getattr(head, name) == pytest.approx(float(torch.stack(shares).mean()), abs=1e-6), name
        assert math.isnan(head.retrieval)
        assert math.isnan(head.lookback)
    assert [(head.layer, head.head) for head in atlas] == [(layer, head) for layer in range(2) for head in range(4)]
    assert atlas.by("previous")[0].weight == max(head.previous for head in atlas)
    assert record.scores("previous", sequence=1)[0] == atlas.by("previous")[0]


def test_a_long_text_is_measured_on_some_of_its_rows():
    class Layer(torch.nn.Module):
        heads, kind, attend = 2, "encoder", staticmethod(regard.attention)

        def forward(self, x):
            return self.attend(x, x, x)

    count = 3 * _ROWS
    with regard.watch(Layer(), tokens=[f"w{n % 300}" for n in range(count)]) as record:
        record.model(torch.randn(1, 2, count, 8))
    atlas, dense = record.atlas(), record[""].to_dense()[0]
    rows = list(range(1, count, 3))
    near = torch.stack([dense[:, n, max(n - 16, 0) : n + 17].sum(-1) for n in rows], -1).mean(-1)
    same = torch.stack([dense[:, n, n % 300 :: 300].sum(-1) - dense[:, n, n] for n in rows], -1).mean(-1)
    for number, head in enumerate(atlas):
        assert (head.local, head.same) == pytest.approx((float(near[number]), float(same[number])), abs=1e-5)


def test_heads_without_another_role_are_local_or_global():
    class Layer(torch.nn.Module):
        heads, kind, attend = 2, "encoder", staticmethod(regard.attention)

        def forward(self, scores):
            keys = torch.eye(scores.shape[-1])[None, None].expand(1, 2, -1, -1)
            return self.attend(scores, keys, keys, scale=1.0)

    torch.manual_seed(0)
    away = (torch.arange(200) - torch.arange(200)[:, None]).abs()
    scores = 2 * torch.randn(2, 200, 200) + torch.stack([away <= 14, away > 40]) * 6.0
    with regard.watch(Layer(), tokens=[f"w{n}" for n in range(200)]) as record:
        record.model(scores[None])
    dense = record[""].to_dense()[0]
    rows = torch.arange(1, 200)
    local = torch.stack([dense[:, n, max(n - 16, 0) : n + 17].sum(-1) for n in rows], -1).mean(-1)
    first = dense[:, rows, 0].mean(-1)
    assert [head.role for head in record.atlas()] == ["local", "global"]
    shares = local / (1 - first)
    assert [head.weight for head in record.atlas()] == pytest.approx([float(shares[0]), 1 - float(shares[1])], abs=1e-5)


def test_cross_attention_has_a_role_only(bart):
    atlas = bart.atlas()
    cross = [head for head in atlas if head.kind == "cross"]
    assert len(cross) == sum(entry.shape[1] for entry in bart.at(kind="cross").values())
    assert all(math.isnan(head.previous) and head.role for head in cross)
    assert {head.kind for head in bart.atlas(kind="encoder")} == {"encoder"}


def test_it_prints_and_is_drawn(drawn_up):
    atlas, *_ = drawn_up
    first, *roles = str(atlas).split("\n")
    assert first == "8 heads on 26 tokens"
    assert sum(int(re.search(r" (\d+)(   |$)", line)[1]) for line in roles) == 8
    picture = atlas.picture("Llama")
    assert picture.to_svg().count('data-mark=""') == 8
    for head in atlas:
        assert f"layer {head.layer}, head {head.head}: {head.role}" in picture.to_svg().replace("&quot;", '"')
    assert "<td" in atlas._repr_html_()
    assert isinstance(atlas, Atlas)
    with pytest.raises(regard.InputError, match="number must be one of 'first', 'previous'"):
        atlas.by("last")


def test_errors(llama):
    count = len(WORDS)
    with pytest.raises(regard.InputError, match=f"the context is from 1 to {count - 1} of the {count} tokens"):
        llama.atlas(context=count)
    with pytest.raises(regard.InputError, match=f"ids are those of the {count} tokens, or {count + 1} with the last"):
        llama.atlas(context=4, ids=torch.zeros(2, 4, dtype=torch.long))
    assert llama.atlas(context="because").written == count - 1 - WORDS.index("because")
    model = made("BERT")
    with torch.no_grad(), regard.watch(model) as record:
        model(**FAMILIES["BERT"].inputs(None))
    with pytest.raises(regard.InputError, match="need a decoder"):
        record.atlas(context=3)
