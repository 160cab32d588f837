"""`check`: a learner's function compared with ours on random inputs; a `Verdict` says what differs."""

from __future__ import annotations

import ast
import linecache
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.learn.questions import read_chapter

_TRIALS = 5  # random inputs
_SECONDS = 10.0  # for a learner's function, over all trials


@dataclass(frozen=True)
class Verdict:
    """Whether a function is right and, if not, why; it is true in an `if` where the function is right."""

    name: str
    problem: str = ""

    def __bool__(self) -> bool:
        return not self.problem

    def __repr__(self) -> str:
        return f"{self.name}: {self.problem or f'right, on {_TRIALS} random inputs.'}"


@dataclass(frozen=True)
class Exercise:
    """A function to write: our solution, an expression for its arguments, and well-known mistakes.

    A mistake is a text of the solution, the text to put in its place, and what to say to a learner whose results are
    those of the changed solution.
    """

    name: str
    inputs: str  # a tuple, from `random`, a NumPy generator
    solution: str
    mistakes: list[list[str]]

    @property
    def stub(self) -> str:
        """The function with its docstring and without its body.

        >>> print(exercises(3)[0].stub.splitlines()[-1].strip())
        raise NotImplementedError("write it here")
        """
        function: Any = ast.parse(self.solution).body[-1]
        lines = self.solution.splitlines()[function.lineno - 1 : function.body[0].end_lineno]
        return "\n".join([*lines, '    raise NotImplementedError("write it here")', ""])

    @cached_property
    def functions(self) -> list[tuple[Callable[..., Any], str]]:
        """Our function, then its mistakes, each with what to say."""
        functions: list[tuple[Callable[..., Any], str]] = []
        for old, new, says in [["", "", ""], *self.mistakes]:
            names: dict[str, Any] = {}
            exec(compile(self.solution.replace(old, new) if old else self.solution, self.name, "exec"), names)
            functions.append((names[self.name], says))
        return functions

    def problem(self, function: Callable[..., Any]) -> str:
        """What is wrong with a function, in a sentence or two; "" if nothing is."""
        (ours, _), *mistakes = self.functions
        for trial in range(_TRIALS):

            def result_of(function: Callable[..., Any], trial: int = trial) -> Any:  # each gets arrays of its own
                return function(*eval(f"({self.inputs})", {"np": np, "random": np.random.default_rng(trial)}))

            result = result_of(function)
            if problem := next(_differences(result, result_of(ours)), ""):
                said = (says for mistake, says in mistakes if not any(_differences(result, result_of(mistake))))
                return f"{problem} {next(said, '')}".strip()
        return ""


def exercises(number: int) -> list[Exercise]:
    """The exercises of a chapter.

    >>> [exercise.name for exercise in exercises(6)]
    ['multi_head', 'encoder_layer']
    """
    return [Exercise(**each) for each in read_chapter("code", number)["exercise"]]


def check(number: int, function: Callable[..., Any], seconds: float = _SECONDS) -> Verdict:
    """Compare a function with ours on random inputs, and say what differs first.

    Args:
        number: the chapter.
        function: a function with the name of an exercise of this chapter, for NumPy arrays.
        seconds: how long it may run.

    >>> def softmax(scores):
    ...     powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    ...     return powers / powers.sum(axis=0)
    >>> check(4, softmax)
    softmax: row 0 sums to 1.73, and must sum to 1. Divide by the sum of the row, not of the column.
    """
    every = {exercise.name: exercise for exercise in exercises(number)}
    name = getattr(function, "__name__", str(function))
    if name not in every:
        raise InputError(f"chapter {number} asks for a function {' or '.join(every)}. Got {name}.")
    return _verdict(every[name], function, seconds)


def check_file(path: str | Path, number: int, seconds: float = _SECONDS) -> list[Verdict]:
    """Check the functions in a learner's file: all exercises of a chapter."""
    names: dict[str, Any] = {}
    problem = _problem(lambda: names.update(runpy.run_path(str(path))) or "", str(path), seconds)
    if problem:
        return [Verdict(Path(path).name, problem)]
    return [_verdict(each, names.get(each.name), seconds) for each in exercises(number)]


