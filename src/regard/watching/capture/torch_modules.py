"""regard's own layers, whose `attend` is replaced, and modules with code of their own, in which nothing is replaced.

While a module with code of its own runs, a mode of torch (`torch.overrides.TorchFunctionMode`) receives every call,
however its function was imported. `scaled_dot_product_attention`, `multi_head_attention_forward`, `regard.attention`
and `A @ v` compute what they did before, and the watchers of the running module observe them. While the mode is active,
torch does not take its fast path, which runs whole layers in C++.

Attention by hand, a softmax over the product of two activations, is only named. `Products.see` notes each product of
two tensors of which neither is a weight, and what is computed from it: scaled, masked, cut, joined. A note lives as
long as its tensor. A softmax of a noted tensor is attention; a router or a language model's head takes its softmax of a
product with a weight. A sum of exponentials, or the exponential of a log-softmax, is a softmax too. An operator whose
name says attention computes it in a single step. A product with weights read from a matrix is attention, too.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import sep
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from regard.errors import WatchError
from regard.matrix import AttentionMatrix, LazyMatrix, attention
from regard.scores import HIDING, Atom, Band, Dense, Mask, as_mask
from regard.watching.capture import calls
from regard.watching.capture.calls import AttentionCall, Watchers
from regard.watching.capture.masks import Bounds, Pattern, looks_causal

_PACKAGE = Path(__file__).parents[2]  # regard
_KINDS = ("encoder", "decoder", "cross")


class _Mode(TorchFunctionMode):
    """Receives every call of torch and of `regard.attention` in one thread."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.heads: _Heads | None = None  # of a running multi_head_attention_forward
        self._products = Products()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function; if it computes attention, the watchers of the running module learn of it."""
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        role = role_of(function)
        if role is None and (see := _ATTENTION.get(function)) is not None:
            return see(self, sys._getframe(1), function, *args, **kwargs)
        output, products = function(*args, **kwargs), self._products
        if self.heads is None and (role in SEEN or products.follows or type(args[0] if args else None) is nn.Parameter):
            frame = sys._getframe(1)
            if role == "kernel" or products.see(role, args, kwargs, output, lambda: next(_innermost(frame), None)):
                _name_unseen(frame)
        return output


class _Thread(threading.local):
    @functools.cached_property
    def mode(self) -> _Mode:
        return _Mode()


_thread = _Thread()


def begin(*_: Any) -> None:
    """Note that a module with code of its own begins to run in this thread."""
    mode = _thread.mode
    mode.depth += 1
    if mode.depth == 1:
        _push_mode(mode)  # type: ignore[no-untyped-call]


def end(*_: Any) -> None:
    """Note that the module has ended."""
    mode, others = _thread.mode, []
    mode.depth -= 1
    if mode.depth == 0:
        while (top := _pop_mode()) is not mode:  # type: ignore[no-untyped-call]  # a mode that the module did not leave
            others.append(top)
        for other in reversed(others):
            _push_mode(other)  # type: ignore[no-untyped-call]


@contextmanager
def unwinding() -> Iterator[None]:
    """End, on leaving, the modules that an interrupt has ended without their hooks."""
    before = _thread.mode.depth
    try:
        yield
    finally:
        while _thread.mode.depth > before:
            end()


def _running(frame: FrameType | None) -> Iterator[nn.Module]:
    """Yield the running modules, the innermost first.

    The stack tells them without a hook on every module: torch calls each module in `_call_impl`.
    """
    while frame is not None:
        if frame.f_code is nn.Module._call_impl.__code__:
            yield frame.f_locals["self"]
        frame = frame.f_back


def _watched(frame: FrameType | None, hidden: Path = _PACKAGE) -> tuple[nn.Module | None, Watchers]:
    """Return the innermost running module that is watched, and its watchers; none where regard computes by itself."""
    caller = frame
    while caller is not None and caller.f_code is not nn.Module._call_impl.__code__:
        path = caller.f_code.co_filename  # the layers of regard/nn call what the user gave them: they are not hidden
        if path.startswith(f"{hidden}{sep}") and not path.startswith(f"{_PACKAGE / 'nn'}{sep}"):
            return None, []
        caller = caller.f_back
    for module in _running(caller):
        if watchers := calls.watchers_of(module):
            return module, watchers
    return None, []


def _innermost(frame: FrameType) -> Iterator[nn.Module]:
    """Yield the running modules with code of their own, the innermost first: an `nn.Softmax` is a step of a module."""
    return (module for module in _running(frame) if not type(module).__module__.startswith("torch.nn."))


def _name_unseen(frame: FrameType) -> None:
    """Tell the watchers of the innermost module with code of its own that its attention cannot be recorded."""
    _, watchers = _watched(frame)
    if watchers:
        watchers = next(filter(None, map(calls.watchers_of, _innermost(frame))), watchers)
    calls.name_unseen(watchers)


# Calls of `regard.attention` and of `A @ value`


class WatchedAttend:
    """Replaces `attend` in one of regard's layers while it is watched."""

    def __init__(self, module: nn.Module, name: str, original: Callable[..., Tensor]):
        self._module, self._name, self.original = module, name, original

    def __deepcopy__(self, _: Any) -> Callable[..., Tensor]:
        return self.original  # a copy is not watched

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, *, dropout: float = 0.0, **options: Any) -> Tensor:
        """Compute what `attend` returns, without the links and heads that the watchers leave out."""
        watchers, axes = calls.watchers_of(self._module), query.dim()
        if axes > 4 or value.dim() > axes:  # several axes of batches, or several values
            output = self.original(query, key, value, dropout=dropout, **options)
            calls.name_unseen(watchers)
            return output
        mask = as_mask(options.pop("mask", None))
        query, key, value = (t[(None,) * (4 - axes)] if t.dim() == axes else t for t in (query, key, value))
        kind = _kind(self._module, self._name, query, key, mask)
        call = _our_call(kind, query, key, mask, **options)
        output, _ = calls.attend(watchers, call, value, lambda: call.attend(value, dropout), dropout)
        return output[(0,) * (4 - axes)]


