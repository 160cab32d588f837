"""`guide` trains: in half precision, from weights that are too small for their dtype; and what it refuses."""

import pytest
import torch

import regard
from regard.errors import InputError, OutOfRangeError


def test_it_teaches_a_head_where_to_look():
    """One head of a watched model learns to look at the token before; the others are free."""
    torch.manual_seed(0)
    model = regard.Encoder(2, width=32, heads=4, hidden=32)
    x = torch.randn(3, 12, 32)
    links = torch.tensor([[b, n, n - 1] for b in range(3) for n in range(1, 12)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        with regard.watch(model, keep="graph") as record:
            model(x)
        loss = regard.guide(record["layers.1.attention"].matrix.part[:, 2], links)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with regard.watch(model) as record:
        model(x)
    before = record["layers.1.attention"].matrix.diagonal(-1).mean((0, 2))
    assert loss < 0.1
    assert before[2] > 0.9
    assert before[[0, 1, 3]].max() < 0.5


def test_a_weight_that_underflows_still_has_a_gradient():
    query = torch.tensor([[200.0]], requires_grad=True)
    A = regard.AttentionMatrix(query, torch.tensor([[-1.0], [1.0]]), scale=1.0)
    assert A[0, 0] == 0
    loss = regard.guide(A, torch.tensor([[0, 0]]))
    loss.backward()
    assert loss == 400
    assert query.grad == 2  # d/dq (q + q)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_good_as_its_inputs(dtype):
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 8, 40, 16).to(dtype).unbind(0)
    links = torch.tensor([[0, 1, 30, 4], [2, 7, 39, 0], [2, 7, 39, 1]])
    ours, exact = (
        regard.guide(regard.AttentionMatrix(query.to(to), key.to(to), mask=regard.causal()), links)
        for to in (dtype, torch.float64)
    )
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), exact, atol=1e-5, rtol=1e-5)


def test_without_a_link_it_is_zero():
    A = regard.AttentionMatrix(torch.randn(5, 4, requires_grad=True), torch.randn(6, 4))
    assert regard.guide(A, torch.zeros(0, 2, dtype=torch.long)) == 0
    assert regard.guide(A, torch.zeros(5, 6, dtype=torch.bool)) == 0


@pytest.mark.parametrize(
    ("links", "error", "message"),
    [
        (torch.tensor([[1, 3]]), InputError, r"causal\(\) hides all those of row \(1,\)"),
        (torch.tensor([[4, 3], [1, 3]]), InputError, "Leave out the links of this row"),
        (torch.tensor([[0, 1, 1]]), InputError, r"must be whole numbers \(links, 2\)"),
        (torch.tensor([[0.0, 1.0]]), InputError, "of torch.float32"),
        ([(0, 1)], InputError, "Got list"),
        (torch.ones(3, 6, dtype=torch.bool), InputError, r"must broadcast to the shape of A, \(5, 6\)"),
        (torch.tensor([[5, 0]]), OutOfRangeError, "does not fit"),
    ],
)
def test_wrong_links_are_refused(links, error, message):
    A = regard.AttentionMatrix(torch.randn(5, 4), torch.randn(6, 4), mask=regard.causal())
    with pytest.raises(error, match=message):
        regard.guide(A, links)


def test_an_entry_of_a_record_is_told_apart():
    layer = regard.MultiHeadAttention(8, heads=2)
    with regard.watch(layer) as record:
        layer(torch.randn(1, 4, 8))
    with pytest.raises(InputError, match=r"Got Entry\. Use its \.matrix"):
        regard.guide(next(iter(record.values())), torch.tensor([[0, 0, 1, 1]]))
