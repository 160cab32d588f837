"""`trainer_callback` and `lightning_callback`: a monitor inside the Trainer of transformers and of Lightning.

Neither library is imported until its function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from regard.watching.training.monitoring import Monitor


def trainer_callback(monitor: Monitor, batch: Mapping[str, Any] | None) -> Any:
    """See `Monitor.trainer_callback`."""
    base: Any = import_module("transformers").TrainerCallback
    inputs: list[tuple[tuple[Any, ...], Mapping[str, Any]]] = [] if batch is None else [((), batch)]

    class MonitorCallback(base):  # type: ignore[misc]
        """Samples the model at the end of every `every`-th step."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if batch is None and args.torch_compile:
                raise InputError(
                    "a compiled model is sampled on a batch of its own: monitor.trainer_callback(batch), such as "
                    "next(iter(trainer.get_train_dataloader()))."
                )

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
                if monitor.sample(*args, **kwargs):
                    state.log_history.append(monitor.samples[-1].overall | {"step": monitor.samples[-1].step})
                if batch is None:
                    inputs.clear()

    return MonitorCallback()


def lightning_callback(monitor: Monitor, inputs: Callable[[Any], Sequence[Any]]) -> Any:
    """See `Monitor.lightning_callback`."""
    try:
        base: Any = import_module("lightning.pytorch").Callback
    except ImportError:
        try:
            base = import_module("pytorch_lightning").Callback
        except ImportError:
            raise MissingDependencyError("the callback needs Lightning: pip install lightning.") from None

    class MonitorCallback(base):  # type: ignore[misc]
        """Samples the model after every `every`-th training step."""

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            monitor.step(*inputs(batch))

    return MonitorCallback()
