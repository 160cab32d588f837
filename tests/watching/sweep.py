"""Every architecture of transformers, watched: is what is shown what ran?

`verdict` compares a watched model with the same weights under eager attention. What ran is found without regard: a
dispatch mode sees each softmax and each fused attention, and the module that was running.
"""

from __future__ import annotations

import contextlib
import copy
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from architecture_exceptions import REASONS
from architecture_inputs import CannotFeed, feed
from architectures import build, class_of, has_attention
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten_with_path, tree_leaves

import regard

NEW = 4  # tokens that are generated
PACKAGE = str(Path(regard.__file__).parent)
FUSED = re.compile(
    r"aten\.(_?scaled_dot_product.*attention|_native_multi_head_attention|_transformer_encoder_layer_fwd|_flash_attention|_efficient_attention)"
)
SOFTMAX = re.compile(r"aten\.(_softmax|_safe_softmax|softmax)\b")  # in inference mode, operations are not taken apart
# Softmaxes that are no attention, by the name or the class of the module that computes them.
NOT_ATTENTION = re.compile(
    r"router|gate$|gating|expert|moe|lm_head|classif|quantiz|vector_quant|pooler$|codebook|hyper_?connection|patcher|Ovis2VisionModel|RecHead$|CTCEncoder",
    re.IGNORECASE,
)


@dataclass
class Seen:
    """One attention that ran: in which module, and its weights where they are known."""

    module: str
    operation: str
    attention: bool  # whether its class is named so
    step: int  # how often the model, or a part of it, was called from outside before
    weights: Tensor | None = None


class Detector(TorchDispatchMode):
    """Sees every attention that is computed, whoever computes it, but for regard itself."""

    def __init__(self, model: nn.Module, keep: bool = False):
        super().__init__()
        self.model, self.keep = model, keep
        self.found: list[Seen] = []
        self._running: list[tuple[str, str]] = []
        self._step = -1
        configs = [module.config for module in model.modules() if hasattr(module, "config")]
        self._vocabularies = {getattr(config, "vocab_size", None) for config in configs}

    def __enter__(self) -> Detector:
        self._hooks = []
        for name, module in self.model.named_modules():
            self._hooks.append(module.register_forward_pre_hook(self._enters(name, type(module).__name__)))
            self._hooks.append(module.register_forward_hook(self._leaves, always_call=True))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for hook in self._hooks:
            hook.remove()

    def _enters(self, name: str, kind: str) -> Any:
        def enter(*_: Any) -> None:
            self._step += not self._running
            self._running.append((name, kind))

        return enter

    def _leaves(self, *_: Any) -> None:
        self._running.pop()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        name = str(function)
        if not name.startswith(("aten._", "aten.s")):
            return output
        fused, soft = FUSED.match(name), SOFTMAX.match(name)
        if (fused or soft) and not self._by_regard() and not self._unused(soft):
            where, kind = self._running[-1] if self._running else ("", type(self.model).__name__)
            named = bool(re.search("attention|attn", kind, re.IGNORECASE))
            if fused or named or self._is_attention(where, kind, *args[:2]):
                weights = output.detach().clone() if soft and self.keep else None
                if self.keep and name.startswith("aten._scaled_dot_product_flash_attention_for_cpu"):
                    weights = _fused_weights(*args, **(kwargs or {}))
                self.found.append(Seen(where, name, named, self._step, weights))
        return output

    def _is_attention(self, where: str, kind: str, scores: Tensor, axis: int) -> bool:
        """Over keys, for several queries or heads; not a choice of experts, of words or of a codebook."""
        if scores.dim() < 3 or axis not in (-1, scores.dim() - 1) or scores.shape[-1] in self._vocabularies:
            return False
        return not (NOT_ATTENTION.search(where.rsplit(".", 1)[-1]) or NOT_ATTENTION.search(kind))

    def _unused(self, soft: Any) -> bool:
        """The vision model of SAM 2 computes a softmax between heads that nothing uses, then calls attention."""
        if not (soft and self._running and self._running[-1][1] == "Sam2MultiScaleAttention"):
            return False
        frame = sys._getframe(2)
        while "/transformers/" not in frame.f_code.co_filename:
            frame = frame.f_back
        return frame.f_code.co_name == "forward"

    @staticmethod
    def _by_regard() -> bool:
        """Whether regard computes this, called by the innermost running module."""
        frame = sys._getframe(2)
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(PACKAGE):
                return True
            if path.endswith("torch/nn/modules/module.py") and frame.f_code.co_name == "_call_impl":
                return False
            frame = frame.f_back
        return False


