"""Exercises in code: our solutions are regard's own results, each planted mistake is found and named."""

import ast
import copy
import math
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from support.process import run

import regard
from regard import cli
from regard.learn import check, check_file, exercises
from regard.learn.questions import chapters
from regard.matrix import AttentionMatrix
from regard.nn import sinusoids

COURSE = Path(__file__).parents[2] / "docs" / "course"
EVERY = [(number, exercise) for number in chapters("code") for exercise in exercises(number)]
NAMES = [f"{number} {exercise.name}" for number, exercise in EVERY]
MISTAKES = [(number, each, place) for number, each in EVERY for place in range(len(each.mistakes))]


def solution(number, name):
    (exercise,) = (each for each in exercises(number) if each.name == name)
    return exercise.functions[0][0]


@pytest.mark.parametrize(("number", "exercise"), EVERY, ids=NAMES)
def test_our_solution_is_right_and_the_stub_is_told_to_be_one(number, exercise):
    assert check(number, exercise.functions[0][0])
    names = {}
    exec(exercise.stub, names)
    verdict = check(number, names[exercise.name])
    assert not verdict
    assert "not written yet" in repr(verdict)
    assert exercise.functions[0][0].__doc__ == names[exercise.name].__doc__


@pytest.mark.parametrize(
    ("number", "exercise", "place"), MISTAKES, ids=[f"{n} {each.name} {place}" for n, each, place in MISTAKES]
)
def test_each_mistake_is_found_and_named(number, exercise, place):
    """A mistake that had the results of another one, or right results, would get another name, or none."""
    old, _, says = exercise.mistakes[place]
    assert old in exercise.solution
    verdict = check(number, exercise.functions[place + 1][0])
    assert not verdict
    assert repr(verdict).endswith(f" {says}")


# Our solutions against regard and torch


def tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


