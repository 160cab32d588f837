"""What heads do, measured on matrices that were made to do it."""

import pytest
import torch

import regard
from regard.watching.questions.atlas import Role, roles

WORDS = ["the", "dog", "saw", "the", "cat", ",", "and", "the", "old", "dog", "ran", "away", "from", "the", "cat", "."]
N = len(WORDS)


class Constructed(torch.nn.Module):
    """A layer whose attention is the matrix that it is given: scores log W, for keys that are unit vectors."""

    heads, attend = 1, staticmethod(regard.attention)

    def __init__(self, kind="encoder", mask=None):
        super().__init__()
        self.kind, self.mask = kind, mask

    def forward(self, weights):
        keys = torch.eye(weights.shape[-1])[None, None].expand(1, weights.shape[1], -1, -1)
        return self.attend(weights.clamp_min(1e-9).log(), keys, keys, scale=1.0, mask=self.mask)


def named(*heads, words=WORDS, kind="encoder", mask=None):
    """The names of the roles of these matrices, the heads of one layer."""
    weights = torch.stack([head / head.sum(-1, keepdim=True) for head in heads])[None]
    with regard.watch(Constructed(kind, mask), tokens=words) as record:
        record.model(weights)
    return [role.name for role in roles(list(record.values()))[0]]


def mostly(targets, share=0.7):
    """Rows that give a share to one key each, and the rest to all alike; None: all alike."""
    weights = torch.full((N, N), (1 - share) / N)
    for row, target in enumerate(targets):
        if target is None:
            weights[row] = 1 / N
        else:
            weights[row, target] += share
    return weights


def other_place(n):
    return next((m for m in range(N) if m != n and WORDS[m] == WORDS[n]), None)


def after_last(n):
    before = [m for m in range(n) if WORDS[m] == WORDS[n]]
    return before[-1] + 1 if before else None


MADE = {
    "previous token": [max(n - 1, 0) for n in range(N)],
    "next token": [min(n + 1, N - 1) for n in range(N)],
    "itself": list(range(N)),
    "first token": [0] * N,
    "same word": [other_place(n) for n in range(N)],
    "after same word": [after_last(n) for n in range(N)],
    "punctuation": [5 if n < 9 else N - 1 for n in range(N)],
    "one at a time": [(5 * n + 3) % N for n in range(N)],
}


@pytest.mark.parametrize("name", MADE)
def test_a_head_that_was_made_for_it(name):
    assert named(mostly(MADE[name])) == [name]


def test_all_alike_and_mixed():
    torch.manual_seed(0)
    spread = torch.rand(N, N) ** 6
    assert named(torch.ones(N, N), spread) == ["all alike", "mixed"]


def test_nearby_tokens():
    away = (torch.arange(N) - torch.arange(N)[:, None]).abs()
    assert named((away <= 3) + 1e-3) == ["nearby tokens"]
    assert named((away <= 5) + 1e-3) == ["mixed"]


def test_below_its_threshold_it_is_no_role():
    assert named(mostly(MADE["previous token"], 0.45)) == ["previous token"]
    assert named(mostly(MADE["previous token"], 0.3)) == ["mixed"]


def test_a_sink_has_its_name():
    """What most rows of four heads give most to, not the first token: it is a sink, and called by its name."""
    head = mostly([N - 1] * N)
    words = [*WORDS[:-1], "away"]
    assert named(head, head, head, head, words=words) == ['"away" (token 15) (a sink)'] * 4


def test_a_causal_head_may_not_look_ahead():
    weights = mostly([max(n - 1, 0) for n in range(N)]).tril()
    assert named(weights, kind="decoder", mask=regard.causal()) == ["previous token"]
    even = torch.ones(N, N).tril()
    assert named(even, kind="decoder", mask=regard.causal()) == ["all alike"]


def test_what_one_row_does_is_no_habit_and_hides_none():
    """Only the second "a" has an earlier one to look at."""
    words = ["a", "dog", ",", "saw", "a", "cat", "and", "ran"]
    weights = torch.full((8, 8), 0.02)
    weights[:, 2], weights[4, 2], weights[4, 0] = 1.0, 0.3, 1.0
    assert named(weights.tril(), words=words, kind="decoder", mask=regard.causal()) == ["punctuation"]


def test_cross_attention_has_no_place_of_its_own():
    assert named(mostly(list(range(N))), kind="cross") == ["one at a time"]


def test_two_words_are_too_few():
    assert named(torch.eye(2) + 0.1, words=["a", "b"]) == ["too short to tell"]


def test_a_long_text_is_measured_on_some_of_its_rows():
    count = 5000
    x = torch.arange(count).float()
    angle = x[:, None] * 0.5 ** torch.arange(8)  # sines of the place: a query like the key one before it
    keys = 6 * torch.cat([angle.sin(), angle.cos()], -1)
    queries = 6 * torch.cat([(angle - 0.5 ** torch.arange(8)).sin(), (angle - 0.5 ** torch.arange(8)).cos()], -1)

    class Long(torch.nn.Module):
        heads, kind, attend = 1, "encoder", staticmethod(regard.attention)

        def forward(self, query, key):
            return self.attend(query, key, key, scale=1.0)

    with regard.watch(Long()) as record:
        record.model(queries[None, None], keys[None, None])
    ((role,),) = roles(list(record.values()))
    dense = record[""].to_dense()[0, 0]
    assert role.name == "previous token"
    assert role.weight == pytest.approx(float(dense.diagonal(-1).mean()), abs=0.05)


def test_shares_are_measured():
    weights = mostly(MADE["itself"], 0.6)
    with regard.watch(Constructed(), tokens=WORDS) as record:
        record.model(weights[None, None])
    ((role,),) = roles(list(record.values()))
    assert role == Role("itself", pytest.approx(0.6 + 0.4 / N, abs=1e-6))
