"""Layers, stacks and the Transformer of "Attention Is All You Need", decoding, and weights on disk.

Read in this order:

config.py        the sizes of a model
layers.py        one head, several heads, feed-forward, encoder and decoder layers
transformer.py   token ids to logits, through stacks of layers; the cache, and decoding token by token
loss.py          cross-entropy that never holds all logits
model_folder.py  files written as a whole or not at all; a model on disk, as regard's folder or as Hugging Face Marian's
torch_import.py  layers of torch.nn as regard's layers
"""

from regard.nn.config import TransformerConfig
from regard.nn.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention, SelfAttention
from regard.nn.torch_import import from_torch
from regard.nn.transformer import FORMAT, Cache, Decoder, Encoder, Memory, Transformer, sinusoids

__all__ = [
    "FORMAT",
    "Cache",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "Memory",
    "MultiHeadAttention",
    "SelfAttention",
    "Transformer",
    "TransformerConfig",
    "from_torch",
    "sinusoids",
]
