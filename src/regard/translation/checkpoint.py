"""A training on disk: one safetensors file, written atomically, from which it continues exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import FileError
from regard.nn.model_folder import read_safetensors, write_safetensors

__all__ = ["FILE", "read", "write"]

FILE = "checkpoint.safetensors"
_FORMAT = "regard.training"


def write(
    folder: Path, model: nn.Module, average: dict[str, Tensor], optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> None:
    """Save weights, their average, the optimizer's moments, the random state and the progress."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.items()}
    for name, parameter in model.named_parameters():
        for moment, tensor in optimizer.state[parameter].items():
            tensors[f"{moment}.{name}"] = tensor
    tensors["random"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    write_safetensors(folder / FILE, tensors, {"format": _FORMAT, "state": json.dumps(state)})


def read(
    folder: Path, model: nn.Module, average: dict[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Restore everything in place, and return the progress."""
    path = folder / FILE
    if not path.is_file():
        raise FileError(f"{path} is missing: nothing to resume. Start without --resume.")
    tensors, metadata = read_safetensors(path, "Start anew without --resume.")
    expected = {f"model.{name}": tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    stored = {name: tuple(tensor.shape) for name, tensor in tensors.items() if name.startswith("model.")}
    if metadata.get("format") != _FORMAT or stored != expected:
        raise FileError(f"{path} is not a checkpoint of this recipe's model. Was the recipe changed?")
    model.load_state_dict({name.removeprefix("model."): tensors[name] for name in expected})
    for name, tensor in average.items():
        tensor.copy_(tensors[f"average.{name}"])
    for name, parameter in model.named_parameters():
        moments = {m: tensors[f"{m}.{name}"] for m in ("step", "exp_avg", "exp_avg_sq") if f"{m}.{name}" in tensors}
        optimizer.state[parameter] = {
            m: tensor if m == "step" and parameter.device.type == "cpu" else tensor.to(parameter.device)
            for m, tensor in moments.items()
        }
    torch.set_rng_state(tensors["random"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    state: dict[str, Any] = json.loads(metadata["state"])
    return state
