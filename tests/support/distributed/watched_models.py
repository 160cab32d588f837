"""Models on several ranks, watched: jobs for `worlds`. What is seen is what the plain model shows, under the same names."""

import os
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

import regard
from support.models import FAMILIES, made


def _llama(model):
    return model(**FAMILIES["Llama"].inputs("left"), use_cache=False).logits


def _own():
    torch.manual_seed(0)
    sizes = {"width": 32, "heads": 4, "hidden": 64, "encoder_layers": 2, "decoder_layers": 2}
    return regard.Transformer(regard.TransformerConfig(vocabulary=50, **sizes))


def _torch():
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 2)


def _layers(model):
    kinds = (nn.TransformerEncoderLayer, regard.EncoderLayer, regard.DecoderLayer)
    return [m for m in model.modules() if isinstance(m, kinds) or type(m).__name__ == "LlamaDecoderLayer"]


def _sharded(model):
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in _layers(model):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _checkpointed(model):
    layers = set(_layers(model))
    apply_activation_checkpointing(model, check_fn=lambda module: module in layers)
    return model


def wrapped(rank, size):
    """DDP, FSDP2 and activation checkpoints."""
    ids = torch.randint(5, 40, (2, 6), generator=torch.Generator().manual_seed(1))
    vectors = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(1))
    models = {
        "Llama": (lambda: made("Llama"), _llama, "model.layers.1.self_attn"),
        "own": (_own, lambda model: model(ids, ids), "decoder.layers.1.cross"),
        "torch": (_torch, lambda model: model(vectors), "layers.1.self_attn"),
    }
    ways = {
        "DDP": DistributedDataParallel, "FSDP2": _sharded,
        "DDP of checkpoints": lambda model: DistributedDataParallel(_checkpointed(model)),
    }  # fmt: skip
    for kind, (make, call, module) in models.items():
        plain = make().eval()
        with regard.watch(plain) as expected:
            output = call(plain)
        with torch.no_grad(), regard.watch(plain, without={module: [1]}):
            knocked = call(plain)
        for way, wrap in ways.items():
            model, what = wrap(make().eval()), f"{kind}, {way}"
            with regard.watch(model) as record:
                found = call(model)
                found.sum().backward()
            assert torch.allclose(found, output, atol=1e-6), what
            assert list(record) == list(expected), f"{what}: {list(record)}"
            assert not record.unseen, what
            assert len(record.passes) == 1, what  # what a checkpoint computes again is not recorded again
            for name, entry in record.items():
                assert torch.allclose(entry.to_dense(), expected[name].to_dense(), atol=1e-6), f"{what}: {name}"
            with torch.no_grad(), regard.watch(model, without={module: [1]}):
                assert torch.allclose(call(model), knocked, atol=1e-6), f"{what}: a head knocked out"


def own_texts(rank, size):
    """With DDP each rank records the texts that it was given."""
    model = DistributedDataParallel(made("Llama"))
    texts = FAMILIES["Llama"].inputs(None)["input_ids"]
    with torch.no_grad(), regard.watch(model) as record:
        model(input_ids=texts[rank : rank + 1])
    with torch.no_grad(), regard.watch(model.module) as alone:
        model.module(input_ids=texts)
    for name, entry in record.items():
        assert torch.allclose(entry.to_dense(), alone[name].to_dense()[rank : rank + 1], atol=1e-6)


