"""Layers, stacks and the Transformer of the paper, with their weights on disk."""

from regard.nn.config import TransformerConfig
from regard.nn.decoding import Decoding, Run
from regard.nn.encoding import Encoding
from regard.nn.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention, SelfAttention
from regard.nn.stacks import Cache, Decoder, Encoder
from regard.nn.torch_import import from_torch
from regard.nn.transformer import FORMAT, Memory, Transformer

__all__ = [
    "FORMAT",
    "Cache",
    "Decoder",
    "DecoderLayer",
    "Decoding",
    "Encoder",
    "EncoderLayer",
    "Encoding",
    "FeedForward",
    "Memory",
    "MultiHeadAttention",
    "Run",
    "SelfAttention",
    "Transformer",
    "TransformerConfig",
    "from_torch",
]
