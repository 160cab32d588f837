"""How the matrix is computed.

Read in this order:

contract.py    the requests, the results, what a backend can compute as data, and its methods
chooser.py     the one place where a backend is chosen; every call goes through it, with or without a graph
reference.py   NumPy, float64: the definition that every backend is held to
torch_cpu.py   torch's flash kernel on the CPU, for any mask
torch_cuda.py  torch's fused kernels on a GPU, plain and causal
triton/        our kernels on a GPU: any mask, forward, gradients and reductions
tiles/         plain torch in tiles, any device: all other problems
cuts.py        masks with cuts, as parts of the matrix that the other backends compute
"""

from regard.backends.chooser import choose, compute, dense, differentiable, gradients, logsumexp, reduce, use
from regard.backends.contract import (
    Attend,
    Backward,
    Dropout,
    Entropy,
    LogSumExp,
    Pool,
    Received,
    Reduction,
    Request,
    Result,
    Top,
    TransposedProduct,
    trusted,
)
from regard.scores import share

__all__ = [
    "Attend",
    "Backward",
    "Dropout",
    "Entropy",
    "LogSumExp",
    "Pool",
    "Received",
    "Reduction",
    "Request",
    "Result",
    "Top",
    "TransposedProduct",
    "choose",
    "compute",
    "dense",
    "differentiable",
    "gradients",
    "logsumexp",
    "reduce",
    "share",
    "trusted",
    "use",
]
