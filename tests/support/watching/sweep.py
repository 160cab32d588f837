"""Every architecture of transformers, watched: is what is shown what ran?

`verdict` compares a watched model with the same weights under eager attention. What ran is found without regard: a
dispatch mode sees each fused attention and each softmax of a product of two activations, and the module that was
running. Each of these calls must be in the record once, with these weights and their reductions, or be named as unseen.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten_with_path, tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

import regard
from support.watching.architecture_exceptions import REASONS
from support.watching.architecture_inputs import CannotFeed, feed
from support.watching.architectures import build, class_of, has_attention

NEW = 4  # tokens that are generated
KEPT = "received", "entropy", "pool", "top"
CLOSE = 2e-6  # of the largest score, but of 10 at least: so much may a weight differ, as float32 rounds scores
PACKAGE = str(Path(regard.__file__).parent)
FUSED = re.compile(
    r"aten\.(_?scaled_dot_product.*attention|_native_multi_head_attention|_transformer_encoder_layer_fwd|_flash_attention|_efficient_attention)"
)
SOFTMAX = re.compile(r"aten\.(_softmax|_safe_softmax|softmax)\b")  # in inference mode, operations are not taken apart
PRODUCT = re.compile(r"aten\.(mm|bmm|matmul|einsum|dot|mv|baddbmm|linear|addmm|addmv|convolution|conv[123]d)\b")


@dataclass
class Seen:
    """One attention that ran: in which module, and its weights where they are known."""

    module: str
    operation: str
    attention: bool  # whether its class is named so
    step: int  # how often the model, or a part of it, was called from outside before
    weights: Tensor | None = None
    close: float = 0.0  # how far other weights may be from them


class Detector(TorchDispatchMode):
    """Sees every attention that is computed, whoever computes it, but for regard itself."""

    def __init__(self, model: nn.Module, keep: bool = False):
        super().__init__()
        self.model, self.keep = model, keep
        self.found: list[Seen] = []
        self._running: list[tuple[str, str]] = []
        self._step = -1
        self._modules = dict(model.named_modules())
        self._logsumexp: dict[str, Tensor] = {}  # by module
        # What is computed from parameters alone, as in another dtype; and from a product of two other tensors.
        self._parameters, self._products = WeakIdKeyDictionary(), WeakIdKeyDictionary()

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
        attention = any(scores in self._products for scores in args[:1] if isinstance(scores, Tensor))
        self._follow(name, [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)], output)
        if name.startswith("aten.logsumexp") and self._running:
            self._logsumexp[self._running[-1][0]] = output
        if not name.startswith(("aten._", "aten.s")):
            return output
        fused, soft = FUSED.match(name), SOFTMAX.match(name)
        if (fused or soft) and not self._by_regard() and not self._unused(soft):
            where, kind = self._running[-1] if self._running else ("", type(self.model).__name__)
            named = bool(re.search("attention|attn", kind, re.IGNORECASE))
            if fused or attention:
                weights, scores = None, args[0]
                if soft and self.keep:
                    weights = self._weights(where, scores, output)
                elif self.keep and name.startswith("aten._scaled_dot_product_flash_attention_for_cpu"):
                    weights, scores = _fused_weights(*args, **(kwargs or {}))
                close = (
                    0.0
                    if weights is None
                    else CLOSE * max(10.0, _largest(scores[..., : weights.shape[-1]][weights > 0]))
                )
                self.found.append(Seen(where, name, named, self._step, weights, close))
        return output

    def _follow(self, name: str, inputs: list[Tensor], output: Any) -> None:
        """Keep what follows from a product of two activations, until a projection, and from parameters alone."""
        made = [x for x in tree_leaves(output) if isinstance(x, Tensor)]
        made += [x._base for x in made if x._base is not None]  # a part of it was written
        activations = [x for x in inputs if _is_number(x) and not self._of_parameters(x)]
        outer = name.startswith("aten.mul.") and made[0].numel() > max(x.numel() for x in inputs)
        if PRODUCT.match(name) or outer:
            kind = self._products if len(activations) > 1 else None
        elif any(x in self._products for x in inputs):
            kind = self._products
        else:
            kind = self._parameters if inputs and all(self._of_parameters(x) for x in inputs) else None
        if kind is not None:
            kind.update((x, True) for x in made)

    def _of_parameters(self, tensor: Tensor) -> bool:
        return any(
            isinstance(x, nn.Parameter) or x in self._parameters for x in (tensor, tensor._base) if x is not None
        )

    def _weights(self, where: str, scores: Tensor, softmax: Tensor) -> Tensor:
        """The weights of keys, less what a sink takes, which is a logit of its own.

        Models append the sink to the scores, or scale afterwards by the share that the scores have beside it.
        """
        weights = _of_seen_keys(scores, softmax.detach())
        logsumexp, sinks = self._logsumexp.pop(where, None), getattr(self._modules[where], "sinks", None)
        if sinks is None:
            return weights
        return weights[..., :-1] if logsumexp is None else weights * (logsumexp - sinks[:, None]).sigmoid()[..., None]

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
            if path.startswith(PACKAGE) and frame.f_code.co_name != "__torch_function__":  # that passes all calls on
                return True
            if path.endswith("torch/nn/modules/module.py") and frame.f_code.co_name == "_call_impl":
                return False
            frame = frame.f_back
        return False


def _is_number(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _fused_weights(
    query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What a fused kernel does not return, and the scores: some models call it even under eager attention."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)  # heads may share their keys
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    scores = scores if attn_mask is None else scores + attn_mask
    return _of_seen_keys(scores, scores.softmax(-1)), scores


def _of_seen_keys(scores: Tensor, softmax: Tensor) -> Tensor:
    """The weights, which are 0 of a query that sees no key."""
    return torch.where(scores.amax(-1, keepdim=True) > torch.finfo(scores.dtype).min / 2, softmax, 0.0)


class Outcome(NamedTuple):
    """What came of one call: in words, what was named as unseen, and of how many attentions how many were compared."""

    told: str
    unseen: tuple[str, ...] = ()
    compared: int = 0
    ran: int = 0


@dataclass
class Verdict:
    """What became of one architecture."""

    model_type: str
    name: str
    forward: str
    generation: str = ""
    unseen: tuple[str, ...] = ()
    compared: int = 0  # in forward and generation
    ran: int = 0


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
        result.forward, result.unseen, result.compared, result.ran = _forward(plain, watched, inputs)
        if result.forward.startswith("equal") and getattr(plain, "can_generate", lambda: False)():
            generation = _generation(plain, watched, inputs, "to SDPA" not in result.forward)
            result.generation = generation.told
            result.unseen = tuple(dict.fromkeys((*result.unseen, *generation.unseen)))
            result.compared, result.ran = result.compared + generation.compared, result.ran + generation.ran
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


def _forward(plain: nn.Module, watched: nn.Module, inputs: dict[str, Any]) -> Outcome:
    def call(model: nn.Module) -> Any:
        torch.manual_seed(3)
        with torch.no_grad():
            return model(**copy.deepcopy(inputs))  # the state of a video may be among them

    real = inputs.get("attention_mask")
    expected, reference = _detected(plain, call)
    found = _watch(watched, call, lambda output: compare(expected, output, inputs), reference, real)
    if found.told.startswith("wrong"):
        by_sdpa, reference = _detected(watched, call)
        if any(compare(expected, by_sdpa, inputs)):  # a few models give other numbers with SDPA than with eager
            other = _watch(watched, call, lambda output: compare(by_sdpa, output, inputs), reference, real)
            found = other._replace(told=other.told.replace("equal", "equal, to SDPA and not to eager", 1))
    if not reference and not found.told.startswith("wrong"):
        return Outcome("no attention")
    return found


def _generation(plain: nn.Module, watched: nn.Module, inputs: dict[str, Any], eager: bool = True) -> Outcome:
    """A few tokens, and the record against the weights of each step under eager attention."""
    prompt = {name: value for name, value in inputs.items() if name not in ("use_cache", "decoder_input_ids")}
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "num_beams": 1, "pad_token_id": 0}
    plain = plain if eager else watched
    if getattr(plain.config, "is_encoder_decoder", False):
        options["decoder_start_token_id"] = 1

    def call(model: nn.Module) -> Any:
        torch.manual_seed(4)
        with torch.no_grad():
            return model.generate(**prompt, **options)

    try:
        expected, reference = _detected(plain, call)
    except Exception as error:
        return Outcome(f"not tried: {_short(error)}")
    found = _watch(
        watched,
        call,
        lambda output: () if _same(output, expected) else ("other tokens",),
        reference,
        inputs.get("attention_mask"),
    )
    if eager and "other tokens" in found.told and not _same(expected, call(watched)):
        # So do they without regard: a choice between two tokens may hang on the last digit.
        found = _generation(plain, watched, inputs, eager=False)
        found = found._replace(told=found.told.replace("equal", "equal, to SDPA and not to eager", 1))
    return found


def _detected(model: nn.Module, call: Callable[[nn.Module], Any]) -> tuple[Any, list[Seen]]:
    """What a model returns that is not watched, and every attention that it computes."""
    with Detector(model, keep=True) as detector:
        return call(model), detector.found


def _same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_tokens(one), _tokens(other), strict=True))


def _tokens(output: Any) -> list[Tensor]:
    return [
        leaf
        for leaf in tree_leaves(dict(output) if hasattr(output, "to_tuple") else output)
        if isinstance(leaf, Tensor)
    ]


def _watch(
    model: nn.Module, call: Callable[[nn.Module], Any], differences: Any, reference: Sequence[Seen], real: Tensor | None
) -> Outcome:
    """Watch the call, once with its matrices and once with their reductions, and compare with what ran unwatched."""
    ran: list[bool] = []
    hook = model.register_forward_hook(lambda *_: ran.append(True))
    wrong, compared, told = [], 0, ""
    try:
        for keep in ("matrix", KEPT):
            with regard.watch(model, keep=keep) as record, Detector(model) as detector:
                output = call(model)
            unseen = record.unseen
            different, compared = compare_weights(reference, record, real)
            wrong += [*differences(output), *different]
            if silent := {seen.module for seen in detector.found if not _covered(seen, unseen)}:
                wrong.append("silent about " + ", ".join(brief(silent)))
            told = f" in {len(record.passes)} passes" if len(record.passes) > 1 else ""
    except regard.RegardError as error:
        return Outcome(f"{'refused after it ran' if ran else 'refused'}: {_short(error)}")
    except Exception as error:
        return Outcome(f"wrong: crashes when watched, {type(error).__name__}: {_short(error)}")
    finally:
        hook.remove()
    told = f"wrong: {'; '.join(wrong[:3])}" if wrong else f"equal{told}"
    told += f", but unseen: {', '.join(brief(unseen))}" if unseen and not wrong else ""
    return Outcome(told, unseen, compared, len(reference))


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
    if not any(torch.isfinite(want).any() for want in a.values()):
        yield "no output has a number"
    for name, want in a.items():
        if name not in b or b[name].shape != want.shape:
            yield f"{name}: {'missing' if name not in b else 'another shape'}"
            continue
        got = b[name]
        if real is not None and want.dim() >= 2 and want.shape[:2] == real.shape:
            got, want = got[real.bool()], want[real.bool()]
        scale = _largest(want)
        if not torch.allclose(got, want, rtol=0.0, atol=1e-4 * scale, equal_nan=True):
            yield f"{name} differs by {float((got - want).abs().max()):.1e} of {scale:.1e}"


def _largest(numbers: Tensor) -> float:
    finite = numbers[torch.isfinite(numbers)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def compare_weights(reference: Sequence[Seen], record: Any, real: Tensor | None = None) -> tuple[list[str], int]:
    """What differs between a record and the attentions that ran, and how many of these are in the record.

    An entry is compared with the softmaxes of the module of the same name, step by step; each of them counts once.
    Queries that are padding are left out: what they look at is defined by nobody. The model's mask tells, or the first
    attention of tokens to themselves, or this one where the mask has another length: nobody looks at padding.
    """
    square = [seen.weights for seen in reference if seen.weights is not None and seen.weights.dim() == 4]
    square = [weights for weights in square if weights.shape[2] == weights.shape[3]]
    if real is None and square:
        real = square[0].sum((1, 2)) > 0
    ran: dict[str, dict[int, list[Seen]]] = {}  # by module and step
    for seen in reference:
        ran.setdefault(seen.module, {}).setdefault(seen.step, []).append(seen)
    wrong, left = [], {id(seen): seen for seen in reference}
    for name, entry in ((name, entry) for one in record.passes for name, entry in one.items()):
        module, _, number = name.partition("#")
        steps, close = [], 0.0
        for calls in ran.get(module, {}).values():
            done = sum(step.shape[2] for step in steps)
            calls = _parts(calls, int(number or 0), entry.shape)
            if done < entry.shape[2] and calls and all(id(seen) in left for seen in calls):
                steps.append(_in_text(_joined(calls, entry.shape), entry.shape, done))
                close = max(close, *(left.pop(id(seen)).close for seen in calls))
        want = torch.cat(steps, 2) if steps else None
        if want is None or tuple(want.shape) != entry.shape:
            wrong.append(f"{name}: {entry.shape} recorded, but {want if want is None else tuple(want.shape)} computed")
            continue
        rows = torch.ones(want.shape[0], want.shape[2], dtype=torch.bool)
        if real is not None and real.shape == (want.shape[0], steps[0].shape[2]):
            rows[:, : real.shape[1]] = real.bool()
        elif len(steps) == 1 and want.shape[2] == want.shape[3]:  # the model added tokens, or left some out, by itself
            rows = want.sum((1, 2)) > 0
        wrong += [f"{name}: {difference}" for difference in _differences(entry, want, rows, close)]
    if missing := {seen.module for seen in left.values() if not _covered(seen, record.unseen)}:
        wrong.append("not in the record: " + ", ".join(brief(missing)))
    return wrong, len(reference) - len(left)


def _parts(calls: list[Seen], number: int, shape: tuple[int, ...]) -> list[Seen]:
    """A call of a module in one step; all of them where the entry is a row of parts that were computed one by one."""
    calls = [seen for seen in calls if seen.weights is not None]
    if number == 0 and len(calls) > 1 and sum(seen.weights.shape[-1] for seen in calls) == shape[3]:
        return calls
    return calls[number : number + 1]


def _joined(calls: list[Seen], shape: tuple[int, ...]) -> Tensor:
    """The weights of these calls as one matrix: (batch, heads, queries, keys)."""
    weights = calls[0].weights
    if len(calls) > 1:
        return torch.stack([torch.block_diag(*(seen.weights[0, head] for seen in calls)) for head in range(shape[1])])[
            None
        ]
    if weights.numel() == math.prod(shape):
        return weights.reshape(shape)
    # torch's kernel takes the heads that share keys for queries, where there is one query.
    return weights if weights.shape[:2] == shape[:2] else weights.reshape(*shape[:2], -1, weights.shape[-1])


def _in_text(weights: Tensor, shape: tuple[int, ...], first: int) -> Tensor:
    """In keys of the whole text: some left the cache before this step, others came later."""
    keys = weights.shape[3]
    if keys < shape[3]:
        before = max(first + weights.shape[2] - keys, 0)
        return torch.nn.functional.pad(weights, (before, shape[3] - keys - before))
    return weights if weights[..., shape[3] :].any() else weights[..., : shape[3]]


def _differences(entry: Any, want: Tensor, rows: Tensor, close: float) -> Iterator[str]:
    """An entry against the weights that ran: all of them, if it has them, and their reductions, of these rows.

    What is summed over queries is compared in the sequences that have these rows only.
    """
    queries, keys = want.shape[2:]
    if "matrix" in entry.keeps:
        yield from _differ("weights", entry.to_dense(), want, close, rows)
        ends = [[i * n // min(3, n) for i in range(min(3, n) + 1)] for n in (queries, keys)]
        pool = entry.pool(3, 3)
    else:
        sizes = [2 ** max(math.ceil(math.log2(n / 256)), 0) for n in (queries, keys)]
        ends = [[*range(0, n, size), n] for n, size in zip((queries, keys), sizes, strict=True)]
        pool = entry.pool()
    bins = want
    for axis in (2, 3):
        bins = torch.stack(
            [bins.narrow(axis, a, b - a).mean(axis) for a, b in itertools.pairwise(ends[axis - 2])], axis
        )
    whole = rows.all(1)
    yield from _differ("pool", pool[whole], bins[whole], close)
    yield from _differ("received", entry.received()[whole], want.sum(2)[whole], close * queries)
    yield from _differ("entropy", entry.entropy(), torch.special.entr(want).sum(3), 10 * close, rows)
    top = entry.top(min(3, keys))
    named = want.gather(3, top.keys.clamp(0)).where(top.keys >= 0, 0.0)
    yield from _differ("top", top.weights, want.topk(min(3, keys)).values, close, rows)
    yield from _differ("keys of top", top.weights, named, close, rows)


def _differ(what: str, got: Tensor, want: Tensor, tolerance: float, rows: Tensor | None = None) -> Iterator[str]:
    if got.shape != want.shape:
        yield f"{what} of {tuple(got.shape)} instead of {tuple(want.shape)}"
        return
    if rows is not None:
        got, want = got.movedim(2, 1)[rows], want.movedim(2, 1)[rows]
    if got.numel() and not float((got - want).abs().max()) <= tolerance:
        yield f"{what} differ by {float((got - want).abs().max()):.1e}"