def _fused_weights(
    query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """What a fused kernel does not return: some models call it even under eager attention."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)  # heads may share their keys
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return (scores if attn_mask is None else scores + attn_mask).softmax(-1)


@dataclass
class Verdict:
    """What became of one architecture."""

    model_type: str
    name: str
    forward: str
    generation: str = ""
    unseen: tuple[str, ...] = ()


def verdict(model_type: str) -> Verdict:
    """Build, feed, run eager and watched, and compare."""
    result = Verdict(model_type, class_of(model_type), "")
    try:
        plain = build(model_type, "eager")
        watched = build(model_type)
        watched.load_state_dict(plain.state_dict())  # buffers may be random too
        inputs = feed(plain, model_type)
    except Exception as error:
        result.forward = f"not tried: {_reason(model_type, error)}"
        with contextlib.suppress(AttributeError, ImportError, KeyError):
            result.forward = result.forward if has_attention(model_type) else "no attention"
        return result
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result.forward, result.unseen = _forward(plain, watched, inputs)
        if result.forward.startswith("equal") and getattr(plain, "can_generate", lambda: False)():
            result.generation, unseen = _generation(plain, watched, inputs, "to SDPA" not in result.forward)
            result.unseen = tuple(dict.fromkeys((*result.unseen, *unseen)))
    return result


def _reason(model_type: str, error: Exception) -> str:
    """Why a model was not built: what is missing, or which of the rules for sizes and inputs does not do."""
    if model_type in REASONS:
        return REASONS[model_type]
    missing = re.search(r"requires the (\w+) library|No module named '(\w+)'", str(error))
    if missing:
        return f"needs {missing[1] or missing[2]}"
    if getattr(transformers, class_of(model_type)).forward is nn.Module.forward:
        return "has no forward of its own"
    return "no inputs found" if isinstance(error, CannotFeed) else "no small config found"


def _short(error: Any) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


def _forward(plain: nn.Module, watched: nn.Module, inputs: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    torch.manual_seed(3)
    with torch.no_grad(), Detector(plain, keep=True) as reference:
        expected = plain(**copy.deepcopy(inputs))  # the state of a video may be among them
    torch.manual_seed(3)
    with torch.no_grad():
        unwatched = watched(**copy.deepcopy(inputs))

    def differences(output: Any, record: Any) -> Iterator[str]:
        yield from compare(expected, output, inputs)
        yield from compare_weights(reference.found, record, inputs.get("attention_mask"))

    found, unseen = _watch(watched, lambda: watched(**copy.deepcopy(inputs)), differences)
    if found.startswith("wrong") and any(compare(expected, unwatched, inputs)):
        # A few models give other numbers with SDPA than with eager; then watching must not change what they give.
        found, unseen = _watch(
            watched, lambda: watched(**copy.deepcopy(inputs)), lambda output, _: compare(unwatched, output, inputs)
        )
        found = found.replace("equal", "equal to SDPA, not to eager", 1)
    if not reference.found and not found.startswith("wrong"):
        return "no attention", ()
    return found, unseen


def _generation(
    plain: nn.Module, watched: nn.Module, inputs: dict[str, Any], eager: bool
) -> tuple[str, tuple[str, ...]]:
    """A few tokens, and the record against the weights of each step under eager attention."""
    prompt = {name: value for name, value in inputs.items() if name not in ("use_cache", "decoder_input_ids")}
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "num_beams": 1, "pad_token_id": 0}
    plain = plain if eager else watched
    if getattr(plain.config, "is_encoder_decoder", False):
        options["decoder_start_token_id"] = 1
    try:
        with Detector(plain, keep=True) as reference:
            expected = _generated(plain, prompt, options)
    except Exception as error:
        return f"not tried: {_short(error)}", ()

    def differences(output: Any, record: Any) -> Iterator[str]:
        if not _same(output, expected):
            yield "other tokens"
        elif eager:
            yield from compare_weights(reference.found, record, inputs.get("attention_mask"))

    found, unseen = _watch(watched, lambda: watched.generate(**prompt, **options), differences, seed=4)
    if eager and "other tokens" in found and not _same(expected, _generated(watched, prompt, options)):
        # So do they without regard: a choice between two tokens may hang on the last digit.
        found, unseen = _generation(plain, watched, inputs, eager=False)
        found = found.replace("equal", "equal to SDPA, not to eager", 1)
    return found, unseen


def _generated(model: nn.Module, prompt: dict[str, Any], options: dict[str, Any]) -> Any:
    torch.manual_seed(4)
    with torch.no_grad():
        return model.generate(**prompt, **options)


def _same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_tokens(one), _tokens(other), strict=True))


def _tokens(output: Any) -> list[Tensor]:
    return [
        leaf
        for leaf in tree_leaves(dict(output) if hasattr(output, "to_tuple") else output)
        if isinstance(leaf, Tensor)
    ]


def _watch(model: nn.Module, call: Any, differences: Any, seed: int = 3) -> tuple[str, tuple[str, ...]]:
    """Run the call while the model is watched; what is wrong, and what was named as unseen."""
    ran = []
    hook = model.register_forward_hook(lambda *_: ran.append(True))
    try:
        torch.manual_seed(seed)
        with torch.no_grad(), regard.watch(model) as record, Detector(model) as detector:
            output = call()
    except regard.RegardError as error:
        return f"{'refused after it ran' if ran else 'refused'}: {_short(error)}", ()
    except Exception as error:
        return f"wrong: crashes when watched, {type(error).__name__}: {_short(error)}", ()
    finally:
        hook.remove()
    wrong, unseen = [*differences(output, record)][:3], tuple(getattr(record, "unseen", ()))
    if silent := {seen.module for seen in detector.found if not _covered(seen, unseen)}:
        wrong.append("silent about " + ", ".join(brief(silent)))
    if wrong:
        return "wrong: " + "; ".join(wrong), unseen
    passes = f" in {len(record.passes)} passes" if len(record.passes) > 1 else ""
    return f"equal{passes}" + (f", but unseen: {', '.join(brief(unseen))}" if unseen else ""), unseen


def brief(names: Any) -> list[str]:
    """Names of modules with the numbers of their layers left out."""
    return sorted({re.sub(r"\.\d+(?=\.|$)", ".*", name) or "(itself)" for name in names})


def _covered(seen: Seen, names: tuple[str, ...]) -> bool:
    """Whether a name is of the module or of one around it; or of an attention in it, which is the innermost."""
    around = any(name == "" or f"{seen.module}.".startswith(f"{name}.") for name in names)
    return around or (seen.attention and any(name.startswith(f"{seen.module}.") for name in names))


def tensors(output: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of numbers in an output, by its path."""
    if hasattr(output, "to_tuple"):
        output = dict(output)
    for path, leaf in tree_flatten_with_path(output)[0]:
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            yield "".join(str(part) for part in path), leaf


def compare(expected: Any, output: Any, inputs: dict[str, Any]) -> Iterator[str]:
    """What differs between two outputs, at positions that are not padding."""
    a, b = dict(tensors(expected)), dict(tensors(output))
    a = {name: x for name, x in a.items() if "past_key_values" not in name and "attentions" not in name}
    real = inputs.get("attention_mask")
    for name, want in a.items():
        if name not in b or b[name].shape != want.shape:
            yield f"{name}: {'missing' if name not in b else 'another shape'}"
            continue
        got = b[name]
        if real is not None and want.dim() >= 2 and want.shape[:2] == real.shape:
            got, want = got[real.bool()], want[real.bool()]
        if not torch.isfinite(want).any() and torch.isfinite(got).any():
            yield f"{name} is not finite"
            continue
        scale = _largest(want)
        difference = (got - want).nan_to_num(0.0 if torch.equal(got.isnan(), want.isnan()) else 9.9, 0.0, 0.0).abs()
        if difference.numel() and float(difference.max()) > 1e-5 * scale:
            yield f"{name} differs by {float(difference.max()):.1e} of {scale:.1e}"


def _largest(numbers: Tensor) -> float:
    finite = numbers[torch.isfinite(numbers)]
    return max(1.0, float(finite.abs().max())) if finite.numel() else 1.0


def compare_weights(reference: list[Seen], record: Any, real: Tensor | None = None) -> Iterator[str]:
    """Recorded weights against the softmaxes of the module of the same name under eager attention, step by step."""
    ran: dict[str, dict[int, list[Tensor]]] = {}  # by module and step
    for seen in reference:
        if seen.weights is not None:
            ran.setdefault(seen.module, {}).setdefault(seen.step, []).append(seen.weights)
    taken: dict[str, int] = {}  # by entry: steps of it that an earlier pass had
    for one in record.passes:
        for name, entry in one.items():
            module, _, number = name.partition("#")
            steps = [_nth(calls, int(number or 0), entry) for calls in ran.get(module, {}).values()]
            steps = [step for step in steps if step is not None]
            steps = steps[taken.get(name, 0) :]
            got, rows = entry.to_dense(), 0
            if not steps:
                yield f"{name} is recorded, but computed no softmax under eager"
            while steps and rows < got.shape[2]:
                want, taken[name] = steps.pop(0), taken.get(name, 0) + 1
                queries = want.shape[-2] if want.dim() == 4 else got.shape[2]
                yield from _differ(name, got[:, :, rows : rows + queries], want, rows + queries, real)
                rows += queries


def _nth(calls: list[Tensor], number: int, entry: Any) -> Tensor | None:
    """A call of a module in one step; all of them where the entry is a row of parts that were computed one by one."""
    parts = sum(call.shape[-1] for call in calls) == entry.shape[3] and len(calls) > 1
    if parts and number == 0 and calls[0].dim() == 4:
        heads = [torch.block_diag(*(call[0, head] for call in calls)) for head in range(entry.shape[1])]
        return torch.stack(heads)[None]
    return calls[number] if len(calls) > number else None


def _differ(name: str, got: Tensor, want: Tensor, end: int, real: Tensor | None) -> Iterator[str]:
    """Rows that end at a place of the text, and the weights of the step that computed them."""
    if want.numel() == got.numel():
        want = want.reshape(got.shape)
    if want.dim() != 4 or want.shape[:3] != got.shape[:3]:
        yield f"{name}: weights {tuple(got.shape)} instead of {tuple(want.shape)}"
        return
    rows = slice(None) if real is None or real.shape != (got.shape[0], got.shape[2]) else real.bool()
    differences = []
    for sinks in (0, 1):  # a sink is a column of its own
        aligned = _aligned(want[..., : want.shape[3] - sinks].nan_to_num(0.0), end, got.shape[3])
        a, b = got.movedim(1, 2)[rows], aligned.movedim(1, 2)[rows]
        differences += (
            [float((a - b).abs().max()), float((a - b * a.sum(-1, keepdim=True)).abs().max())] if a.numel() else [0.0]
        )
    # The last one is of a sink that is applied after the softmax.
    if not min(differences) <= 2e-5:
        yield f"{name}: weights differ by {differences[0]:.1e}"


def _aligned(weights: Tensor, end: int, keys: int) -> Tensor:
    """In keys of the whole text: some left the cache before this step, others came later."""
    if weights.shape[3] < keys:
        weights = torch.nn.functional.pad(weights, (max(end - weights.shape[3], 0), 0))
        weights = torch.nn.functional.pad(weights, (0, max(keys - weights.shape[3], 0)))
    return weights[..., :keys]


if __name__ == "__main__":
    import time

    from architectures import model_types

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for one in sys.argv[1:] or model_types():
        start = time.perf_counter()
        found = verdict(one)
        print(
            f"{found.model_type}\t{found.name}\t{time.perf_counter() - start:.1f}\t{found.forward}\t{found.generation}",
            flush=True,
        )
