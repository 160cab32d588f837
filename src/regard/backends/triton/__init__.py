"""Triton kernels: forward, gradients and reductions on a GPU, for any mask."""