def tensor_parallel(rank, size, folder):
    """Each rank records its own heads, by their numbers in the whole model; the first can have all of them."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}  # as torchrun sets them
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto")
    ids, module = FAMILIES["Llama"].inputs(None)["input_ids"], "model.layers.1.self_attn"

    def both(call, **options):
        with torch.no_grad(), regard.watch(plain, **options) as expected:
            output = call(plain)
        with torch.no_grad(), regard.watch(model, **options) as record:
            assert torch.allclose(call(model), output, atol=1e-5), options
        return record, expected

    record, expected = both(_llama)
    for name, entry in record.items():
        heads = expected[name].shape[1] // size
        own = slice(rank * heads, (rank + 1) * heads)
        assert entry.heads == range(own.start, own.stop)
        assert torch.allclose(entry.to_dense(), expected[name].to_dense()[:, own], atol=1e-6), name
        assert torch.allclose(entry.received(), expected[name].received()[:, own], atol=1e-5), name
        chosen = record.at(head=own.stop - 1)[name]
        assert chosen.heads == range(own.stop - 1, own.stop)
        assert torch.allclose(chosen.to_dense(), entry.to_dense()[:, -1:])
    assert f"heads {own.start} to {own.stop - 1} of {heads * size}" in repr(record)
    assert "record.gather()" in repr(record)
    assert record.check().difference < 1e-5
    _open_again(record, folder, rank)

    _same_when_gathered(record, expected, rank)
    generate = {"max_new_tokens": 3, "do_sample": False}
    for keep in ("matrix", ("received", "entropy", "pool", "top")):
        record, expected = both(lambda one: one.generate(ids, **generate), keep=keep)
        _same_when_gathered(record, expected, rank)

    for without in ({module: [0, heads * size - 1]}, regard.Link(None, 0, heads=[heads * size - 1])):
        both(_llama, without=without)  # heads by their numbers in the whole model
    for without in ({module: [heads * size]}, regard.Link(None, 0, heads=[heads * size])):
        match = f"has {heads * size} heads"  # all ranks say so
        with torch.no_grad(), pytest.raises(regard.InputError, match=match), regard.watch(model, without=without):
            _llama(model)
    _dtensors(rank, size)


def _dtensors(rank, size):
    """Queries that torch has in shards are refused, and how to go on is said."""
    mesh = init_device_mesh("cpu", (size,))

    class Attention(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x)

    query = DTensor.from_local(torch.zeros(1, 2, 3, 4), mesh, [Shard(1)])
    refused = pytest.raises(regard.WatchError, match="use_local_output=True")
    with torch.no_grad(), refused, regard.watch(Attention()) as record:
        record.model(query)


def _same_when_gathered(record, expected, rank):
    found = record.gather()
    assert (found is None) == (rank > 0)
    if found is None:
        return
    assert list(found) == list(expected)
    assert repr(found) == repr(expected)
    for name, entry in found.items():
        assert entry.shape == expected[name].shape
        if entry.reductions is None:
            assert torch.allclose(entry.to_dense(), expected[name].to_dense(), atol=1e-6), name
            continue
        for kept in ("received", "entropy", "pool"):
            assert torch.allclose(entry.reductions[kept], expected[name].reductions[kept], atol=1e-5), (name, kept)
        assert torch.allclose(entry.top(3).weights, expected[name].top(3).weights, atol=1e-6), name
    assert found.gather() is found


def _open_again(record, folder, rank):
    """What a rank saves is its shard, and says so."""
    path = Path(folder) / f"record-{rank}.safetensors"
    record.save(path)
    opened = regard.Record.open(path)
    assert repr(opened) == repr(record)
    for name, entry in record.items():
        assert torch.equal(opened[name].to_dense(), entry.to_dense())
    with pytest.raises(regard.WatchError, match="from a file: the other ranks are gone"):
        opened.gather()
    with pytest.raises(regard.WatchError, match="Gather the whole record, then choose heads"):
        record.at(head=entry.heads[0]).gather()


def monitored(rank, size, folder):
    """DDP and FSDP2: one dict on the first rank, as of all texts in one batch; tensor parallel: of all heads."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
    texts = torch.randint(5, 90, (4, 8), generator=torch.Generator().manual_seed(2))
    expected = regard.monitor(made("Llama"), every=1, group=_alone(rank, size)).step(input_ids=texts)
    ways = {"DDP": (DistributedDataParallel, 2), "FSDP2": (_sharded, 2)}
    for way, (wrap, each) in ways.items():
        losses = []
        for on in (False, True):
            torch.manual_seed(0)
            model = wrap(made("Llama"))
            monitor = regard.monitor(model, every=2)
            optimizer = torch.optim.SGD(model.parameters(), 1e-4)
            for _ in range(3):
                own = texts[rank * each : (rank + 1) * each]
                found = monitor.step(input_ids=own) if on else {}
                assert bool(found) == (on and rank == 0 and monitor.steps % 2 == 1)
                loss = model(input_ids=own, labels=own).loss
                losses.append(float(loss.detach()))
                loss.backward()
                optimizer.step()
                if on and monitor.steps == 1:
                    _same_numbers(found, expected, rank, way)
        assert losses[:3] == losses[3:], way
        assert len(monitor.samples) == (2 if rank == 0 else 0)
    made("Llama").save_pretrained(folder) if rank == 0 else None
    torch.distributed.barrier()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto")
    _same_numbers(regard.monitor(model).step(input_ids=texts), expected, rank, "tensor parallel")


def _alone(rank, size):
    """A group of this rank only."""
    return [torch.distributed.new_group([each]) for each in range(size)][rank]


def _same_numbers(found, expected, rank, what):
    if rank > 0:
        assert found == {}, what
        return
    assert found.keys() == expected.keys(), what
    for name, value in expected.items():
        assert abs(found[name] - value) <= 2e-5 * max(1.0, abs(value)), (what, name, found[name], value)
