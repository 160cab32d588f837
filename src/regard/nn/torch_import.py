"""`from_torch`: layers of torch.nn as regard's layers, with the same weights and outputs."""

from __future__ import annotations

import copy
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.nn.layers import DecoderLayer, EncoderLayer, MultiHeadAttention
from regard.nn.transformer import Decoder, Encoder


@overload
def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention: ...
@overload
def from_torch(module: nn.TransformerEncoderLayer) -> EncoderLayer: ...
@overload
def from_torch(module: nn.TransformerEncoder) -> Encoder: ...
@overload
def from_torch(module: nn.TransformerDecoderLayer, *, causal: bool) -> DecoderLayer: ...
@overload
def from_torch(module: nn.TransformerDecoder, *, causal: bool) -> Decoder: ...
@overload
def from_torch(module: nn.Transformer, *, causal: bool) -> tuple[Encoder, Decoder]: ...
def from_torch(module: nn.Module, *, causal: bool | None = None) -> Any:
    """Convert a layer of torch.nn; an `nn.Transformer` becomes an encoder and a decoder.

    regard's layers take (batch, tokens, width) whatever `batch_first` was, and masks in which True means "attend". A
    module without a counterpart (with its own `forward`, another norm or activation) is refused.

    Args:
        module: the layer or stack of torch.nn.
        causal: for decoders, whether a token sees only earlier tokens; torch decides it by `tgt_mask` in each call.

    >>> import torch, regard
    >>> original = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    >>> x = torch.randn(2, 5, 64)
    >>> torch.allclose(regard.from_torch(original)(x), original(x), atol=1e-5)
    True
    """
    kind = next((kind for kind in _CONVERT if isinstance(module, kind)), None)
    if kind is None:
        known = ", ".join(f"nn.{kind.__name__}" for kind in _CONVERT)
        raise InputError(f"from_torch takes {known}. Got {type(module).__name__}.")
    _plain(module, kind)
    convert = _CONVERT[kind]
    if kind not in _DECODERS:
        return convert(module).train(module.training)
    if causal is None:
        raise InputError(
            "A decoder of torch is causal only in calls with a tgt_mask. Choose from_torch(module, causal=True), or "
            "causal=False for a decoder that sees later tokens too."
        )
    converted = convert(module, causal)
    return converted if isinstance(converted, tuple) else converted.train(module.training)


def _plain(module: Any, *kinds: type[nn.Module]) -> None:
    """Raise unless a module computes exactly what its class in torch.nn computes."""
    kind = next((kind for kind in kinds if isinstance(module, kind)), None)
    if kind is None:
        expected = " or ".join(f"nn.{kind.__name__}" for kind in kinds)
        raise InputError(f"from_torch expects {expected} here. Got {type(module).__name__}.")
    for name in ("forward", "_sa_block", "_mha_block", "_ff_block"):
        if name in vars(module) or getattr(type(module), name, None) is not getattr(kind, name, None):
            raise InputError(
                f"{type(module).__name__} overrides {name}, which the conversion would lose. from_torch takes modules "
                f"that compute as nn.{kind.__name__} does."
            )
    if module._forward_hooks or module._forward_pre_hooks:
        raise InputError(f"{type(module).__name__} has forward hooks, which would be lost. Remove them first.")


def _attention(original: nn.MultiheadAttention, kind: str = "encoder") -> MultiHeadAttention:
    _plain(original, nn.MultiheadAttention)
    _plain(original.out_proj, nn.Linear)
    if original.kdim != original.vdim:
        raise InputError(f"keys and values must come from one context: kdim = {original.kdim}, vdim = {original.vdim}.")
    bias = original.in_proj_bias
    converted = MultiHeadAttention(
        original.embed_dim,
        original.num_heads,
        context_width=original.kdim,
        bias=bias is not None,
        dropout=original.dropout,
        kind=kind,
        add_bias_kv=original.bias_k is not None,
        add_zero_attn=original.add_zero_attn,
    )
    if original.in_proj_weight is not None:
        _copy(converted.projection, original.in_proj_weight, bias)
    else:  # the context has another width
        w_k, w_v = original.k_proj_weight, original.v_proj_weight
        if w_k.requires_grad != w_v.requires_grad:
            raise InputError("k_proj_weight and v_proj_weight become one parameter: give them the same requires_grad.")
        b_q, b_kv = (None, None) if bias is None else bias.split([original.embed_dim, 2 * original.embed_dim])
        _copy(converted.query, original.q_proj_weight, b_q)
        _copy(converted.key_value, torch.cat([w_k, w_v]), b_kv)
    _copy(converted.output, original.out_proj.weight, original.out_proj.bias)
    if original.bias_k is not None and original.bias_v is not None:
        converted.bias_k = _parameter(original.bias_k.flatten())
        converted.bias_v = _parameter(original.bias_v.flatten())
    return converted