def test_one_head_is_what_regard_computes():
    random = np.random.default_rng(7)
    q, k, v = random.normal(size=(3, 6, 4))
    expected = regard.attention(*tensors(q, k, v)).numpy()
    np.testing.assert_allclose(solution(5, "attention")(q, k, v), expected, atol=1e-12)
    np.testing.assert_allclose(solution(4, "softmax")(solution(3, "scaled_scores")(q, k)) @ v, expected, atol=1e-12)
    x, weights = random.normal(size=(6, 8)), random.normal(size=(3, 8, 4))
    done = regard.steps(x, *weights)
    for ours, theirs in zip(solution(2, "project")(x, *weights), (done.queries, done.keys, done.values), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    causal = AttentionMatrix(*tensors(q, k), mask=regard.causal()).to_dense().numpy()
    np.testing.assert_allclose(solution(7, "causal_weights")(q @ k.T / 2), causal, atol=1e-12)
    cached = regard.attention(*tensors(q[4:], k, v), mask=regard.causal(offset=4)).numpy()
    np.testing.assert_allclose(solution(10, "attend_with_cache")(q[4:], k[4:], v[4:], k[:4], v[:4]), cached, atol=1e-12)
    source = random.normal(size=(9, 8))
    expected = regard.attention(*tensors(x @ weights[0], source @ weights[1], source @ weights[2])).numpy()
    np.testing.assert_allclose(solution(7, "cross_attention")(x, source, *weights), expected, atol=1e-12)


def test_heads_and_a_layer_are_those_of_regard():
    torch.manual_seed(0)
    layer = regard.EncoderLayer(8, 2, 16, bias=False).double().eval()
    x = torch.randn(5, 8, dtype=torch.double)
    w_q, w_k, w_v = (part.mT.detach().numpy() for part in layer.attention.projection.weight.split(8))
    w_o = layer.attention.output.weight.mT.detach().numpy()
    ours = solution(6, "multi_head")(x.numpy(), w_q, w_k, w_v, w_o, 2)
    np.testing.assert_allclose(ours, layer.attention(x).detach().numpy(), atol=1e-10)
    parts = [
        lambda y, part=part: part(torch.from_numpy(y)).detach().numpy()
        for part in (layer.attention, layer.feed_forward)
    ]
    np.testing.assert_allclose(solution(6, "encoder_layer")(x.numpy(), *parts), layer(x).detach().numpy(), atol=1e-6)


def test_positions_groups_and_windows():
    ours = solution(11, "sinusoids")(7, 8)  # the columns of the paper: regard has all sines first, as Marian
    np.testing.assert_allclose(np.hstack([ours[:, 0::2], ours[:, 1::2]]), sinusoids(7, 8).numpy(), atol=1e-6)
    random = np.random.default_rng(0)
    q, (k, v) = random.normal(size=(6, 5, 4)), random.normal(size=(2, 2, 5, 4))
    expected = regard.attention(*tensors(q, k, v)).numpy()
    np.testing.assert_allclose(solution(12, "grouped_attention")(q, k, v), expected, atol=1e-12)
    visible = AttentionMatrix(*tensors(q[0], k[0]), mask=regard.window(2, 0)).to_dense().numpy() > 0
    np.testing.assert_array_equal(solution(12, "window_mask")(5, 3, 0), visible)
    rotate = solution(11, "rotate")
    a, b = rotate(q[0], np.array([3, 4, 5, 6, 7])), rotate(k[0], np.array([1, 2, 3, 4, 5]))
    c, d = rotate(q[0], np.array([13, 14, 15, 16, 17])), rotate(k[0], np.array([11, 12, 13, 14, 15]))
    np.testing.assert_allclose(a @ b.T, c @ d.T, atol=1e-12)  # only the distance counts
    from transformers.models.llama.modeling_llama import rotate_half

    angles = torch.arange(5.0)[:, None] * 10000.0 ** -torch.tensor([0, 0.5, 0, 0.5])
    x = torch.from_numpy(q[0])
    expected = x * angles.cos() + rotate_half(x) * angles.sin()
    np.testing.assert_allclose(rotate(q[0], np.arange(5)), expected.numpy(), atol=1e-6)


def test_gradients_are_those_of_autograd():
    q, k, v, gradient = (torch.randn(5, 4, dtype=torch.double, requires_grad=True) for _ in range(4))
    output = (q @ k.mT / math.sqrt(4)).softmax(-1) @ v
    expected = torch.autograd.grad(output, (q, k, v), gradient.detach())
    ours = solution(13, "attention_backward")(*(each.detach().numpy() for each in (q, k, v, gradient)))
    for each, theirs in zip(ours, expected, strict=True):
        np.testing.assert_allclose(each, theirs.numpy(), atol=1e-12)


def test_rollout_and_induction_are_those_of_a_record():
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = regard.Encoder(3, 16, 2, 16)

        def forward(self, x):
            return self.encoder(x)

    torch.manual_seed(0)
    with torch.no_grad(), regard.watch(Layers().eval(), tokens=["a", "b", "a", "c", "a"]) as record:
        record.model(torch.randn(1, 5, 16))
    weights = np.stack([entry.to_dense()[0].numpy() for entry in record.values()])
    top = {look.position: look.weight for look in record.rollout(4, sinks=True)}
    ours = solution(8, "rollout")(weights)[4]
    np.testing.assert_allclose(
        ours, [top[range(n, n + 1)] if range(n, n + 1) in top else top[n] for n in range(5)], atol=1e-6
    )
    heads = {(head.layer, head.head): head.weight for head in record.scores("induction")}
    ours = solution(14, "induction_score")(weights[1], [0, 1, 0, 2, 0])
    np.testing.assert_allclose(ours, [heads[1, 0], heads[1, 1]], atol=1e-6)


def test_words_pieces_and_shares():
    assert solution(9, "encode")("banana", [("a", "n"), ("an", "a")]) == ["b", "an", "ana"]
    logits = np.array([1.0, 3.0, 2.0])
    shares = solution(10, "next_token_shares")(logits, 0.5)
    np.testing.assert_allclose(shares, torch.from_numpy(logits / 0.5).softmax(0).numpy())
    table = np.arange(6.0).reshape(3, 2)
    assert solution(1, "embed")(["b", "a", "b"], ["a", "b", "c"], table).tolist() == [[2, 3], [0, 1], [2, 3]]


# What a learner may write


def says(code, number=4):
    """What is said about a function that is written in this code."""
    names = {"np": np, "torch": torch}
    exec(textwrap.dedent(code), names)
    (function,) = (value for name, value in names.items() if getattr(value, "__code__", None) and name != "helper")
    return repr(check(number, function, seconds=1))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def softmax(scores): pass", "it returns None. Does it end with `return`?"),
        ("def softmax(scores): return torch.from_numpy(scores).softmax(-1)", "right, on 5 random inputs."),
        ("def softmax(scores): return torch.from_numpy(scores).softmax(0)", "must be those of a row"),
        ("def softmax(scores): return [[1], [1, 2]]", "it must return an array of numbers. Got list."),
        ("def softmax(scores): return 'shares'", "it must return an array of numbers. Got str."),
        ("def softmax(scores): return scores.T", r"must have shape (4, 6). Got (6, 4). Is it transposed?"),
        ("def softmax(scores): return scores > 0", "must have dtype float64. Got bool."),
        ("def softmax(scores): return np.full((4, 6), 1 / 6)", "entry [0, 0] must be"),
        ("def softmax(scores): return np.full((4, 6), 1.3 / 6)", "row 0 sums to 1.3, and must sum to 1."),
        ("def softmax(scores): return 1 / 0", "ZeroDivisionError: division by zero"),
        ("def softmax(scores, more): return scores", "TypeError: softmax() missing 1 required positional argument"),
        ("def softmax(scores):\n  while True: pass", "it still runs after 1 seconds. Is there a loop that never ends?"),
    ],
)
def test_what_is_said(code, expected):
    assert f"softmax: {expected}" in says(code) or expected in says(code)


