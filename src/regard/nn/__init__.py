"""Layers, stacks and the Transformer of "Attention Is All You Need", decoding, and weights on disk.

Read in this order:
config.py        the sizes of a model
layers.py        one head, several heads, feed-forward, encoder and decoder layers
transformer.py   token ids to logits, through stacks of layers; the cache for decoding token by token
loss.py          cross-entropy without holding all logits
decoding.py      one token at a time, with a cache
files.py         single files, written whole or not at all
model_folder.py  config.json and model.safetensors, with sums that show damage
marian.py        Hugging Face Marian folders, both ways
torch_import.py  layers of torch.nn as ours
"""

from regard.nn.config import TransformerConfig
from regard.nn.decoding import DecodingSession, start_decoding
from regard.nn.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention, SelfAttention
from regard.nn.torch_import import from_torch
from regard.nn.transformer import FORMAT, Cache, Decoder, Encoder, Memory, Transformer, sinusoids

__all__ = [
    "FORMAT",
    "Cache",
    "Decoder",
    "DecoderLayer",
    "DecodingSession",
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
    "start_decoding",
]