def _verdict(exercise: Exercise, function: Callable[..., Any] | None, seconds: float) -> Verdict:
    if function is None:
        return Verdict(exercise.name, "the file has no function of this name.")
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    return Verdict(exercise.name, _problem(partial(exercise.problem, function), file, seconds))


def _problem(work: Callable[[], str], filename: str, seconds: float) -> str:
    """Do a piece of work for at most some seconds; return what it returns, or what stopped it and in which line."""
    deadline, before = time.monotonic() + seconds, sys.gettrace()

    def trace(frame: FrameType, *_: Any) -> Any:  # ends an endless loop
        if frame.f_globals.get("__spec__") is not None and frame.f_code.co_filename != filename:
            return None  # a library: tracing would make it slow
        frame.f_trace_opcodes = True  # `while True: pass` is one line, which is never left
        if time.monotonic() > deadline:
            raise TimeoutError(f"it still runs after {seconds:g} seconds. Is there a loop that never ends?")
        return trace

    sys.settrace(trace)
    try:
        with np.errstate(all="ignore"):
            return work()
    except NotImplementedError:
        return "not written yet. Put your code in place of the line `raise NotImplementedError`."
    except (Exception, SystemExit) as error:
        sys.settrace(before)
        kind = "" if isinstance(error, TimeoutError) else f"{type(error).__name__}: "
        places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
        line = error.lineno if isinstance(error, SyntaxError) else next(reversed(places), None)
        linecache.checkcache(filename)  # the learner may have changed the file
        where = "" if line is None else f"\n    line {line}:  {linecache.getline(filename, line).strip()}"
        return f"{kind}{getattr(error, 'msg', error)}{where}"
    finally:
        sys.settrace(before)


# What differs between a learner's result and ours


def _differences(result: Any, right: Any) -> Iterator[str]:
    """Say what differs, the most basic difference first."""
    if result is None:
        yield "it returns None. Does it end with `return`?"
    elif isinstance(right, tuple):
        if not isinstance(result, tuple | list) or len(result) != len(right):
            yield f"it must return {len(right)} arrays."
            return
        for place, pair in enumerate(zip(result, right, strict=True)):
            yield from (f"array {place} (counted from 0) of the result: {text}" for text in _differences(*pair))
    elif isinstance(right, np.ndarray):
        yield from _in_arrays(result, right)
    elif result != right:
        yield f"it must return {right!r}. Got {result!r}."


def _in_arrays(result: Any, right: NDArray[Any]) -> Iterator[str]:
    try:
        array = np.asarray(result.detach().cpu() if hasattr(result, "detach") else result)
    except ValueError:  # a list with rows of different lengths
        array = np.empty(0, object)
    is_bool = right.dtype.kind == "b"
    if array.dtype.kind not in "fiub":
        yield f"it must return an array of numbers. Got {type(result).__name__}."
    elif array.shape != right.shape:
        turned = " Is it transposed?" if array.shape == right.shape[::-1] else ""
        yield f"its result must have shape {right.shape}. Got {array.shape}.{turned}"
    elif (array.dtype.kind == "b") != is_bool:
        yield f"its result must have dtype {right.dtype}. Got {array.dtype}."
    else:
        wrong = np.argwhere(~np.isclose(array, right, rtol=1e-4, atol=1e-6, equal_nan=True))
        if not len(wrong):
            return
        sums = array.sum(-1)
        is_shares = np.allclose(right.sum(-1), 1)
        for nan in np.argwhere(np.isnan(sums) & ~np.isnan(right.sum(-1))):
            yield f"{_row(nan)} has nan, and must have numbers."
        for uneven in np.argwhere(~np.isclose(sums, 1, atol=1e-4) & is_shares):
            yield f"{_row(uneven)} sums to {sums[tuple(uneven)]:.3g}, and must sum to 1."
        first = tuple(int(n) for n in wrong[0])
        ours, theirs = (str(each[first]) if is_bool else f"{each[first]:.4g}" for each in (right, array))
        yield f"entry {list(first)} must be {ours}. Got {theirs}."


def _row(place: NDArray[Any]) -> str:
    return f"row {', '.join(map(str, place))}" if len(place) else "the result"
