"""A training on disk: one safetensors file that appears whole or not at all, from which it goes on exactly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.errors import FileError

__all__ = ["FILE", "read", "write"]

FILE = "checkpoint.safetensors"
_FORMAT = "regard.training"


def write(
    folder: Path, model: nn.Module, average: dict[str, Tensor], optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> None:
    """Weights, their average, the optimizer's moments, the random numbers' state, and where it stands."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.items()}
    for name, parameter in model.named_parameters():
        for moment, tensor in optimizer.state[parameter].items():
            tensors[f"{moment}.{name}"] = tensor
    tensors["random"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    draft = folder / f".{FILE}.draft"
    save_file(whole, draft, {"format": _FORMAT, "state": json.dumps(state)})
    os.replace(draft, folder / FILE)


def read(
    folder: Path, model: nn.Module, average: dict[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put everything back where it was, and say where the training stands."""
    path = folder / FILE
    if not path.is_file():
        raise FileError(f"{path} is missing: nothing to resume. Start without --resume.")
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
    except (SafetensorError, OSError) as error:
        raise FileError(f"{path} is damaged: {error}. Start anew without --resume.") from None
    own = {f"model.{name}": tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items() if name.startswith("model.")}
    if about.get("format") != _FORMAT or own != found:
        raise FileError(f"{path} is not a checkpoint of this recipe's model. Was the recipe changed?")
    model.load_state_dict({name.removeprefix("model."): tensors[name] for name in own})
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
    state: dict[str, Any] = json.loads(about["state"])
    return state