def test_several_arrays():
    assert "it must return 3 arrays." in says("def project(x, w_q, w_k, w_v): return x @ w_q", 2)


def test_a_tracer_is_put_back():
    before = sys.gettrace()
    says("def softmax(scores): return 1 / 0")
    assert sys.gettrace() is before


def test_libraries_are_not_traced():
    """To trace each instruction of an import, as of scipy, took longer than an exercise may take."""
    tracers = []

    class Caller:
        def __deepcopy__(self, memo):
            tracers.extend(frame.f_trace for frame in (sys._getframe(0), sys._getframe(1)))
            return self

    def softmax(scores):
        copy.deepcopy(Caller())

    check(4, softmax)
    own, library = tracers[:2]
    assert own is not None
    assert library is None


def test_other_functions_and_chapters_are_refused():
    with pytest.raises(
        regard.InputError, match=r"chapter 6 asks for a function multi_head or encoder_layer\. Got steps"
    ):
        check(6, regard.steps)
    with pytest.raises(regard.InputError, match=r"chapters 1 to 14\. Got 15"):
        exercises(15)


def test_a_file(tmp_path):
    path = tmp_path / "chapter_4.py"
    path.write_text("import numpy as np\n\n\ndef helper(x):\n    return x @ np.ones(99)\n\n\nsoftmax = helper\n")
    (verdict,) = check_file(path, 4, seconds=5)
    assert re.search(r"softmax: ValueError: matmul.*\n    line 5:  return x @ np.ones\(99\)$", repr(verdict))
    path.write_text("def softmax(scores)\n    return scores\n")
    assert repr(check_file(path, 4)) == "[chapter_4.py: SyntaxError: expected ':'\n    line 1:  def softmax(scores)]"
    path.write_text("while True:\n    pass\n")
    assert "it still runs after 1 seconds" in repr(check_file(path, 4, seconds=1))
    path.write_text("import sys\nsys.exit(0)\n")
    assert "SystemExit: 0\n    line 2:  sys.exit(0)" in repr(check_file(path, 4))
    path.write_text("x = 1\n")
    assert repr(check_file(path, 4)) == "[softmax: the file has no function of this name.]"


# The command


@pytest.mark.slow
def test_the_command_writes_a_file_once_and_checks_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["quiz", "--code", "7"]) == 0
    assert capsys.readouterr().out == (
        "Wrote chapter_7.py. Fill in causal_weights and cross_attention, then run the same command again.\n"
    )
    path = tmp_path / "chapter_7.py"
    written = path.read_text()
    with pytest.raises(SystemExit) as stop:
        cli.main(["quiz", "7", "--code"])
    assert stop.value.code == 1
    assert capsys.readouterr().out.count("not written yet") == 2
    assert path.read_text() == written  # never overwritten
    path.write_text("import numpy as np\n" + "\n".join(each.solution for each in exercises(7)) + "print('hello')\n")
    assert cli.main(["quiz", "--code", "7"]) == 0
    assert capsys.readouterr().out.count("right, on 5 random inputs.") == 2


@pytest.mark.slow
def test_the_command_ends_what_does_not_end(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("chapter_4.py").write_text("import time\ntime.sleep(999)\n")  # no line of Python runs meanwhile
    monkeypatch.setattr("regard.cli.learning._KILLED", 0.5)
    assert cli.main(["quiz", "--code", "4"]) == 2
    assert "chapter_4.py did not end in 0.5 seconds" in capsys.readouterr().err
    Path("chapter_4.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.setattr("regard.cli.learning._KILLED", 60)
    assert cli.main(["quiz", "--code", "4"]) == 2
    assert "ended Python with exit code 3." in capsys.readouterr().err


@pytest.mark.parametrize(("given", "known"), [([], "--code takes a CHAPTER"), (["15"], "from 1 to 14. Got '15'")])
def test_the_command_names_the_chapters(given, known, capsys):
    assert cli.main(["quiz", "--code", *given]) == 2
    assert known in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_in_a_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("quiz", "--code", "3")
    assert (done.returncode, done.stderr) == (0, b"")
    assert run("quiz", "--code", "3").returncode == 1


# The pages


@pytest.mark.parametrize("path", sorted(COURSE.glob("[0-9]*.py")), ids=lambda path: path.name)
def test_each_chapter_ends_with_its_exercises(path):
    number = int(path.name.partition("_")[0])
    tree = ast.parse(path.read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for exercise in exercises(number):
        (stub,) = ast.parse(exercise.stub).body
        assert ast.dump(functions[exercise.name]) == ast.dump(stub)
        assert f"\ncheck({number}, {exercise.name})\n" in path.read_text()
