"""Whatever is handed in: the right answer or one of regard's errors, never an exception of torch, NumPy or Python."""

import random
import time
import warnings

import numpy as np
import pytest
import torch

import regard
from regard import AttentionMatrix, attention

Q, K, V = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
SAME = torch.randn(2, 4, 5, 8)  # shaped as Q, so that torch's own kernel is within reach


class Subclass(torch.Tensor):
    pass


def _odd():
    """name → an argument that no one should hand in, or that few do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.randn(4, 5, 8), torch.randn(4, 3, 8)])
        jagged = torch.nested.nested_tensor([torch.randn(5, 8), torch.randn(3, 8)], layout=torch.jagged)
        tensors = {
            "nested": nested, "jagged": jagged, "sparse": Q.to_sparse(), "csr": Q[0, 0].to_sparse_csr(),
            "csr batch": Q[0].to_sparse_csr(), "mkldnn": Q.to_mkldnn(), "sparse bool": torch.ones(5, 7).bool().to_sparse(),
            "sparse mask": torch.ones(5, 7).to_sparse(), "quantised": torch.quantize_per_tensor(Q, 0.1, 0, torch.quint8),
        }  # fmt: skip
    tensors |= {
        "meta": Q.to("meta"), "meta mask": torch.zeros(5, 7, device="meta"), "meta number": torch.tensor(1, device="meta"),
        "complex": Q + 0j, "ints": Q.long(), "bools": Q > 0, "uint16": torch.ones(7, dtype=torch.uint16),
        "uint64": torch.tensor([2**63 + 1, 3], dtype=torch.uint64), "float8": Q.to(torch.float8_e4m3fn),
        "float8 mask": torch.zeros(5, 7).to(torch.float8_e5m2), "half": Q.half(), "subclass": Q.as_subclass(Subclass),
        "parameter": torch.nn.Parameter(Q.clone()), "conjugate": (Q + 1j * Q).conj().imag, "nan": Q * torch.nan,
        "inf": Q * torch.inf, "empty": torch.zeros(0), "no batch": Q[:0], "no heads": Q[:, :0], "no tokens": Q[:, :, :0],
        "no width": Q[..., :0], "scalar": torch.tensor(1.0), "whole scalar": torch.tensor(1), "bool scalar": torch.tensor(True),
        "vector": torch.ones(8), "whole vector": torch.tensor([1, 0, 2]), "two": torch.tensor([2, 2]), "far": torch.tensor([2**63 - 1, -(2**63)]),
        "bool mask": torch.ones(5, 7).bool(), "float mask": torch.zeros(5, 7), "six axes": torch.zeros(1, 1, 2, 4, 5, 8),
        "shared": torch.zeros(1, 1, 1, 8).expand(2, 4, 5, 8), "same": SAME, "double": Q.double(),
    }  # fmt: skip
    numbers = {
        "None": None, "word": "word", "no word": "", "bytes": b"x", "1.5": 1.5, "huge": 2**70, "-huge": -(2**70), "-1": -1,
        "0": 0, "2": 2, "True": True, "nan number": float("nan"), "inf number": float("inf"), "-inf": float("-inf"), "1e300": 1e300,
        "1e-300": 1e-300, "-1e300": -1e300, "10**400": 10**400, "1j": 1j, "fraction": np.float32(0.5), "np int": np.int64(2),
    }  # fmt: skip
    others = {
        "object": object(), "class": int, "function": print, "list": [], "ragged": [[1], [2, 3]], "dict": {1: 2}, "set": {1},
        "tuple": (1, 2), "empty tuple": (), "huge list": [2**70], "float list": [0.5] * 4, "None list": [None], "words": ["a"] * 5,
        "array": Q.numpy(), "int array": np.ones((5, 7), dtype=np.uint32), "object array": np.array([None, 1]), "text array": np.array(["a"]),
        "ellipsis": ..., "slice": slice(None), "back": slice(None, None, -1), "zero step": slice(None, None, 0), "word slice": slice("a", None),
        "range": range(3), "dtype": torch.float32, "device": torch.device("cpu"), "mask": regard.causal(), "matrix": AttentionMatrix(Q, K),
        "nested tuple": (None, slice(None, None, -1)), "pairs": ([0, 1], [0, 1]), "bools list": [True, False], "tensors": [torch.ones(2), torch.ones(3)],
    }  # fmt: skip
    return tensors | numbers | others


def _used(A, value=V):
    """Make it compute."""
    _ = A @ value, A.received(), A.entropy(), A.top(1), A.pool(2, 2), A[..., 0, :], A.logsumexp, A.sink_share, repr(A)


def _masked(mask):
    _used(AttentionMatrix(Q, K, mask=mask))
    attention(Q, K, V, mask=mask)


A = AttentionMatrix(Q, K, mask=regard.causal(2), sinks=0.5)
CALLS = {
    "query": lambda x: _used(AttentionMatrix(x, K)),
    "key": lambda x: _used(AttentionMatrix(Q, x)),
    "both": lambda x: AttentionMatrix(x, x).received(),
    "mask": lambda x: _masked(x),
    "scale": lambda x: _used(AttentionMatrix(Q, K, scale=x)),
    "softcap": lambda x: _used(AttentionMatrix(Q, K, softcap=x)),
    "sinks": lambda x: _used(AttentionMatrix(Q, K, sinks=x)),
    "attention query": lambda x: attention(x, K, V),
    "attention key": lambda x: attention(Q, x, V),
    "attention value": lambda x: attention(Q, K, x),
    "attention all": lambda x: attention(x, x, x),
    "attention mask": lambda x: attention(Q, SAME, SAME, mask=x),
    "attention scale": lambda x: attention(Q, SAME, SAME, scale=x),
    "attention softcap": lambda x: attention(Q, SAME, SAME, softcap=x),
    "attention sinks": lambda x: attention(Q, SAME, SAME, sinks=x),
    "attention dropout": lambda x: attention(Q, SAME, SAME, dropout=x),
    "causal": lambda x: _masked(regard.causal(x)),
    "window": lambda x: _masked(regard.window(x)),
    "window right": lambda x: _masked(regard.window(2, x)),
    "window offset": lambda x: _masked(regard.window(2, 2, x)),
    "padding": lambda x: _masked(regard.padding(x)),
    "documents": lambda x: _masked(regard.documents(x)),
    "documents of keys": lambda x: _masked(regard.documents([0] * 5, x)),
    "bias": lambda x: _masked(regard.bias(x)),
    "queries of a cut": lambda x: _masked(regard.cut(x)),
    "keys of a cut": lambda x: _masked(regard.cut(1, x)),
    "heads of a cut": lambda x: _masked(regard.cut(heads=x)),
    "bias of a cut": lambda x: _masked(regard.cut(1, 2, bias=x)),
    "window of a cut": lambda x: _masked(regard.cut(within=x)),
    "and": lambda x: _masked(regard.causal() & x),
    "@": lambda x: A @ x,
    "dropout": lambda x: A.attend(V, x),
    "seed": lambda x: A.attend(V, 0.5, x),
    "mT @": lambda x: A.mT @ x,
    "index": lambda x: A[x],
    "second index": lambda x: A[0, x],
    "last index": lambda x: A[..., x],
    "two indices": lambda x: A[..., x, x],
    "index after None": lambda x: A[None, x],
    "slice from": lambda x: A[..., x:],
    "slice to": lambda x: A[..., :x],
    "slice step": lambda x: A[..., ::x],
    "part": lambda x: A.part[x].received(),
    "part of keys": lambda x: A.part[..., x].received(),
    "stage": lambda x: A.masked[x],
    "top": lambda x: A.top(x),
    "pool": lambda x: A.pool(x, 2),
    "pool columns": lambda x: A.pool(2, x),
    "pool reduce": lambda x: A.pool(2, 2, x),
    "received": lambda x: A.received(x),
    "summary top": lambda x: A.summary(top=x),
    "summary pool": lambda x: A.summary(pool=x),
    "summary sides": lambda x: A.summary(pool=(2, x)),
    "diagonal": lambda x: A.diagonal(x),
}


def _failure(call, *odd):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(*odd)
    except regard.RegardError as error:
        return None if str(error) else "an error without a word"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


@pytest.mark.usefixtures("unchecked")
def test_one_odd_argument():
    wrong = [
        f"{name}({kind}): {failure}"
        for name, call in CALLS.items()
        for kind, odd in _odd().items()
        if (failure := _failure(call, odd))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.usefixtures("unchecked")
def test_several_odd_arguments():
    """All at once, a random few hundred of them."""
    seed, odd = time.time_ns() % 2**32, _odd()
    choose, names = random.Random(seed), list(odd)
    for _ in range(400):
        kinds = [choose.choice(names) if choose.random() < 0.4 else None for _ in range(7)]
        plain = [Q, SAME, SAME, regard.causal(), 0.5, 3.0, 0.5]
        q, k, v, mask, scale, softcap, sinks = (
            odd[kind] if kind else given for kind, given in zip(kinds, plain, strict=True)
        )
        calls = (
            lambda: attention(q, k, v, mask=mask, scale=scale, softcap=softcap, sinks=sinks),  # noqa: B023
            lambda: _used(AttentionMatrix(q, k, mask=mask, scale=scale, softcap=softcap, sinks=sinks), v),  # noqa: B023
        )
        for call in calls:
            failure = _failure(call)
            assert not failure, f"seed {seed}, {kinds}: {failure}"


@pytest.mark.usefixtures("unchecked")
def test_the_word_says_what_to_do():
    with pytest.raises(regard.DTypeError, match=r"nested.*regard.padding"):
        AttentionMatrix(_odd()["nested"], K)
    with pytest.raises(regard.DTypeError, match=r"sparse.*to_dense"):
        AttentionMatrix(Q, K, mask=torch.ones(5, 7).to_sparse())
    with pytest.raises(regard.DeviceError, match="meta"):
        AttentionMatrix(Q.to("meta"), K.to("meta"))
    with pytest.raises(regard.OutOfRangeError, match="step"):
        A[None, ::-1]
