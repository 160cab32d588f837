"""`monitor`: the numbers of every head sampled while a model trains, what in them is alarming, and a film of them."""

from __future__ import annotations

import sys
from collections import UserDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from math import isfinite
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.text import Text
from torch import nn

from regard.drawing import Picture, film
from regard.drawing.svg import Canvas, Raster
from regard.drawing.svg import measure as measure_text
from regard.errors import InputError, MissingDependencyError, WatchError
from regard.support import whole
from regard.watching.head_numbers import MEANINGS, Measured, Numbers, measure

_WHOLE = {"max_logit": max, "entropy_least": min}  # of all heads; the other numbers are means
_CELL, _ACROSS = 14.0, 4  # pixels of a head in a film; panels in a line
_FRAMES = 200  # of a film, at most
_LOGIT = 100.0  # Kimi K2 clips beyond
_COLLAPSED, _FALLEN = 0.05, 0.25  # entropy of a layer: share of the possible, and of the largest so far
_DEAD = 0.01  # output of a head, as a share of the median of its layer
_SINK = 0.3  # from here on Gu and others call a token a sink
_SOURCES = {
    "logits": "Kimi K2 (2025, arXiv:2507.20534) clips query and key weights beyond 100",
    "entropy": "Zhai and others (2023, arXiv:2303.06296): training becomes unstable as entropy collapses",
    "dead": "Michel and others (2019, arXiv:1905.10650): such a head can be removed",
    "sink": "Gu and others (2025, arXiv:2410.10781): a token is a sink from a share of 0.3 on",
}


@dataclass(frozen=True)
class Alarm:
    """Something that began at this step: which head or layer, what was measured, and who calls it a problem."""

    step: int
    where: str
    kind: str  # "logits", "entropy", "dead" or "sink"
    reason: str

    @property
    def source(self) -> str:
        """The publication that the threshold is from."""
        return _SOURCES[self.kind]

    def __str__(self) -> str:
        return f"step {self.step}, {self.where}: {self.reason}. {self.source}."


def alarms(
    step: int, layers: Mapping[str, Numbers], first: Mapping[str, Numbers], highest: Mapping[str, float]
) -> Iterator[Alarm]:
    """The alarms of one sample.

    Args:
        step: its step.
        layers: the numbers of each layer.
        first: those of the first sample of each layer.
        highest: the largest entropy that each layer has had.
    """
    for layer, numbers in layers.items():
        heads = [f"{layer}/head{n:02d}" for n in range(len(numbers["entropy"]))]
        entropy, relative = fmean(numbers["entropy"]), fmean(numbers["entropy_relative"])
        if relative < _COLLAPSED and entropy < _FALLEN * highest[layer]:
            fallen = f"entropy {entropy:.2f} of once {highest[layer]:.2f}, {relative:.1%} of what is possible"
            yield Alarm(step, layer, "entropy", fallen)
        usual = median(numbers["output_norm"])
        for n, head in enumerate(heads):
            if numbers["max_logit"][n] > _LOGIT:
                yield Alarm(step, head, "logits", f"logits up to {numbers['max_logit'][n]:.0f}")
            if numbers["output_norm"][n] < _DEAD * usual:
                yield Alarm(step, head, "dead", f"output of length {numbers['output_norm'][n]:.2g}, others {usual:.2g}")
            if numbers["sink"][n] >= _SINK > first[layer]["sink"][n]:
                before = first[layer]["sink"][n]
                yield Alarm(step, head, "sink", f"one token receives {numbers['sink'][n]:.0%}, at first {before:.0%}")


