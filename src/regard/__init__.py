"""Self-attention computed at full speed, with nothing hidden."""

from regard.attention import attention
from regard.masks import Mask, bias, causal, documents, padding, window
from regard.matrix import AttentionMatrix, Summary, Top

__version__ = "0.1.0"
