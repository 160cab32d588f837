import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from regard.errors import DeviceError, DTypeError, RegardError, ShapeError
from regard.learn.four_steps import Steps, steps
from regard.learn.textbook import i_am_good, worked_example

STAGES = ("queries", "keys", "values", "scores", "scaled", "weights", "output")


def table(text):
    return [[Fraction(number) for number in row.split()] for row in text.strip().splitlines()]


X = table("1 0 1 0\n0 2 0 2\n1 1 1 1")
W_Q = table("0.1 0.2 0 0\n0 0.1 0.3 0\n0.1 0 0 0.2\n0 0 0.2 0.3")
W_K = table("0.2 0 0.1 0\n0 0.1 0 0.3\n0.1 0 0.2 0\n0 0.2 0 0.1")
W_V = table("0 0.1 0 0.2\n0.2 0 0.2 0\n0 0.3 0.1 0\n0.1 0 0 0.3")


def product(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))] for i in range(len(a))]


def by_hand():
    """The third document's example in exact fractions; floats only from exp on."""
    queries, keys, values = product(X, W_Q), product(X, W_K), product(X, W_V)
    scores = product(queries, list(zip(*keys, strict=True)))
    scaled = [[score / 2 for score in row] for row in scores]  # √4
    powers = [[math.exp(score) for score in row] for row in scaled]
    weights = [[power / math.fsum(row) for power in row] for row in powers]
    found = (queries, keys, values, scores, scaled, weights, product(weights, values))
    return dict(zip(STAGES, found, strict=True))


def random_input(words=5, width=6, d=4, d_v=3, seed=0):
    random = np.random.default_rng(seed)
    return tuple(random.normal(size=shape) for shape in ((words, width), (width, d), (width, d), (width, d_v)))


class TestWorkedExample:
    @pytest.mark.parametrize("stage", STAGES)
    @pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
    def test_every_matrix_is_as_computed_by_hand(self, stage, kind):
        *arrays, words = worked_example()
        got = getattr(steps(*map(kind, arrays), words), stage)
        expected = np.array(by_hand()[stage], dtype=float)
        assert got.shape == expected.shape
        np.testing.assert_allclose(np.asarray(got), expected, rtol=0, atol=1e-12)

    def test_literal_numbers(self):
        done = steps(*worked_example())
        np.testing.assert_allclose(done.queries[1], [0, 0.2, 1, 0.6], atol=1e-12)
        np.testing.assert_allclose(done.keys[2], [0.3, 0.3, 0.3, 0.4], atol=1e-12)
        np.testing.assert_allclose(done.values[0], [0, 0.4, 0.1, 0.2], atol=1e-12)
        np.testing.assert_allclose(done.scores, [[0.06, 0.28, 0.2], [0.3, 0.6, 0.6], [0.21, 0.58, 0.5]], atol=1e-12)
        np.testing.assert_allclose(done.scaled[2], [0.105, 0.29, 0.25], atol=1e-12)
        np.testing.assert_allclose(done.weights[0], [0.31359894, 0.35006362, 0.33633743], atol=1e-8)
        np.testing.assert_allclose(done.output[1], [0.31460744, 0.26017447, 0.27478191, 0.44469467], atol=1e-8)

    def test_it_is_the_document_s(self):
        x, w_q, w_k, w_v, words = worked_example()
        for got, expected in ((x, X), (w_q, W_Q), (w_k, W_K), (w_v, W_V)):
            assert got.tolist() == np.array(expected, dtype=float).tolist()
        assert words == ("word 1", "word 2", "word 3")