@dataclass(frozen=True)
class Sample:
    """The numbers of every head at one step."""

    step: int
    layers: dict[str, Numbers]  # by the label of the layer, as in "layer03"
    alarms: tuple[Alarm, ...]  # all that hold at this step

    @property
    def overall(self) -> dict[str, float]:
        """A dozen numbers over the whole model."""
        of_heads = {name: [n for layer in self.layers.values() for n in layer.get(name, ())] for name in MEANINGS}
        finite = {name: [n for n in values if isfinite(n)] for name, values in of_heads.items()}
        numbers = {name: float(_WHOLE.get(name, fmean)(values)) for name, values in finite.items() if values}
        numbers["heads"] = float(len(of_heads["entropy"]))
        numbers |= {f"{kind}_alarms": float(sum(a.kind == kind for a in self.alarms)) for kind in ("logits", "dead")}
        return {f"attention/{name}": value for name, value in numbers.items()}

    @property
    def numbers(self) -> dict[str, float]:
        """All finite numbers, flat: "attention/layer03/head05/entropy", and `overall`."""
        return self.overall | {
            f"attention/{layer}/head{head:02d}/{what}": value
            for layer, numbers in self.layers.items()
            for what, values in numbers.items()
            for head, value in enumerate(values)
            if isfinite(value)
        }

    def __str__(self) -> str:
        rows = [("", *MEANINGS)]
        for layer, numbers in self.layers.items():
            shown = {name: _WHOLE.get(name, fmean)(values) for name, values in numbers.items()}
            rows.append((layer, *(f"{shown[name]:.3g}" if name in shown else "" for name in MEANINGS)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        heads = sum(len(numbers["entropy"]) for numbers in self.layers.values())
        lines = [
            f"step {self.step}, {heads} heads in {len(self.layers)} layers; max_logit and entropy_least of any head"
        ]
        lines += ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        return "\n".join([*lines, *(f"! {alarm}" for alarm in self.alarms)])


class _Later(UserDict[str, float]):
    """The numbers of a sample; the first question for one of them waits for the device."""

    sample: Sample  # from when it has arrived

    def __init__(self, monitor: Monitor):
        self._monitor = monitor

    @cached_property
    def data(self) -> dict[str, float]:  # type: ignore[override]
        self._monitor.arrived(wait=True)
        return self.sample.numbers

    def __bool__(self) -> bool:
        return True

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return self.data | dict(other)

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return dict(other) | self.data


def monitor(
    model: nn.Module,
    every: int = 50,
    *,
    log: Callable[[dict[str, float], int], object] | None = None,
    group: Any = None,
) -> Monitor:
    """Sample the attention of a model while it trains: logits, entropy, sinks and outputs of every head.

    Call `monitor.step(…)` once in each step, with what the model's forward takes. At every `every`-th step it runs the
    plain model once more on this batch, without gradients and dropout, and measures each head. In between, nothing is
    wrapped or hooked. Neither the model, nor its compiled code, nor the random numbers change: losses are the same bits
    as without it. Under autocast, call it inside the same `torch.autocast` block as the model.

    In bfloat16 a sample does not wait for a GPU: `log` and alarms come at the first later `step` at which its numbers
    have arrived, with the step of the sample. Whatever asks for the numbers before waits for them.

    Args:
        model: any model that `regard.watch` sees, compiled or wrapped by DDP or not.
        every: the number of steps from one sample to the next.
        log: called with the numbers and the step of each sample, perhaps some steps later.
        group: the ranks whose batches count, as torch.distributed names them; by default all. Each of them must call
            `step`; the first has the numbers.

    >>> import torch, regard
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> monitor = regard.monitor(model, every=2)
    >>> [len(monitor.step(torch.randn(3, 5, 8))) for _ in range(3)]     # two heads with 9 numbers each, and a dozen
    [30, 0, 30]
    """
    return Monitor(model, every, log, group)


@dataclass
class Monitor:
    """Samples a model every so many steps; print it for a table of the last sample."""

    model: nn.Module
    every: int
    log: Callable[[dict[str, float], int], object] | None = None
    group: Any = None
    steps: int = 0  # how often `step` was called

    def __post_init__(self) -> None:
        self.every = whole("every", self.every)
        if self.every < 1:
            raise InputError(f"every must be at least 1 step. Got {self.every}.")
        self._samples: list[Sample] = []
        self._late: deque[tuple[int, Measured, _Later]] = deque()  # samples on their way from the device
        self._tell: Callable[[Sample], object] | None = None  # of a callback
        self._labels: dict[str, str] = {}  # of the layers, by module
        self._first: dict[str, Numbers] = {}  # of each layer, when it first ran
        self._highest: dict[str, float] = {}

    def step(self, *args: Any, **kwargs: Any) -> Mapping[str, float]:
        """Count a step. At every `every`-th, the first included, sample the model on these inputs.

        Returns:
            The numbers of the sample, for which the first question waits; empty at other steps, and on all ranks but
            the first.
        """
        self.steps += 1
        if (self.steps - 1) % self.every == 0:
            return self.sample(*args, **kwargs)
        self.arrived()
        return {}

    def sample(self, *args: Any, **kwargs: Any) -> Mapping[str, float]:
        """Sample the model on these inputs, at the current step."""
        model = _plain(self.model)
        with _undisturbed(model):
            measured = measure(model, args, kwargs, self.group)
        if measured is None:  # the first rank has the numbers
            return {}
        later = _Later(self)
        self._late.append((max(self.steps - 1, 0), measured, later))
        self.arrived()  # by now the device has work, and an earlier sample may be there
        return later

    def arrived(self, wait: bool = False) -> None:
        """Hand over the samples whose numbers have arrived; `wait` for all."""
        while self._late and (wait or self._late[0][1].arrived()):
            step, measured, later = self._late[0]
            layers = measured.layers(self._labels)  # waits for the device, and may be interrupted
            self._late.popleft()
            for layer, of_heads in layers.items():
                self._first.setdefault(layer, of_heads)
                self._highest[layer] = max(self._highest.get(layer, 0.0), fmean(of_heads["entropy"]))
            later.sample = sample = Sample(step, layers, tuple(alarms(step, layers, self._first, self._highest)))
            self._samples.append(sample)
            if self.log is not None:
                self.log(sample.numbers, step)
            if self._tell is not None:
                self._tell(sample)

    @property
    def samples(self) -> list[Sample]:
        """All samples, waiting for the last."""
        self.arrived(wait=True)
        return self._samples

    @property
    def alarms(self) -> list[Alarm]:
        """Every alarm at the step where it began."""
        found, before = [], set[tuple[str, str]]()
        for sample in self.samples:
            found += [alarm for alarm in sample.alarms if (alarm.where, alarm.kind) not in before]
            before = {(alarm.where, alarm.kind) for alarm in sample.alarms}
        return found

    def __str__(self) -> str:
        samples = self.samples
        return str(samples[-1]) if samples else "no sample yet: call step(…) with the inputs of the model"

    def picture(self) -> Picture:
        """A film of at most 200 samples: every number as a map of layers × heads, in the same colours throughout."""
        samples = self.samples
        if not samples:
            raise WatchError("there is no sample to draw yet. Call step(…) in each step of the training.")
        apart = -(-len(samples) // _FRAMES)
        shown = samples[::-1][::apart][::-1]  # with the last
        layers = list(dict.fromkeys(layer for sample in shown for layer in sample.layers))
        maps = {name: np.stack([_map(sample, name, layers) for sample in shown]) for name in MEANINGS}
        maps = {name: values for name, values in maps.items() if np.isfinite(values).any()}
        frames = {f"step {sample.step}": _frame(sample, n, maps, layers) for n, sample in enumerate(shown)}
        began = " ".join(f"{alarm}" for alarm in self.alarms[:10])
        return film(frames, title=f"Attention of {type(_plain(self.model)).__name__} in training", caption=began)

    def report(self, path: str | Path) -> Path:
        """Save the film, as .html with a slider over the steps."""
        return self.picture().save(path)

    def trainer_callback(self, batch: dict[str, Any] | None = None) -> Any:
        """A `TrainerCallback` of transformers: `Trainer(…, callbacks=[monitor.trainer_callback()])`.

        Args:
            batch: inputs of the model to sample; by default the first micro-batch of the sampled step, which a hook of
                that step takes. A compiled model has no such hook: give it a batch.
        """
        base: Any = import_module("transformers").TrainerCallback
        monitor = self
        inputs: list[tuple[tuple[Any, ...], Mapping[str, Any]]] = [] if batch is None else [((), batch)]

        class MonitorCallback(base):  # type: ignore[misc]
            """Samples the model at the end of every `every`-th step."""

            def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                if batch is None and args.torch_compile:
                    raise InputError(
                        "a compiled model is sampled on a batch of its own: monitor.trainer_callback(batch), such as "
                        "next(iter(trainer.get_train_dataloader()))."
                    )
                monitor._tell = lambda sample: state.log_history.append(sample.overall | {"step": sample.step})

            def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
                if batch is None and state.global_step % monitor.every == 0:

                    def keep(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
                        handle.remove()
                        inputs[:] = [(args, kwargs)]

                    handle = model.register_forward_pre_hook(keep, with_kwargs=True)

            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                monitor.steps = state.global_step  # as it was when the step began, plus 1
                if (state.global_step - 1) % monitor.every == 0 and inputs:
                    args, kwargs = inputs[0]
                    monitor.sample(*args, **kwargs)
                    if batch is None:
                        inputs.clear()
                monitor.arrived()

            def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                monitor.arrived(wait=True)

        return MonitorCallback()

    def lightning_callback(self, inputs: Callable[[Any], Sequence[Any]] = lambda batch: (batch[0],)) -> Any:
        """A `Callback` of Lightning, whose loggers get `Sample.overall`.

        Args:
            inputs: takes from a batch what the model's forward takes.
        """
        base = _lightning()
        monitor = self

        class MonitorCallback(base):  # type: ignore[misc, valid-type]
            """Samples the model at the end of every `every`-th step; the Trainer's loggers get `Sample.overall`."""

            def on_train_start(self, trainer: Any, module: Any) -> None:
                self.steps = trainer.global_step  # of the optimizers: some batches only add to the gradients
                monitor._tell = lambda sample: [
                    logger.log_metrics(sample.overall, step=sample.step) for logger in trainer.loggers
                ]

            def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
                before, self.steps = self.steps, trainer.global_step
                if (before - 1) // monitor.every != (self.steps - 1) // monitor.every:
                    monitor.steps = self.steps
                    with trainer.precision_plugin.forward_context():  # autocast, where the Trainer uses it
                        monitor.sample(*inputs(batch))
                monitor.arrived()

            def on_train_end(self, trainer: Any, module: Any) -> None:
                monitor.arrived(wait=True)

        return MonitorCallback()


def _lightning() -> type:
    """Lightning's base class of callbacks. It has two packages; the one that is imported already comes first."""
    for name in sorted(("lightning.pytorch", "pytorch_lightning"), key=lambda name: name not in sys.modules):
        with suppress(ImportError):
            base: type = import_module(name).Callback
            return base
    raise MissingDependencyError("the callback needs Lightning: pip install lightning.")


def _plain(model: nn.Module) -> nn.Module:
    """The model inside torch.compile and DDP."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        elif "_orig_mod" in model._modules:
            model = model._modules["_orig_mod"]  # type: ignore[assignment]
        else:
            return model


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Run without dropout; afterwards, modes and torch's random numbers are as before."""
    devices = {parameter.device for parameter in model.parameters()}
    training = [module for module in model.modules() if module.training]
    with ExitStack() as undo:
        for kind in {device.type for device in devices} - {"cpu"} or {"cuda"}:  # and those of the CPU
            own = [device for device in devices if device.type == kind]
            undo.enter_context(torch.random.fork_rng(own, device_type=kind))
        for module in training:
            undo.callback(setattr, module, "training", True)
            module.training = False
        yield


def _map(sample: Sample, name: str, layers: Sequence[str]) -> NDArray[np.float64]:
    """One number of all heads, (layers, heads); NaN where there is no head."""
    lines = [sample.layers.get(layer, {}).get(name, []) for layer in layers]
    found = np.full((len(lines), max(map(len, lines))), np.nan)
    for line, values in zip(found, lines, strict=True):
        line[: len(values)] = values
    return found


def _frame(sample: Sample, n: int, maps: dict[str, NDArray[np.float64]], layers: Sequence[str]) -> Picture:
    """The maps of one sample, each from its smallest to its largest number in the whole film."""

    def draw(canvas: Canvas) -> None:
        heads = next(iter(maps.values())).shape[2]
        canvas.labels |= {"rows": list(layers), "columns": [f"head {head}" for head in range(heads)]}
        width, height = max(heads * _CELL, 150.0), len(layers) * _CELL
        left = max(measure_text(layer, 10) for layer in layers) + 6
        for place, (name, values) in enumerate(maps.items()):
            finite = values[np.isfinite(values)]
            low, high = float(finite.min()), float(finite.max())
            x, y = left + place % _ACROSS * (width + 24), place // _ACROSS * (height + 76)
            canvas.text(x, y + 12, name, 13, bold=True, title=MEANINGS[name])
            canvas.text(x, y + 28, f"{low:.3g} to {high:.3g}", 11, fill=canvas.theme.muted)
            shares = (values[n] - low) / ((high - low) or 1.0)
            raster = Raster(values[n], f"{name}: {MEANINGS[name]}", "rows", "columns")
            canvas.image(x, y + 34, heads * _CELL, height, raster, shares)
            for row, layer in enumerate(layers if place % _ACROSS == 0 else ()):
                canvas.text(x - 6, y + 34 + (row + 0.75) * _CELL, layer, 10, "end", canvas.theme.muted)
            canvas.text(x, y + 46 + height, f"head 0 to {heads - 1}", 10, fill=canvas.theme.muted)

    numbers = {name: values[n] for name, values in maps.items()}
    return Picture("heads", numbers, draw, lambda room: Text(str(sample)))