def _options(original: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> dict[str, Any]:
    activation = None
    for name, kind in (("relu", nn.ReLU), ("silu", nn.SiLU), ("gelu", nn.GELU)):
        if isinstance(original.activation, kind):
            _plain(original.activation, kind)
        if isinstance(original.activation, kind) or original.activation is getattr(functional, name):
            activation = name
    if activation is None or getattr(original.activation, "approximate", "none") != "none":
        raise InputError(f"the activation must be relu, silu or gelu. Got {original.activation}.")
    rates = {
        f"dropout{n}": _rate(getattr(original, f"dropout{n}")) for n in (1, 2, 3) if hasattr(original, f"dropout{n}")
    }
    if len(set(rates.values())) > 1:
        raise InputError(f"the dropout after each sublayer must be the same. Got {rates}.")
    return {
        "width": original.linear1.in_features,
        "heads": original.self_attn.num_heads,
        "hidden": original.linear1.out_features,
        "activation": activation,
        "norm_first": original.norm_first,
        "dropout": rates["dropout1"],
    }


def _rate(dropout: nn.Module) -> float:
    _plain(dropout, nn.Dropout, nn.Identity)
    return float(getattr(dropout, "p", 0.0))


def _layer(original: Any, causal: bool | None = None) -> EncoderLayer | DecoderLayer:
    """Convert an encoder layer or, with `causal`, a decoder layer."""
    converted: Any = EncoderLayer(**_options(original))
    norms = ["attention_norm", "feed_forward_norm"]
    if causal is not None:
        converted = DecoderLayer(**_options(original), causal=causal)
        converted.cross = _attention(original.multihead_attn, "cross")
        norms.insert(1, "cross_norm")
    converted.attention = _attention(original.self_attn, "encoder" if causal is None else "decoder")
    for number, name in enumerate(norms, 1):
        setattr(converted, name, _norm(getattr(original, f"norm{number}")))
    feed_forward = converted.feed_forward
    feed_forward.dropout = _rate(original.dropout)
    for linear, source in ((feed_forward.up, original.linear1), (feed_forward.down, original.linear2)):
        _plain(source, nn.Linear)
        _copy(linear, source.weight, source.bias)
    return converted  # type: ignore[no-any-return]


def _stack(original: Any, causal: bool | None = None) -> Encoder | Decoder:
    """Convert an encoder or, with `causal`, a decoder; its sizes are those of the first layer."""
    if not len(original.layers):
        raise InputError(f"A stack must have at least one layer. Got an empty {type(original).__name__}.")
    for layer in original.layers:
        _plain(layer, nn.TransformerEncoderLayer if causal is None else nn.TransformerDecoderLayer)
    converted = (Encoder if causal is None else Decoder)(0, **_options(original.layers[0]))
    converted.layers = nn.ModuleList(_layer(layer, causal).train(layer.training) for layer in original.layers)
    converted.norm = None if original.norm is None else _norm(original.norm)
    return converted


def _copy(converted: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    converted.weight = _parameter(weight)
    converted.register_parameter("bias", None if bias is None else _parameter(bias))


def _parameter(tensor: Tensor) -> nn.Parameter:
    """Copy a parameter, with its requires_grad."""
    return nn.Parameter(tensor.detach().clone(), requires_grad=tensor.requires_grad)


def _norm(original: nn.Module) -> Any:
    """Copy a norm of any kind."""
    _plain(original, nn.LayerNorm, nn.RMSNorm, nn.Identity)
    return copy.deepcopy(original)


_CONVERT: dict[type[nn.Module], Any] = {
    nn.MultiheadAttention: _attention,
    nn.TransformerEncoderLayer: _layer,
    nn.TransformerDecoderLayer: _layer,
    nn.TransformerEncoder: _stack,
    nn.TransformerDecoder: _stack,
    nn.Transformer: lambda original, causal: (
        from_torch(original.encoder),
        from_torch(original.decoder, causal=causal),
    ),
}
_DECODERS = (nn.TransformerDecoderLayer, nn.TransformerDecoder, nn.Transformer)
