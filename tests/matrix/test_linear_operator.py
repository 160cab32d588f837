"""`A.as_linear_operator()`: SciPy's solvers find what NumPy finds in the dense matrix."""

import sys

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigs, svds

import regard
from regard.backends.reference import Reference


def _matrix(dtype=torch.float64, **options):
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 120, 8), torch.randn(2, 2, 120, 8)
    return regard.AttentionMatrix(q.to(dtype), k.to(dtype), **options).part[1, 3]


@pytest.mark.parametrize("mask", [None, regard.causal(), regard.causal() & regard.cut(slice(50, 60), slice(0, 9))])
def test_singular_values_and_eigenvalues_are_those_of_the_dense_matrix(mask):
    A = _matrix(mask=mask)
    dense, operator = A.to_dense().numpy(), A.as_linear_operator()
    values = svds(operator, k=5, return_singular_vectors=False)
    np.testing.assert_allclose(np.sort(values), np.linalg.svd(dense, compute_uv=False)[4::-1], rtol=1e-8)
    found = eigs(operator, k=3, return_eigenvectors=False)
    largest = np.sort(np.abs(np.linalg.eigvals(dense)))[-3:]
    np.testing.assert_allclose(np.sort(np.abs(found)), largest, rtol=1e-7)


def test_products_both_ways():
    A = _matrix()
    dense, operator = A.to_dense().numpy(), A.as_linear_operator()
    x = np.random.default_rng(0).normal(size=(120, 3))
    assert operator.shape == (120, 120)
    assert operator.dtype == np.float64
    np.testing.assert_allclose(operator @ x, dense @ x, atol=1e-12)
    np.testing.assert_allclose(operator @ x[:, 0], dense @ x[:, 0], atol=1e-12)
    np.testing.assert_allclose(operator.T @ x[:, :1], dense.T @ x[:, :1], atol=1e-12)
    np.testing.assert_allclose(operator.H @ (x + 1j), dense.T @ (x + 1j), atol=1e-12)


def test_halves_are_multiplied_with_the_digits_of_floats():
    half = _matrix(torch.bfloat16)
    operator = half.as_linear_operator()
    assert operator.dtype == np.float32
    exact = Reference(half._core.scores.query[0, 0], half._core.scores.key[0, 0]).weights
    x = np.random.default_rng(0).normal(size=120)
    np.testing.assert_allclose(operator @ x, exact @ x, atol=1e-6)


def test_a_head_must_be_chosen():
    q = torch.randn(1, 3, 5, 8)
    A = regard.AttentionMatrix(q, q)
    with pytest.raises(regard.ShapeError, match=r"A.part\[0, 0\]"):
        A.as_linear_operator()
    assert A.part[:, :1].as_linear_operator().shape == (5, 5)


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse.linalg", None)
    with pytest.raises(regard.MissingDependencyError, match="pip install scipy"):
        _matrix().as_linear_operator()