class TestIAmGood:
    shares = np.array([[90, 7, 3], [2.5, 95, 2.5], [21, 3, 76]]) / 100

    def test_dimensions(self):
        done = steps(*i_am_good())
        assert done.x.shape == (3, 512)
        assert done.w_q.shape == done.w_k.shape == done.w_v.shape == (512, 64)
        assert done.queries.shape == done.keys.shape == done.values.shape == done.output.shape == (3, 64)
        assert done.scores.shape == done.scaled.shape == done.weights.shape == (3, 3)
        assert done.words == ("I", "am", "good")

    def test_the_entries_that_are_shown(self):
        x = i_am_good().x
        assert x[:, :2].tolist() == [[1.76, 2.22], [7.77, 0.631], [11.44, 10.10]]
        assert x[:, -1].tolist() == [6.66, 5.35, 3.33]

    def test_scores_and_weights(self):
        done = steps(*i_am_good())
        np.testing.assert_allclose(done.weights, self.shares, rtol=0, atol=1e-10)
        np.testing.assert_allclose(np.diag(done.scores), [110, 99, 100], rtol=0, atol=1e-10)
        np.testing.assert_allclose(done.scaled, done.scores / 8, rtol=1e-15)
        np.testing.assert_allclose(done.output, self.shares @ done.values, atol=1e-9)

    def test_the_unseen_numbers_are_ordinary_and_always_the_same(self):
        first, second = i_am_good(), i_am_good()
        for name in ("x", "w_q", "w_k", "w_v"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert first.x.min() >= 0
        assert first.x.max() <= 12
        for w in (first.w_q, first.w_k, first.w_v):
            assert 0.03 < w.std() < 0.06
            assert abs(w).max() < 0.3
        assert len({w.tobytes() for w in (first.w_q, first.w_k, first.w_v)}) == 3


class TestArrays:
    def test_permuting_the_words_permutes_the_output(self):
        x, *weights = random_input(words=7)
        order = np.random.default_rng(1).permutation(7)
        straight, permuted = steps(x, *weights), steps(x[order], *weights)
        np.testing.assert_allclose(permuted.output, straight.output[order], atol=1e-13)
        np.testing.assert_allclose(permuted.weights, straight.weights[order][:, order], atol=1e-13)
        assert not np.allclose(permuted.output, straight.output)

    def test_numpy_in_numpy_out(self):
        done = steps(*random_input())
        assert all(type(getattr(done, stage)) is np.ndarray for stage in STAGES)

    def test_torch_in_torch_out_with_gradients(self):
        inputs = [torch.from_numpy(array).requires_grad_() for array in random_input()]
        done = steps(*inputs)
        assert all(isinstance(getattr(done, stage), torch.Tensor) for stage in STAGES)
        assert torch.autograd.gradcheck(lambda *arrays: steps(*arrays).output, inputs)
        assert str(done)  # a tensor with a gradient can be printed

    def test_numpy_and_torch_agree(self):
        arrays = random_input(seed=3)
        tensors = [torch.from_numpy(array) for array in arrays]
        for stage in STAGES:
            np.testing.assert_allclose(
                getattr(steps(*tensors), stage).numpy(), getattr(steps(*arrays), stage), atol=1e-13
            )

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_floats_keep_their_dtype(self, dtype):
        arrays = [array.astype(dtype) for array in random_input()]
        assert {getattr(steps(*arrays), stage).dtype for stage in STAGES} == {np.dtype(dtype)}
        tensors = [torch.from_numpy(array) for array in arrays]
        assert {getattr(steps(*tensors), stage).dtype for stage in STAGES} == {tensors[0].dtype}

    @pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
    def test_whole_numbers_become_float64(self, dtype):
        arrays = [np.eye(3, dtype=dtype)] * 4
        expected = steps(*[np.eye(3)] * 4).output
        assert steps(*arrays).output.dtype == np.float64
        np.testing.assert_array_equal(steps(*arrays).output, expected)
        tensors = [torch.from_numpy(array) for array in arrays]
        assert steps(*tensors).output.dtype == torch.float64
        np.testing.assert_allclose(steps(*tensors).output.numpy(), expected, atol=1e-15)

    def test_unlike_floats_meet_in_the_wider(self):
        x, *weights = random_input()
        assert steps(x.astype(np.float32), *weights).output.dtype == np.float64
        tensors = [torch.from_numpy(weight) for weight in weights]
        assert steps(torch.from_numpy(x).float(), *tensors).output.dtype == torch.float64

    def test_large_scores_do_not_overflow(self):
        x = np.array([[1000.0, 0.0], [0.0, 1000.0]])
        with np.errstate(over="raise", invalid="raise"):
            done = steps(x, np.eye(2), np.eye(2), np.eye(2))
        np.testing.assert_array_equal(done.weights, np.eye(2))

    def test_values_may_have_another_width(self):
        assert steps(*random_input(d=4, d_v=9)).output.shape == (5, 9)

    @pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
    def test_as_matrix_is_the_same_attention(self, kind):
        done = steps(*map(kind, random_input()))
        matrix = done.as_matrix()
        values = torch.as_tensor(done.values)
        np.testing.assert_allclose(matrix.to_dense().numpy(), np.asarray(done.weights), atol=1e-14)
        np.testing.assert_allclose((matrix @ values).numpy(), np.asarray(done.output), atol=1e-14)

    @pytest.mark.parametrize("d_v", [3, 4, 9])
    def test_as_matrix_keeps_the_gradient(self, d_v):
        x, *weights = (torch.from_numpy(array) for array in random_input(d=4, d_v=d_v))
        x.requires_grad_()
        done = steps(x, *weights)
        (through_matrix,) = torch.autograd.grad((done.as_matrix() @ done.values).sum(), x, retain_graph=True)
        (plain,) = torch.autograd.grad(done.output.sum(), x)
        torch.testing.assert_close(through_matrix, plain)

    def test_frozen(self):
        done = steps(*worked_example())
        assert isinstance(done, Steps)
        with pytest.raises(AttributeError):
            done.output = done.x


@pytest.mark.usefixtures("unchecked")
class TestBadInput:
    x, w_q, w_k, w_v = random_input()

    def wrong(self, error, match, **changed):
        given = {"x": self.x, "w_q": self.w_q, "w_k": self.w_k, "w_v": self.w_v, **changed}
        with pytest.raises(error, match=match) as caught:
            steps(**given)
        assert isinstance(caught.value, RegardError)

    def test_ranks(self):
        self.wrong(ShapeError, r"x must be \(words, width\): 2 axes. Got \(6,\): 1", x=self.x[0])
        self.wrong(ShapeError, r"Got \(1, 5, 6\): 3. For a batch", x=self.x[None])
        self.wrong(ShapeError, r"w_k must be \(width, d\)", w_k=self.w_k[0])

    def test_nothing(self):
        self.wrong(ShapeError, r"x must be .* at least 1. Got \(0, 6\)", x=self.x[:0])
        self.wrong(ShapeError, r"w_q must be .* at least 1. Got \(6, 0\)", w_q=self.w_q[:, :0])

    def test_widths(self):
        self.wrong(ShapeError, r"w_v must have a row for each column of x: width = 6. Got \(5, 3\)", w_v=self.w_v[1:])
        self.wrong(ShapeError, r"Is it transposed\? Use w_k.T", w_k=self.w_k.T)
        self.wrong(ShapeError, r"one width d.* Got 4 and 3", w_k=self.w_k[:, 1:])

    def test_kinds(self):
        self.wrong(DTypeError, r"all NumPy or all torch. Got x: ndarray, w_q: Tensor", w_q=torch.from_numpy(self.w_q))
        self.wrong(DTypeError, r"x must be a NumPy array .* Got a list. Use numpy.array\(x\)", x=self.x.tolist())

    @pytest.mark.parametrize("dtype", [bool, complex, object, str])
    def test_dtypes(self, dtype):
        self.wrong(DTypeError, "x must hold floats or whole numbers. Got", x=self.x.astype(dtype))

    @pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.float8_e4m3fn])
    def test_tensor_dtypes(self, dtype):
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in ("x", "w_q", "w_k", "w_v")}
        self.wrong(
            DTypeError,
            "w_v must hold floats or whole numbers. Got torch",
            **tensors | {"w_v": tensors["w_v"].to(dtype)},
        )

    def test_devices(self):
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in ("x", "w_q", "w_k", "w_v")}
        self.wrong(DeviceError, "one device. Got x: cpu, w_q: meta", **tensors | {"w_q": tensors["w_q"].to("meta")})

    def test_words(self):
        self.wrong(ShapeError, "words = 5. Got 2", words=("a", "b"))
        self.wrong(DTypeError, r"Got the string 'abcde'. Use words.split\(\)", words="abcde")
        self.wrong(DTypeError, r"words must be strings. Got 3 of type int", words=["a", "b", 3, "d", "e"])


