"""Random attention problems for the laws: shapes, masks, dtypes, everything that may meet everything else."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.backends import torch_cpu
from regard.backends.reference import Reference
from regard.backends.tiles import reductions, tile
from regard.backends.triton import tuning
from support.attention.interpreter import shortcuts

BACKENDS = ("torch_cpu", "tiles")  # and "triton", which test_triton.py holds to the same laws
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_where = ["cpu"]  # the last of them is where matrices are computed
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
# How far a result may be from float64, relative to its size: sums of many rounded products.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-5, torch.bfloat16: 6e-4, torch.float16: 6e-4}


@contextlib.contextmanager
def using(backend: str, small: bool, numpy_products: bool = False):
    """Compute with this backend; `small`: with tiles so small that every seam between them is met."""
    changes: list[tuple[Any, str, Any]] = []
    if backend == "triton":  # on a CPU in Triton's interpreter
        _where.append(DEVICE)
        if DEVICE == "cpu":  # fewer programs: each takes the interpreter its time
            changes += shortcuts(numpy_products)
            changes.append((tuning, "SETTLE", (32, 32, 4)))
            changes.append((tuning, "SEARCH", [(step, warps, 2) for step, warps, _ in tuning.SEARCH]))
    if small:
        changes += [(tile, "_ROWS", 8), (tile, "_SIZE", 64), (torch_cpu, "_POINTS", 64), (reductions, "_STRIP", 24)]
    before = [getattr(module, name) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        with regard.backends.use(backend):
            yield
    finally:
        for (module, name, _), value in zip(changes, before, strict=True):
            setattr(module, name, value)
        if backend == "triton":
            _where.pop()


def there(tensor: Tensor) -> Tensor:
    """Where matrices are computed: on a GPU if it is the kernels' turn and there is one."""
    return tensor.to(_where[-1])


def moved(options: dict[str, Any]) -> dict[str, Any]:
    """Masks and sinks too."""
    given = {name: there(option) if isinstance(option, Tensor) else option for name, option in options.items()}
    if isinstance(given.get("mask"), regard.Mask):
        atoms = given["mask"].atoms
        fields = [{k: there(v) if isinstance(v, Tensor) else v for k, v in vars(atom).items()} for atom in atoms]
        given["mask"] = regard.Mask(tuple(type(a)(**f) for a, f in zip(atoms, fields, strict=True)))
    return given


class Case:
    def __init__(self, query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any], seed: int = 0):
        self.query, self.key, self._value, self.options, self.seed = query, key, value, options, seed

    @property
    def value(self) -> Tensor:
        return self._value.to(_where[-1])

    def matrix(self) -> regard.AttentionMatrix:
        return regard.AttentionMatrix(there(self.query), there(self.key), **moved(self.options))

    def reference(self) -> Reference:
        return Reference(self.query, self.key, **self.options)

    def __repr__(self) -> str:
        shapes = [tuple(tensor.shape) for tensor in (self.query, self.key, self.value)]
        return f"Case({shapes}, {self.dtype}, seed={self.seed}, {self.options})"

    @property
    def dtype(self) -> torch.dtype:
        return self.query.dtype


