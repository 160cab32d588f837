"""`watch` of models that are spread over ranks, devices or a disk."""

import accelerate
import pytest
import torch
import transformers
from support.distributed import watched_models, worlds
from support.distributed.worlds import World
from support.models import FAMILIES, made

import regard

PLACES = {
    "model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.layers.0": "disk", "model.layers.1": "cpu",
    "model.norm": "cpu", "lm_head": "disk",
}  # fmt: skip


@pytest.mark.slow
def test_models_on_two_ranks_are_seen_as_on_one(tmp_path):
    made("Llama").save_pretrained(tmp_path)
    worlds.run(
        World(2, watched_models.wrapped),
        World(2, watched_models.own_texts),
        World(2, watched_models.tensor_parallel, (tmp_path,)),
    )


@pytest.mark.slow
def test_a_monitor_has_one_dict_on_the_first_rank(tmp_path):
    worlds.run(World(2, watched_models.monitored, (tmp_path,)))


def _dispatched(folder):
    return accelerate.dispatch_model(made("Llama"), PLACES, main_device="cpu", offload_dir=folder / "weights")


def _loaded(folder):
    made("Llama").save_pretrained(folder / "model")
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model", device_map=PLACES, offload_folder=folder / "weights"
    )


def _in_memory(folder):
    return accelerate.cpu_offload(made("Llama"), execution_device=torch.device("cpu"))


@pytest.mark.parametrize("make", [_dispatched, _loaded, _in_memory])
def test_a_model_whose_weights_lie_elsewhere_is_seen(make, tmp_path):
    model, plain, inputs = make(tmp_path), made("Llama"), FAMILIES["Llama"].inputs("left")
    assert any(parameter.is_meta for parameter in model.parameters())  # they come when they are needed
    with torch.no_grad(), regard.watch(plain) as expected:
        output = plain(**inputs).logits
    with torch.no_grad(), regard.watch(model) as record:
        assert torch.allclose(model(**inputs).logits, output, atol=1e-6)
    assert list(record) == list(expected)
    assert not record.unseen
    for name, entry in record.items():
        assert torch.allclose(entry.to_dense(), expected[name].to_dense(), atol=1e-6)
        assert torch.allclose(entry.received(), expected[name].received(), atol=1e-5)
    with torch.no_grad(), regard.watch(model, keep="summary") as written:
        text = model.generate(inputs["input_ids"], max_new_tokens=3, do_sample=False)
    with torch.no_grad(), regard.watch(plain, keep="summary") as alone:
        assert torch.equal(text, plain.generate(inputs["input_ids"], max_new_tokens=3, do_sample=False))
    for name, entry in written.items():
        assert torch.allclose(entry.received(), alone[name].received(), atol=1e-5)