GOLDEN = """\
Each word is a row of X. The matrices W are what a model learns.
        X  3×4       W_Q  4×4
word 1  1  0  1  0   0.1  0.2  0    0
word 2  0  2  0  2   0    0.1  0.3  0
word 3  1  1  1  1   0.1  0    0    0.2
                     0    0    0.2  0.3

        W_K  4×4             W_V  4×4
        0.2  0    0.1  0     0    0.1  0    0.2
        0    0.1  0    0.3   0.2  0    0.2  0
        0.1  0    0.2  0     0    0.3  0.1  0
        0    0.2  0    0.1   0.1  0    0    0.3

Each word asks with its query, answers with its key, gives its value.
        queries  Q = X W_Q   keys  K = X W_K      values  V = X W_V
        3×4 = (3×4)(4×4)     3×4 = (3×4)(4×4)     3×4 = (3×4)(4×4)
word 1  0.2  0.2  0    0.2   0.3  0    0.3  0     0    0.4  0.1  0.2
word 2  0    0.2  1    0.6   0    0.6  0    0.8   0.6  0    0.4  0.6
word 3  0.2  0.3  0.5  0.5   0.3  0.3  0.3  0.4   0.3  0.4  0.3  0.5

Each query meets each key. A row of scores becomes shares of the whole.
        1 scores  QKᵀ            2 scaled  ÷ √4 = 2       3 weights  softmax
        3×3 = (3×4)(4×3)         3×3                      3×3  each row is 100 %
        word 1  word 2  word 3   word 1  word 2  word 3   word 1  word 2  word 3
word 1    0.06    0.28     0.2    0.03     0.14    0.1    31.4 %    35 %  33.6 %
word 2    0.3     0.6      0.6    0.15     0.3     0.3    30.1 %    35 %    35 %
word 3    0.21    0.58     0.5    0.105    0.29    0.25   29.8 %  35.8 %  34.4 %

Each output is a mixture of the values, in these shares.
        4 output  Z = softmax(QKᵀ/√4) V
        3×4 = (3×3)(3×4)
word 1  0.311  0.260  0.272  0.441
word 2  0.315  0.260  0.275  0.445
word 3  0.318  0.257  0.276  0.447

z("word 1") = 31.4 % v("word 1") + 35 % v("word 2") + 33.6 % v("word 3")
z("word 2") = 30.1 % v("word 1") + 35 % v("word 2") + 35 % v("word 3")
z("word 3") = 29.8 % v("word 1") + 35.8 % v("word 2") + 34.4 % v("word 3")"""


class TestPrinting:
    def test_golden(self):
        assert str(steps(*worked_example())) == GOLDEN

    def test_torch_prints_the_same(self):
        *arrays, words = worked_example()
        assert str(steps(*(torch.from_numpy(a).float() for a in arrays), words)) == GOLDEN

    @pytest.mark.parametrize(
        "line",
        [
            'z("I") = 90 % v("I") + 7 % v("am") + 3 % v("good")',
            'z("am") = 2.5 % v("I") + 95 % v("am") + 2.5 % v("good")',
            'z("good") = 21 % v("I") + 3 % v("am") + 76 % v("good")',
            "I      1.76   2.22   …  6.66",
            "am     7.77   0.631  …  5.35",
            "good  11.44  10.1    …  3.33",
        ],
    )
    def test_the_sentence_of_the_document(self, line):
        lines = str(steps(*i_am_good())).split("\n")
        assert any(printed == line or printed.startswith(line + "  ") for printed in lines)

    @pytest.mark.parametrize(
        "text",
        [
            "3×512",
            "512×64",
            "Q = X W_Q",
            "3×64 = (3×512)(512×64)",
            "3×3 = (3×64)(64×3)",
            "÷ √64 = 8",
            "Z = softmax(QKᵀ/√64) V",
            "3×64 = (3×3)(3×64)",
        ],
    )
    def test_formulas_and_dimensions(self, text):
        assert text in str(steps(*i_am_good()))

    def test_scores_scaled_and_weights_stand_side_by_side(self):
        row = next(line for line in str(steps(*i_am_good())).split("\n") if line.startswith("I     110"))
        numbers = "110 89.6 82.8 13.8 11.2 10.3 90 % 7 % 3 %"
        assert row.split()[1:] == numbers.split()

    def test_a_root_that_is_not_whole(self):
        assert "÷ √5 ≈ 2.236" in str(steps(*random_input(d=5)))

    def test_words_have_names(self):
        assert steps(*random_input()).words == ("x1", "x2", "x3", "x4", "x5")
        assert steps(*random_input(), words=iter("abcde")).words == ("a", "b", "c", "d", "e")

    def test_long_inputs_are_elided(self):
        text = str(steps(*random_input(words=40)))
        labels = [line.split()[0] for line in text.split("\n") if line[:1] in "x⋮" and line]
        assert labels[:12] == ["x1", "x2", "x3", "x4", "x5", "x6", "⋮", "x36", "x37", "x38", "x39", "x40"]
        assert "40×40 = (40×4)(4×40)" in text
        assert max(map(len, text.split("\n"))) <= 80

    def test_not_a_number_is_shown_as_such(self):
        x, *weights = random_input(words=2)
        x[0, 0] = math.nan
        done = steps(x, *weights, words=("a", "b"))
        assert np.isnan(done.weights).all()
        assert 'z("a") = nan v("a") + nan v("b")' in str(done)

    def test_repr_is_one_short_line(self):
        assert repr(steps(*i_am_good())) == "Steps(words=3, width=512, d=64, dtype=float64)"
        tensors = [torch.from_numpy(array).bfloat16() for array in random_input()]
        assert repr(steps(*tensors)) == "Steps(words=5, width=6, d=4, dtype=torch.bfloat16)"
