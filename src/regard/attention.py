"""`attention`: the function form."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.matrix import AttentionMatrix
def attention(query,key,value,*,mask=None,scale=None,softcap=None,sinks=None,dropout=0.0):
    return AttentionMatrix(query,key,mask=mask,scale=scale,softcap=softcap,sinks=sinks).attend(value)
