"""Models on several ranks, watched: jobs for worlds.py. What is seen is what the plain model shows, under the same names."""

import os

import torch
import transformers
from models import FAMILIES, made
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import regard


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
    """Each rank records its own heads, numbered from 0: those after the heads of the ranks before it."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}  # as torchrun sets them
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto")
    with torch.no_grad(), regard.watch(plain) as expected:
        output = _llama(plain)
    with torch.no_grad(), regard.watch(model) as record:
        assert torch.allclose(_llama(model), output, atol=1e-5)
    for name, entry in record.items():
        heads = expected[name].shape[1] // size
        own = slice(rank * heads, (rank + 1) * heads)
        assert entry.shape[1] == heads
        assert torch.allclose(entry.to_dense(), expected[name].to_dense()[:, own], atol=1e-6), name
        assert torch.allclose(entry.received(), expected[name].received()[:, own], atol=1e-5), name
