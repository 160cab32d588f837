"""ONNX's own conformance cases of the `Attention` operator (opsets 23 to 25), run through `AttentionMatrix`.

ONNX writes causal and window masks as attributes, caches as inputs and stages as an optional output; `onnx_attention`
is the translation of one node. `A @ value` gives Y, and a stage or a slice of A gives qk_matmul_output. The node's
`softmax_precision` needs no translation: regard never computes a softmax in less than float32.
"""

from __future__ import annotations

import importlib
import math
import warnings

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx.backend.test.case import node as onnx_cases
from onnx.backend.test.case.test_case import TestCase
from torch import Tensor

import regard

# One unit in the last place. ONNX's expected halves were rounded at every step: they lie up to 1.7 units from the truth
# (regard's up to 0.9), so these cases get a quarter of a unit of 1 on top. Other dtypes are compared as the case asks.
UNIT = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def load_cases() -> list[TestCase]:
    """Importing the one module registers its cases; onnx's own loader would import, and compute, all operators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        importlib.import_module("onnx.backend.test.case.node.attention")
    return [case for case in onnx_cases._NodeTestCases if [n.op_type for n in case.model.graph.node] == ["Attention"]]


CASES = load_cases()


def attributes(case: TestCase) -> dict[str, int | float]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in case.model.graph.node[0].attribute}


def tensor(array: np.ndarray) -> Tensor:
    if array.dtype == ml_dtypes.bfloat16:  # NumPy's bfloat16 is unknown to torch, its bits are not
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def present(names: list[str], arrays: list[np.ndarray]) -> list[Tensor | None]:
    """One entry for each name of a node: a case holds no array for what the node leaves out (an empty name)."""
    assert sum(map(bool, names)) == len(arrays)
    left = iter(arrays)
    return [tensor(next(left)) if name else None for name in names]


def onnx_attention(
    query: Tensor,  # (batch, heads, tokens, width), or (batch, tokens, heads * width)
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    is_causal: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    qk_matmul_output_mode: int = 0,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    softmax_precision: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    folded = query.dim() == 3
    if folded:
        query = query.unflatten(-1, (q_num_heads, -1)).transpose(1, 2)
        key, value = (x.unflatten(-1, (kv_num_heads, -1)).transpose(1, 2) for x in (key, value))

    offset: int | Tensor = 0  # where the first query stands among the keys
    if past_key is not None and past_value is not None:
        offset = past_key.shape[2]
        key, value = torch.cat((past_key, key), 2), torch.cat((past_value, value), 2)
    elif nonpad_kv_seqlen is not None:
        offset = nonpad_kv_seqlen - query.shape[2]

    mask = regard.Mask()
    if is_causal:
        mask &= regard.causal(offset)
    if (left_window_size, right_window_size) != (-1, -1):
        left, right = (None if size == -1 else size for size in (left_window_size, right_window_size))
        mask &= regard.window(left, right, offset)
    if nonpad_kv_seqlen is not None:
        mask &= regard.padding(nonpad_kv_seqlen)
    if attn_mask is not None:
        boolean, missing = attn_mask.dtype == torch.bool, key.shape[2] - attn_mask.shape[-1]
        attn_mask = torch.nn.functional.pad(attn_mask, (0, missing), value=False if boolean else -math.inf)
        mask &= attn_mask if boolean else regard.bias(attn_mask)

    A = regard.AttentionMatrix(query, key, mask=mask, scale=scale, softcap=softcap or None)
    output = A @ value
    stage = (A.scaled, A.capped, A.masked, A)[qk_matmul_output_mode]
    return output.transpose(1, 2).flatten(2) if folded else output, key, value, stage[...]


def test_every_case_is_here():
    assert len(CASES) == 93
    assert {case.model.opset_import[0].version for case in CASES} == {23, 24, 25}
    shown = [case for case in CASES if "qk_matmul_output" in case.model.graph.node[0].output]
    assert {attributes(case).get("qk_matmul_output_mode", 0) for case in shown} == {0, 1, 2, 3}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removeprefix("test_attention_"))
def test_case(case: TestCase):
    node = case.model.graph.node[0]
    [(inputs, outputs)] = case.data_sets
    results = onnx_attention(*present(node.input, inputs), **attributes(case))
    for name, result, expected in zip(node.output, results, present(node.output, outputs), strict=False):
        if expected is None:
            continue
        unit = UNIT.get(expected.dtype)
        rtol, atol = (unit, unit / 4) if unit else (case.rtol, case.atol)
        torch.testing.assert_close(
            result, expected, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )
