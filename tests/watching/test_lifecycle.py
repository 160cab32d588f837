"""Entering and leaving a watch: the model is restored, watches nest, threads do not mix."""

import threading

import pytest
import torch
from support.models import FAMILIES, Layer, made
from torch import nn

import regard


def test_the_model_is_restored_after_an_exception():
    model = made("Llama")
    before = model.config._attn_implementation
    with pytest.raises(ZeroDivisionError), regard.watch(model) as record:  # noqa: PT012
        model(torch.tensor([[5, 6, 7]]))
        raise ZeroDivisionError
    assert model.config._attn_implementation == before
    assert not model._forward_pre_hooks
    assert len(record) == 2


def test_another_attention_set_inside_the_block_is_seen_too():
    model, ids = made("Llama"), torch.tensor([[5, 6, 7]])
    before = model.config._attn_implementation
    with torch.no_grad(), regard.watch(model, strict=True) as record:
        first = model(ids).logits
        model.set_attn_implementation("eager")
        torch.testing.assert_close(model(ids).logits, first)
    assert model.config._attn_implementation == before
    one, other = (each["model.layers.1.self_attn"].to_dense() for each in record.passes)
    torch.testing.assert_close(one, other)


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


def test_a_watch_can_be_opened_again():
    model = made("BERT")
    looking = regard.watch(model)
    with looking as first:
        model(torch.tensor([[5, 6]]))
    with looking as second:
        model(torch.tensor([[5, 6, 7]]))
    assert [next(iter(record.values())).shape[2] for record in (first, second)] == [2, 3]
    assert len(second.passes) == 1


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


WRONG = [("tokens", wrong, "tokens are a list of strings") for wrong in ("a dog", 3, [], [1, 2], [["a"], 3], ["a", 3])]
WRONG += [("tokenizer", 3, "must have convert_ids_to_tokens"), ("tokenizer", "bert", "must have convert_ids_to_tokens")]
WRONG += [("without", wrong, "without takes heads by module") for wrong in (3, "x", [3])]
WRONG += [("without", {"": wrong}, "takes a list of heads") for wrong in ("x", 1, ["x"], [0.5], [True])]
WRONG += [("without", {3: [0]}, "no module 3")]
WRONG += [("keep", wrong, "keep must be") for wrong in (2.5, None, [3], ["top", ["top"]])]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("name", "wrong", "said"), WRONG)
def test_what_an_argument_must_be(name, wrong, said):
    with pytest.raises(regard.InputError, match=said):
        regard.watch(Layer(), **{name: wrong})


# Threads


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
