"""Pooled bins are the means that AttentionMatrix.pool gives."""

import numpy as np
import pytest
import torch

import regard
from regard.drawing.terminal import pooled


class TestPooling:
    @pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 7), (10, 13), (64, 64)])
    def test_bins_are_means_of_their_blocks_as_the_matrix_has_them(self, rows, columns):
        A = regard.AttentionMatrix(torch.randn(10, 4, dtype=torch.float64), torch.randn(13, 4, dtype=torch.float64))
        np.testing.assert_allclose(
            pooled(A.to_dense().numpy(), rows, columns), A.pool(rows, columns).numpy(), rtol=1e-9
        )
