"""How the matrix is computed.

Read in this order:

contract.py    what may be asked of a backend, its five methods, and the digits of the row normaliser
chooser.py     the one place where a backend is chosen
reference.py   NumPy, float64: the definition that every backend is held to
torch_cpu.py   torch's flash kernel on the CPU, for any mask
torch_cuda.py  torch's fused kernels on a GPU, plain and causal
triton/        our kernels on a GPU: any mask, forward, gradients and reductions
tiles/         plain torch in tiles, any device: everything else
pieces.py      masks with cuts, as pieces of the matrix that the kernels can compute
autograd.py    the same results as functions that autograd knows
"""

from regard.backends.autograd import differentiable, gradients, operand
from regard.backends.chooser import choose, dense, use
from regard.backends.contract import (
    Attend,
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
    share,
    trusted,
)
from regard.backends.pieces import compute, logsumexp, reduce

__all__ = [
    "Attend",
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
    "operand",
    "reduce",
    "share",
    "trusted",
    "use",
]