def _of_regard(mode: _Mode, frame: FrameType, function: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    """Call `regard.attention` for code that is not regard's."""
    module, watchers = _watched(frame, _PACKAGE / "watching")
    if module is not None:
        function = WatchedAttend(module, watchers[0][1], function)
    return function(*args, **options)


def _of_a_matrix(
    mode: _Mode, frame: FrameType, function: Callable[..., Tensor], matrix: AttentionMatrix, value: Tensor,
    *options: Any,
) -> Tensor:  # fmt: skip
    """Compute `A @ value` for code that is not regard's."""
    module, watchers = _watched(frame, _PACKAGE / "watching")
    core, axes = matrix._core, len(matrix.shape)
    is_part = matrix._whole is not None or not core.has_all_keys
    if module is None or axes > 4 or value.dim() > axes or is_part:
        output = function(matrix, value, *options)
        calls.name_unseen(watchers)
        return output
    query, key, mask, scores = core.scores.query, core.scores.key, matrix._mask, core.scores
    kind = _kind(module, watchers[0][1], query, key, mask)
    call = _our_call(kind, query, key, mask, scores.sinks, scale=scores.scale, softcap=scores.softcap)
    with_axes = value[(None,) * (4 - axes)] if value.dim() == axes else value

    def compute() -> tuple[Tensor, AttentionMatrix]:
        output = function(matrix, value, *options)
        return output[(None,) * (4 - axes)], call.matrix() if axes < 4 else matrix

    output, _ = calls.attend(watchers, call, with_axes, compute)
    return output[(0,) * (4 - axes)]


def _of_weights(mode: _Mode, frame: FrameType, function: Callable[..., Tensor], *args: Any) -> Tensor:
    """Read weights of a matrix; a product with them is attention that only the code of the module knows."""
    weights = function(*args)
    mode._products.note(weights, _READ, None)
    return weights


def _kind(module: nn.Module, name: str, query: Tensor, key: Tensor, mask: Mask) -> str:
    """Return the kind of a module's attention: as the module says, or by its name, its mask and its lengths."""
    kind = getattr(module, "kind", None)
    if kind in _KINDS:
        return str(kind)
    if any(isinstance(atom, Band) and atom.highest is not None for atom in mask.atoms):
        return "decoder"
    return "cross" if calls.names_another_sequence(name) or query.shape[2] != key.shape[2] else "encoder"


def _our_call(
    kind: str, query: Tensor, key: Tensor, mask: Mask, sinks: Tensor | float | None = None, **options: Any
) -> AttentionCall:
    """Return a call of `regard.attention` with a batch and a head axis, in positions of the whole text."""
    queries, keys = query.shape[2], key.shape[2]
    first = keys - queries if kind == "decoder" and keys > queries else 0  # the earlier keys come from a cache
    bands: list[Bounds] = []
    others: list[Atom] = []
    for atom in mask.atoms:
        if isinstance(atom, Band) and isinstance(atom.offset, int):
            shift = atom.offset - first
            bands.append(tuple(None if edge is None else edge + shift for edge in (atom.lowest, atom.highest)))  # type: ignore[arg-type]
        else:
            others.append(atom)
    if kind == "decoder" and queries == 1:  # a step needs no mask, but the matrix of all steps does
        bands.append((None, 0))
    sinks = sinks if sinks is None or isinstance(sinks, Tensor) else query.new_tensor(sinks)
    return AttentionCall(
        query, key, mask, sinks=sinks, kind=kind, queries=range(first, first + queries), keys=range(keys),
        pattern=Pattern(tuple(bands)), dense=Mask(tuple(others)), **options,
    )  # fmt: skip


# Calls of torch's functions


def _of_torch(
    mode: _Mode, frame: FrameType, function: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor,
    attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Call torch's function as the model does, and let the watchers of the running module observe the call."""
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    heads = mode.heads
    watchers = _watched(frame)[1] if heads is None else heads.watchers
    if not watchers:
        return function(query, key, value, attn_mask=attn_mask, **options)
    call = _call(watchers[0][1], query, key, attn_mask, is_causal, scale, heads)
    values = _value(value, call)
    outputs: list[Tensor] = []

    def compute() -> tuple[Tensor, None]:
        output = function(query, key, value, attn_mask=attn_mask, **options)
        outputs.append(output.reshape(*call.query.shape[:3], output.shape[-1]))
        return outputs[0], None

    observed, matrix = calls.attend(watchers, call, values, compute, dropout_p)
    if heads is not None:
        heads.matrix, heads.changed = matrix, not outputs or observed is not outputs[0]
    shape, other = query.shape[:-2], key.shape[:-2]
    if not enable_gqa and shape != other:
        shape = torch.broadcast_shapes(shape, other)  # type: ignore[no-untyped-call]
    return observed.reshape(*shape, *observed.shape[-2:])


def _of_multi_head(mode: _Mode, frame: FrameType, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function of `nn.MultiheadAttention`, and let the watchers observe the attention inside."""
    watchers = _watched(frame)[1]
    if not watchers:
        return function(*args, **kwargs)
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    inputs = bound.arguments
    heads = _Heads(watchers, inputs["query"], inputs["key"], inputs["attn_mask"], inputs["key_padding_mask"])
    if not inputs["need_weights"]:
        return heads.inside(mode, inputs)
    output, weights = function(*args, **kwargs)
    # To return the weights, the function multiplies matrices itself. A second call shows the queries and keys; it draws
    # no random numbers, so that dropout is what it was.
    again, _ = heads.inside(mode, inputs | {"need_weights": False, "is_causal": False, "training": False})
    if heads.matrix is not None and weights is not None:  # without the links
        dense = heads.matrix.to_dense()
        weights = (dense.mean(1) if inputs["average_attn_weights"] else dense).reshape(weights.shape)
    return (again if heads.changed else output), weights


_ATTENTION: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: _of_torch,
    functional.multi_head_attention_forward: _of_multi_head,
    attention: _of_regard,
    AttentionMatrix.attend: _of_a_matrix,
    LazyMatrix.__getitem__: _of_weights,
}
# The function's first line hands it to the mode, which is then inactive for what it calls: here that line says no.
_multi_head = FunctionType(
    functional.multi_head_attention_forward.__code__,
    vars(functional) | {"has_torch_function": lambda _: False},
    "multi_head_attention_forward",
    functional.multi_head_attention_forward.__defaults__,
)


@dataclass
class _Heads:
    """The arguments of `multi_head_attention_forward`, for the attention that it calls."""

    watchers: Watchers
    query: Tensor  # not projected yet
    key: Tensor
    attn_mask: Tensor | None
    key_padding_mask: Tensor | None
    changed: bool = False  # whether a watcher removed heads or links
    matrix: AttentionMatrix | None = None  # without the removed links; None where none were removed

    def masks(self, query: Tensor, keys: int) -> list[Tensor]:
        """Return the masks one by one: added up, as torch does, they are batch × heads × queries × keys numbers."""
        masks = []
        if (mask := self.attn_mask) is not None:
            masks.append(mask.view(*query.shape[:2], *mask.shape[1:]) if mask.dim() == 3 else mask)
        if (padding := self.key_padding_mask) is not None:
            masks.append(padding.reshape(-1, 1, 1, padding.shape[-1]))
        visible = [~mask if mask.dtype == torch.bool else mask for mask in masks]  # in torch's, True means hidden
        return [  # keys that add_bias_kv and add_zero_attn added are visible to all
            functional.pad(mask, (0, keys - mask.shape[-1]), value=mask.dtype == torch.bool)
            if mask.shape[-1] < keys
            else mask
            for mask in visible
        ]

    def reads_itself(self) -> bool:
        """Whether queries and keys belong to one text."""
        same = self.query is self.key
        return same or (self.query.shape == self.key.shape and torch.equal(self.query, self.key))

    def inside(self, mode: _Mode, inputs: dict[str, Any]) -> Any:
        """Call the function while the mode knows its arguments."""
        mode.heads = self
        try:
            with mode:
                return _multi_head(**inputs)
        finally:
            mode.heads = None


def _call(
    name: str, query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scale: float | None, heads: _Heads | None
) -> AttentionCall:
    """Return a call of torch's function as an `AttentionCall`, with a batch and a head axis."""
    calls.check_readable(query)
    query, key, mask = _with_heads(query, key, mask)
    query, key = calls.to_one_dtype(query, key)
    dense = [] if mask is None else [mask] if heads is None else heads.masks(query, key.shape[2])
    pattern, queries, keys = Pattern(((None, 0),) if causal else ()), range(query.shape[2]), range(key.shape[2])
    one_text = len(queries) == len(keys) if heads is None else heads.reads_itself() or "self" in name.split(".")[-1]
    if calls.names_another_sequence(name) or not one_text:
        kind = "cross"
    else:
        unmasked = heads is not None and re.search(r"(^|\.)decoder\.", name)  # the decoder of nn.Transformer
        kind = "decoder" if causal or unmasked or any(map(looks_causal, dense)) else "encoder"
    other = Mask(tuple(map(Dense, dense)))
    return AttentionCall(
        query, key, pattern.mask(queries, keys) & other, scale, None, None, kind, queries, keys, pattern, other
    )


def _with_heads(query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return (batch, heads, tokens, width); torch's function takes any number of axes before the tokens."""
    axes = max(query.dim(), key.dim())
    if axes < 4:  # one head
        query, key = (t.reshape(-1, 1, *t.shape[-2:]) for t in (query, key))
        mask = mask[:, None] if mask is not None and mask.dim() == 3 else mask
    elif axes > 4:
        batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3])  # type: ignore[no-untyped-call]
        query, key = (t.expand(*batch, *t.shape[-3:]).flatten(0, -4) for t in (query, key))
        if mask is not None and mask.dim() > 3:
            mask = mask.expand(*batch, *mask.shape[-3:]).flatten(0, -4)
    batch, heads = max(len(query), len(key)), query.shape[1] if query.shape[1] > 1 else key.shape[1]
    return query.expand(batch, heads, -1, -1), key.expand(batch, -1, -1, -1), mask


def _value(value: Tensor, call: AttentionCall) -> Tensor:
    """Return the values of a call with a batch and a head axis."""
    value, _, _ = _with_heads(value, value, None)
    batch, heads, _, _ = call.key.shape
    return value.expand(batch, heads if value.shape[1] == 1 else -1, -1, -1).to(call.key.dtype)


# The fast path of torch


def hooks(module: nn.Module) -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Yield the hooks that a module of torch needs while it is watched, each with the method that registers it."""
    if isinstance(module, nn.MultiheadAttention):
        yield module.register_forward_pre_hook, _refuse_nested
    elif isinstance(module, nn.TransformerEncoderLayer):
        yield module.register_forward_pre_hook, _refuse_misread_masks
    elif isinstance(module, nn.TransformerEncoder):
        yield module.register_forward_hook, _fill_padding


def _refuse_nested(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse nested tensors before `nn.MultiheadAttention`: only the fast path takes them."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            calls.check_readable(value)


def _fill_padding(encoder: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor | None:
    """Write zeros at padding after `nn.TransformerEncoder`, where its fast path leaves zeros; its `forward` decides."""
    inputs = inspect.signature(nn.TransformerEncoder.forward).bind(encoder, *args, **kwargs).arguments
    padding: Tensor | None = inputs.get("src_key_padding_mask")
    nested = inputs.get("mask") is None and getattr(encoder, "use_nested_tensor", False)
    if padding is None or not nested or not _may_skip_python(encoder.layers[0], inputs["src"]):
        return None
    hidden = padding if padding.dtype == torch.bool else padding != 0
    if getattr(encoder, "mask_check", True) and not torch._nested_tensor_from_mask_left_aligned(inputs["src"], ~hidden):
        return None
    zeros = torch.zeros_like(output[:1, :1])
    return torch.where(hidden[..., None], zeros if encoder.norm is None else encoder.norm(zeros), output)


def _refuse_misread_masks(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse float masks before `nn.TransformerEncoderLayer` where its fast path takes them for bools."""
    inputs = inspect.signature(nn.TransformerEncoderLayer.forward).bind(layer, *args, **kwargs).arguments
    masks = [inputs.get(name) for name in ("src_mask", "src_key_padding_mask")]
    biases = [mask for mask in masks if mask is not None and mask.is_floating_point()]
    attention = layer.self_attn
    skips_python = (  # the rules of the layer's `forward`
        attention.batch_first
        and attention.in_proj_bias is not None
        and attention.num_heads % 2 == 0
        and bool(layer.activation_relu_or_gelu)
        and layer.norm1.eps == layer.norm2.eps
    )
    if not (biases and skips_python and _may_skip_python(layer, inputs["src"])):
        return
    if any(bool(((bias != 0) & (bias > HIDING)).any()) for bias in biases):
        raise WatchError(
            "in eval mode and without gradients, torch's fast path hides every key where a float mask is not 0 "
            "instead of adding the mask, so the watched output would differ. To have the mask added in both, "
            "call torch.backends.mha.set_fastpath_enabled(False); to hide keys, give a mask of bools."
        )


def _may_skip_python(layer: nn.Module, source: Tensor) -> bool:
    """Whether a layer or an encoder may take its fast path, as far as their rules are the same."""
    allowed = torch.backends.mha.get_fastpath_enabled() and not torch.is_autocast_enabled()
    if not allowed or layer.training or source.dim() != 3:
        return False
    tensors = (source, *layer.parameters())
    if any(type(tensor) not in (Tensor, nn.Parameter) for tensor in tensors):
        return False
    return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


# Attention by hand

# What functions of torch do, by name: torch.x, Tensor.x, functional.x and torch.ops.aten.x share a name.
_FUNCTIONS = {
    "product": "matmul __matmul__ __rmatmul__ mm bmm mv dot vdot vecdot inner einsum tensordot chain_matmul multi_dot "
    "cosine_similarity",
    "added product": "baddbmm baddbmm_ addbmm",
    "pairs": "mul mul_ multiply __mul__ __rmul__",
    "projection": "linear addmm conv1d conv2d conv3d",
    "softmax": "softmax _softmax _safe_softmax softmin gumbel_softmax",
    "log": "log_softmax _log_softmax logsumexp",
    "exp": "exp exp_ exp2 exp2_",
    "sum": "sum mean normalize",
    "write": "__setitem__",
}
_ROLES = {name: role for role, names in _FUNCTIONS.items() for name in names.split()}
_PRODUCTS = ("product", "added product", "pairs")  # noted even if nothing was noted before
_PROJECTS = ("product", "added product", "projection")
SEEN = (*_PRODUCTS, "kernel")  # looked at even if nothing was noted before
_SCORES, _EXPONENTIALS, _LOGARITHMS, _WEIGHTS, _READ = range(1, 6)
_BECOMES = {
    ("softmax", _SCORES): _WEIGHTS,
    ("exp", _SCORES): _EXPONENTIALS,
    ("log", _SCORES): _LOGARITHMS,
    ("exp", _LOGARITHMS): _WEIGHTS,
}
_SOFTMAXES = {("softmax", _SCORES), ("exp", _LOGARITHMS), ("sum", _EXPONENTIALS)}
_OPERATORS = torch._ops.OpOverload | torch._ops.OpOverloadPacket | torch._ops.HigherOrderOperator


@functools.lru_cache(maxsize=4096)
def role_of(function: Any) -> str | None:
    """Return what a function of torch does for attention, or None.

    >>> import torch
    >>> role_of(torch.bmm), role_of(Tensor.softmax), role_of(torch.relu)
    ('product', 'softmax', None)
    """
    name = getattr(function, "__name__", "").partition(".")[0]
    if isinstance(function, _OPERATORS) and re.search("attention|attn", name):
        return "kernel"  # nothing is known of it but its name
    return _ROLES.get(name.removeprefix("linalg_").removeprefix("special_"))


class _Note(NamedTuple):
    """What a tensor holds, and the module in whose forward its product was computed."""

    tensor: weakref.ref[Tensor]
    holds: int
    module: nn.Module | None


class Products:
    """What the modules of one thread computed from products of activations, and from weights alone."""

    def __init__(self) -> None:
        self.follows: dict[int, _Note | weakref.ref[Tensor]] = {}  # by id of a tensor; a reference: from weights alone

    def see(
        self, role: str | None, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any,
        running: Callable[[], nn.Module | None],
    ) -> bool:  # fmt: skip
        """Note the output of a call; return whether it is the softmax of an attention, or a product with read weights.

        `role` is what the function does (`role_of`); `running` finds the innermost running module.
        """
        first = args[0] if args else None
        if role == "pairs" and not (self.follows or isinstance(first, nn.Parameter) or _is_outer(args, output)):
            return False
        tensors = list(_tensors((*args, *kwargs.values())))
        noted = [note for tensor in tensors if isinstance(note := self.follows.get(id(tensor)), _Note)]
        if role in _PRODUCTS[:2] and any(note.holds == _READ for note in noted):
            return True
        # Learned queries are activations once they are projected; weights that are scaled or normalized stay weights.
        if role not in _PROJECTS and tensors and all(map(self._is_weight, tensors)):
            for result in _tensors((output,)):
                self.follows[id(result)] = self._reference(result)
            return False
        if role == "pairs" and not noted and not _is_outer(args, output):
            role = None
        if role in _PRODUCTS:
            factors = tensors[1:] if role == "added product" else tensors
            if sum(not self._is_weight(factor) for factor in factors if factor.is_floating_point()) > 1:
                if all(note.holds == _SCORES for note in noted):
                    self.note(output, _SCORES, running())
                elif role == "pairs":
                    self.note(output, noted[0].holds, noted[0].module)
                return False
            role = None if role == "pairs" else "projection"
        if not noted:
            return False
        holds, module = max(note.holds for note in noted), noted[0].module
        # A product with weights has other numbers, except where it mixes heads: then it stays within one module.
        if role != "projection" or running() is module:
            self.note(args[0] if role == "write" else output, _BECOMES.get((role or "", holds), holds), module)
        return (role, holds) in _SOFTMAXES

    def note(self, output: Any, holds: int, module: nn.Module | None) -> None:
        """Note what tensors hold."""
        for tensor in _tensors((output,)):
            if tensor.is_floating_point():
                self.follows[id(tensor)] = _Note(self._reference(tensor), holds, module)

    def _reference(self, tensor: Tensor) -> weakref.ref[Tensor]:
        """Return a reference that deletes the note when the tensor is freed."""
        return weakref.ref(tensor, functools.partial(_forget, self.follows, id(tensor)))

    def _is_weight(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter, a view of one, or computed from parameters alone, as by a cast."""
        known = isinstance(self.follows.get(id(tensor)), weakref.ref)
        return known or isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter)


def _forget(notes: dict[int, Any], key: int, _: object) -> None:
    notes.pop(key, None)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among some arguments or results, and in the lists among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, Tensor))


def _is_outer(factors: tuple[Any, ...], product: Any) -> bool:
    """Whether numbers were multiplied pair by pair, as queries and keys are before their product is summed by hand."""
    sizes = [factor.numel() if isinstance(factor, Tensor) else 1 for factor in factors]
    return isinstance(product, Tensor) and product.numel() > max(sizes, default=1)
