"""Triton kernels: forward, gradients and reductions on a GPU, for any mask. `backend` is what the chooser uses.

Read in this order:

launch.py         `TritonBackend`: what it supports, and the plan: which passes compute a set of reductions
problem.py        scores, mask and normaliser as kernels take them; which tiles a mask hides
tuning.py         block sizes, warps, register limits and workspace
kernels.py        what all kernels share: the logits of a tile, the loop over tiles; forward, a few rows, sinks
passes.py         entropy, received, even bins, the transposed product, and the largest weight
bins.py           bins of any size
top.py            the k largest weights, exactly: docs/how-exact-top-works.md
top_search.py     the search of the rows that top.py leaves open
gradients.py      the gradients of query, key and value, through any result
beam_kernels.py   what a beam search does in each step: attention along targets, the largest logits
"""

from regard.backends.triton.launch import TritonBackend, rescale

__all__ = ["TritonBackend", "backend", "rescale"]

backend = TritonBackend()
