"""Triton kernels: forward, gradients and reductions on a GPU, for any mask. `backend` is what the chooser uses.

Read in this order:

launch.py             `TritonBackend`: what it supports; the launches of the softmax
reduce_launch.py      which passes the reductions take, and their launches
top_launch.py         the launches of `top`
gradient_launch.py    what each request hands to the gradient kernels, and their launches
problem.py            scores, mask and normaliser as kernels take them: NamedTuples and tensor descriptors
limits.py             which tiles padding and documents hide, or leave whole
tuning.py             block sizes, warps, register limits and workspace
kernels.py            what all kernels share: the logits of a tile, the loop over tiles; forward, a few rows, sinks
gradient_kernels.py   the gradients of query, key and value, through any result
reduction_kernels.py  entropy, received, even bins, the transposed product, and the largest weight
bin_kernels.py        bins of any size
top_kernels.py        the k largest weights, exactly: docs/how-exact-top-works.md
beam_kernels.py       what a beam search does in each step: attention along targets, the largest logits
"""

from regard.backends.triton.launch import TritonBackend, rescale

__all__ = ["TritonBackend", "backend", "rescale"]

backend = TritonBackend()
