"""`from_torch`: layers of torch.nn as ours, with the same weights and the same outputs."""

from __future__ import annotations

from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.nn.layers import DecoderLayer, EncoderLayer, MultiHeadAttention
from regard.nn.stacks import Decoder, Encoder

__all__ = ["from_torch"]


@overload
def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention: ...
@overload
def from_torch(module: nn.TransformerEncoderLayer) -> EncoderLayer: ...
@overload
def from_torch(module: nn.TransformerDecoderLayer) -> DecoderLayer: ...
@overload
def from_torch(module: nn.TransformerEncoder) -> Encoder: ...
@overload
def from_torch(module: nn.TransformerDecoder) -> Decoder: ...
@overload
def from_torch(module: nn.Transformer) -> tuple[Encoder, Decoder]: ...
def from_torch(module: nn.Module) -> Any:
    """Our layer with the weights of one of torch.nn; for `nn.Transformer`, an encoder and a decoder.

    Ours take (batch, tokens, width) whatever `batch_first` was, and masks in which True means "attend".

    >>> import torch, regard
    >>> theirs = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    >>> x = torch.randn(2, 5, 64)
    >>> torch.allclose(regard.from_torch(theirs)(x), theirs(x), atol=1e-5)
    True
    """
    for kind, convert in _CONVERT.items():
        if isinstance(module, kind):
            return convert(module).train(module.training) if kind is not nn.Transformer else convert(module)
    known = ", ".join(f"nn.{kind.__name__}" for kind in _CONVERT)
    raise InputError(f"from_torch takes {known}. Got {type(module).__name__}.")


def _attention(theirs: nn.MultiheadAttention, kind: str = "encoder") -> MultiHeadAttention:
    if theirs.bias_k is not None or theirs.add_zero_attn:
        raise InputError("add_bias_kv and add_zero_attn have no counterpart here.")
    if theirs.kdim != theirs.vdim:
        raise InputError(f"keys and values must come from one context: kdim = {theirs.kdim}, vdim = {theirs.vdim}.")
    bias = theirs.in_proj_bias is not None
    ours = MultiHeadAttention(
        theirs.embed_dim, theirs.num_heads, context_width=theirs.kdim, bias=bias, dropout=theirs.dropout, kind=kind
    )
    if theirs.in_proj_weight is not None:
        _copy(ours.projection, theirs.in_proj_weight, theirs.in_proj_bias)
    elif theirs.kdim == theirs.embed_dim:
        weights = [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight]
        _copy(ours.projection, torch.cat([w.detach() for w in weights]), theirs.in_proj_bias)
    else:
        split = [theirs.embed_dim, 2 * theirs.embed_dim]
        b_q, b_kv = theirs.in_proj_bias.split(split) if bias else (None, None)
        _copy(ours.query, theirs.q_proj_weight, b_q)
        _copy(ours.key_value, torch.cat([theirs.k_proj_weight.detach(), theirs.v_proj_weight.detach()]), b_kv)
    _copy(ours.output, theirs.out_proj.weight, theirs.out_proj.bias)
    return ours.to(theirs.out_proj.weight)


def _options(theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> dict[str, Any]:
    names = {functional.relu: "relu", functional.gelu: "gelu", functional.silu: "silu"}
    activation = next((name for function, name in names.items() if theirs.activation is function), None)
    for kind, name in ((nn.ReLU, "relu"), (nn.SiLU, "silu"), (nn.GELU, "gelu")):
        if isinstance(theirs.activation, kind):
            activation = name
    if activation is None or getattr(theirs.activation, "approximate", "none") != "none":
        raise InputError(f"the activation must be relu, silu or gelu. Got {theirs.activation}.")
    return {
        "width": theirs.linear1.in_features,
        "heads": theirs.self_attn.num_heads,
        "hidden": theirs.linear1.out_features,
        "activation": activation,
        "norm_first": theirs.norm_first,
        "bias": theirs.linear1.bias is not None,
        "dropout": theirs.dropout1.p,
    }


def _encoder_layer(theirs: nn.TransformerEncoderLayer) -> EncoderLayer:
    ours = EncoderLayer(**_options(theirs))
    ours.attention = _attention(theirs.self_attn, "encoder")
    _copy_norm(ours.attention_norm, theirs.norm1)
    _copy_norm(ours.feed_forward_norm, theirs.norm2)
    _feed_forward(ours, theirs)
    return ours


def _decoder_layer(theirs: nn.TransformerDecoderLayer) -> DecoderLayer:
    ours = DecoderLayer(**_options(theirs))
    ours.attention = _attention(theirs.self_attn, "decoder")
    ours.cross = _attention(theirs.multihead_attn, "cross")
    _copy_norm(ours.attention_norm, theirs.norm1)
    _copy_norm(ours.cross_norm, theirs.norm2)
    _copy_norm(ours.feed_forward_norm, theirs.norm3)
    _feed_forward(ours, theirs)
    return ours


def _feed_forward(ours: Any, theirs: Any) -> None:
    _copy(ours.feed_forward.up, theirs.linear1.weight, theirs.linear1.bias)
    _copy(ours.feed_forward.down, theirs.linear2.weight, theirs.linear2.bias)
    ours.to(theirs.linear1.weight)


def _stack(theirs: Any, kind: Any) -> Any:
    """A stack of converted layers; its sizes are those of the first."""
    first = theirs.layers[0]
    ours = kind(0, **_options(first), final_norm=theirs.norm is not None)
    ours.layers = nn.ModuleList(from_torch(layer) for layer in theirs.layers)
    if theirs.norm is not None:
        _copy_norm(ours.norm, theirs.norm)
    return ours.to(first.linear1.weight)


def _copy(ours: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    with torch.no_grad():
        ours.weight.copy_(weight)
        if bias is not None:
            ours.bias.copy_(bias)


def _copy_norm(ours: nn.LayerNorm, theirs: nn.LayerNorm) -> None:
    ours.eps = theirs.eps
    ours.load_state_dict(theirs.state_dict())


_CONVERT: dict[type[nn.Module], Any] = {
    nn.MultiheadAttention: _attention,
    nn.TransformerEncoderLayer: _encoder_layer,
    nn.TransformerDecoderLayer: _decoder_layer,
    nn.TransformerEncoder: lambda theirs: _stack(theirs, Encoder),
    nn.TransformerDecoder: lambda theirs: _stack(theirs, Decoder),
    nn.Transformer: lambda theirs: (from_torch(theirs.encoder), from_torch(theirs.decoder)),
}