@st.composite
def masks(draw, batch: tuple[int, ...], heads: int, queries: int, keys: int, generator, plain: bool):
    def per_batch(low: int, high: int) -> Tensor:
        return torch.randint(low, high + 1, batch, generator=generator)

    def dense(tensor: Tensor) -> Tensor:
        """Axes left out or shared, as users do."""
        shape = [*batch, heads, queries, keys]
        if plain:
            shape = shape[-2:]
        keep = draw(st.integers(2, len(shape)))
        shape = shape[-keep:]
        shape = [
            1 if n < len(shape) - 1 and draw(st.booleans()) and draw(st.booleans()) else s for n, s in enumerate(shape)
        ]
        return tensor(shape)

    def bools(shape):
        return torch.rand(shape, generator=generator) < 0.7

    def floats(shape):
        low = draw(st.sampled_from([-torch.inf, torch.finfo(torch.float32).min, -6e29, -3.0]))
        return torch.randn(shape, generator=generator).masked_fill(torch.rand(shape, generator=generator) < 0.2, low)

    def cut(biases):
        def some(length: int):
            runs = st.tuples(st.integers(0, length), st.integers(0, length)).map(lambda ends: slice(*sorted(ends)))
            return draw(st.none() | st.integers(0, max(length - 1, 0)) | runs | st.just(bools((*batch, length))))

        numbers = st.just([heads - 1]) | st.just(bools((*batch, heads)))
        return regard.cut(
            some(queries),
            some(keys),
            within=draw(st.none() | st.none() | st.builds(regard.window, st.integers(-1, 9), st.integers(-1, 3))),
            heads=None if plain or draw(st.booleans()) else draw(numbers),
            bias=draw(biases),
        )

    whole = st.integers(-queries - 2, keys + 2)
    atoms = {
        "causal": lambda: regard.causal(draw(st.sampled_from([0, keys - queries]) | whole)),
        "causal per batch": lambda: regard.causal(per_batch(-queries - 1, keys + 1)),
        "window": lambda: regard.window(
            draw(st.none() | st.integers(-2, 9)), draw(st.none() | st.integers(-2, 9)), draw(whole)
        ),
        "lengths": lambda: regard.padding(per_batch(0, keys)),
        "bools": lambda: regard.padding(bools((*batch, keys))),
        "documents": lambda: regard.documents(
            torch.randint(3, (*batch, queries), generator=generator).sort(-1).values,
            torch.randint(3, (*batch, keys), generator=generator),
        ),
        "bias": lambda: regard.bias(dense(floats)),
        "visible": lambda: dense(bools),
        "cut": lambda: cut(st.sampled_from([-torch.inf, -torch.inf, 1.5])),
        "another cut": lambda: cut(st.just(-torch.inf)),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(atoms)), max_size=3, unique=True))
    mask = None
    for name in chosen:
        atom = atoms[name]()
        mask = atom if mask is None else (regard.Mask() & mask) & atom
    return mask


@st.composite
def cases(draw, dtypes=DTYPES, least: int = 0, most: int = 33) -> Case:
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    plain = draw(st.sampled_from([False] * 7 + [True]))
    batch = () if plain else draw(st.sampled_from([(), (1,), (2,), (3,), (2, 2)]))
    key_heads, group = (1, 1) if plain else draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (1, 3)]))
    queries, keys = draw(st.integers(least, most)), draw(st.integers(least, most))
    width, value_width = draw(st.sampled_from([1, 3, 8, 16])), draw(st.sampled_from([1, 4, 8, 20]))
    dtype = draw(st.sampled_from(dtypes))

    def normal(*shape: int) -> Tensor:
        tensor = torch.randn(shape, generator=generator, dtype=torch.float64) * 1.5
        return (tensor[0, 0] if plain else tensor).to(dtype)

    options: dict[str, Any] = {
        "mask": draw(masks(batch, key_heads * group, queries, keys, generator, plain)),
        "scale": draw(st.sampled_from([None, None, 0.3, 0.0, -0.5])),
        "softcap": draw(st.sampled_from([None, None, 2.0])),
    }
    if draw(st.booleans()) and draw(st.booleans()):
        options["sinks"] = torch.randn(() if plain else (key_heads * group,), generator=generator)
        if draw(st.booleans()):
            options["sinks"] = options["sinks"].masked_fill(options["sinks"] < 0, -torch.inf)  # no sink after all
    lead = (1,) if plain else batch
    return Case(
        normal(*lead, key_heads * group, queries, width),
        normal(*lead, key_heads, keys, width),
        normal(*lead, key_heads, keys, value_width),
        {name: option for name, option in options.items() if option is not None},
        seed,
    )


def close(found: Tensor, expected: np.ndarray | Tensor, tolerance: float) -> None:
    """Equal up to the tolerance, relative to the greatest number there (at least 1)."""
    expected = expected.detach().double().cpu().numpy() if isinstance(expected, Tensor) else expected
    assert tuple(found.shape) == expected.shape, f"{tuple(found.shape)} is not {expected.shape}"
    found64 = found.detach().double().cpu().numpy()
    assert np.array_equal(np.isneginf(found64), np.isneginf(expected)), "-inf in other places"
    finite = np.where(np.isneginf(expected), 0.0, expected)
    apart = np.abs(np.where(np.isneginf(found64), 0.0, found64) - finite)
    assert not np.isnan(apart).any(), "NaN"
    limit = tolerance * max(1.0, float(np.abs(finite).max(initial=0.0)))
    assert apart.max(initial=0.0) <= limit, f"{apart.max()} apart, {limit} allowed"
