"""`why` and `says`: a score, or a logit, as an exact sum over what wrote into the residual stream.

The model runs again on the same inputs. Its norms keep the scales that they had, attention its weights and feed-forward
layers their outputs. Queries, keys and logits are then sums over their writers: embeddings, heads, feed-forward layers.
Each writer is multiplied by a gate of 1, and the derivative by this gate is the part of the writer. What is left when
all gates are 0, the biases, comes from a run of its own: so the sum is checked, and not right by definition.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.drawing import Picture
from regard.drawing.matrices import tables
from regard.drawing.terminal import Table, html_table
from regard.errors import InputError, WatchError
from regard.nn import Transformer
from regard.support import Float, some_of, whole
from regard.watching.questions.looks import Answer, key_side, phrase, query_side
from regard.watching.record.entries import Entry, layer_of
from regard.watching.record.tokens import Place, Tokens

_LINES, _ROWS, _SIDE = 8, 20, 8  # at most: printed terms, rows of a table in a notebook, writers of a picture
# The largest error of a sum, as a share of its terms; _COARSE in half precision. Norms may compute in float32.
_ERROR = {torch.float64: 1e-6, torch.float32: 1e-4}
_COARSE = 3e-2
_ROWS_AT_ONCE = 16  # of a Jacobian
_BIASES = "biases"

# The answers


class Term(NamedTuple):
    """A writer, or a word, and what it adds."""

    name: str
    amount: float


@dataclass(frozen=True, repr=False)
class Terms(Answer[Term]):
    """A sum taken apart: its terms, the largest (positive or negative) first.

    >>> print(Terms("il − elle", (Term("layer 2 feed-forward", 3.0), Term("biases", -0.5))))
    il − elle: 2.50, the sum of 2 terms
     +3.00  layer 2 feed-forward
     -0.50  biases
    """

    about: str
    items: tuple[Term, ...]

    @property
    def sum(self) -> float:
        """The sum of all terms."""
        return math.fsum(term.amount for term in self)

    def of(self, name: str) -> float:
        """Return the sum of the terms of this name."""
        return math.fsum(term.amount for term in self if term.name == name)

    def __str__(self) -> str:
        return "\n".join([f"{self.about}: {self.sum:.2f}, the sum of {len(self):,} terms", *_lines(self.items)])

    def _repr_html_(self) -> str:
        rows = [(term.name, f"{term.amount:+.3f}") for term in self[:_ROWS]]
        return html_table(rows, ("", "adds"), caption=f"{self.about}: {self.sum:.2f}", more=len(self) - _ROWS)


class Pair(NamedTuple):
    """What a writer of the query and a writer of the key add to a score together."""

    query: str
    key: str
    amount: float

    @property
    def name(self) -> str:
        """Both writers."""
        return f"{self.query} × {self.key}"


@dataclass(frozen=True, eq=False, repr=False)
class Why(Answer[Pair]):
    """A scaled score taken apart: the sum over writers of the query (rows) × writers of the key (columns).

    Printed, the largest pairs are listed.

    >>> parts = torch.tensor([[2.0, 0.5], [0.0, -0.25]])
    >>> why = Why("it → dog, layer 5 head 0", ("token", "biases"), ("token", "biases"), parts)
    >>> print(why)
    it → dog, layer 5 head 0: score 2.25, the sum of 4 terms
     +2.00  token × token
     +0.50  token × biases
     -0.25  biases × biases
     +0.00  biases × token
    >>> why.key.of("biases")
    0.25
    """

    about: str
    writers: tuple[str, ...]  # of the query
    key_writers: tuple[str, ...]
    parts: Float[Tensor, "writers key_writers"]
    sources: Mapping[tuple[str, str], Callable[[], Terms]] = field(default_factory=dict)  # by side and head

    @property
    def score(self) -> float:
        """The sum of all parts."""
        return float(self.parts.double().sum())

    @property
    def query(self) -> Terms:
        """What each writer of the query adds, with all writers of the key."""
        return _terms(f"{self.about}, by writers of the query", self.writers, self.parts.sum(1))

    @property
    def key(self) -> Terms:
        """What each writer of the key adds, with all writers of the query."""
        return _terms(f"{self.about}, by writers of the key", self.key_writers, self.parts.sum(0))

    @property
    def items(self) -> tuple[Pair, ...]:  # type: ignore[override]
        """All pairs of writers, the largest (positive or negative) first."""
        order = self.parts.abs().flatten().argsort(descending=True, stable=True).tolist()
        places = [divmod(n, len(self.key_writers)) for n in order]
        return tuple(Pair(self.writers[a], self.key_writers[b], float(self.parts[a, b])) for a, b in places)

    def source(self, head: str, side: str = "query") -> Terms:
        """Return from which words a head among the writers took what it adds: one level down.

        Args:
            head: its name among the writers, such as "layer 3 head 2".
            side: "query" or "key", the side that it writes.
        """
        if (side, head) not in self.sources:
            heads = [name for where, name in self.sources if where == side]
            raise InputError(f"the heads that write the {side} are {', '.join(heads) or 'none'}. Got {head!r}.")
        return self.sources[side, head]()

    def __str__(self) -> str:
        return "\n".join([self._title, *_lines(self.items)])

    @property
    def _title(self) -> str:
        return f"{self.about}: score {self.score:.2f}, the sum of {self.parts.numel():,} terms"

    def _repr_html_(self) -> str:
        pairs = self.items
        rows = [(pair.query, pair.key, f"{pair.amount:+.3f}") for pair in pairs[:_ROWS]]
        return html_table(rows, ("query", "key", "adds"), caption=self._title, more=len(pairs) - _ROWS)

    def picture(self, title: str = "") -> Picture:
        """Draw the largest writers of both sides as a table, and the sums of the others."""
        rows, names = _largest(self.parts, [_short(name) for name in self.writers])
        columns, key_names = _largest(rows.mT, [_short(name) for name in self.key_writers])
        numbers = np.asarray(columns.mT.double().cpu().numpy())
        shown = Table(numbers, "score", "writers of the query × writers of the key", rows=names, columns=key_names)
        caption = f"{self._title}. 4·5 is layer 4 head 5, ff a feed-forward layer. Norms keep the scales that they had."
        return tables([shown], title=title or self.about, caption=caption)


def _lines(terms: Sequence[Term | Pair]) -> list[str]:
    lines = [f"{term.amount:+6.2f}  {term.name}" for term in terms[:_LINES]]
    rest = terms[_LINES:]
    others = f"{math.fsum(term.amount for term in rest):+6.2f}  … and {len(rest):,} other{'s' * (len(rest) != 1)}"
    return [*lines, others] if rest else lines


def _terms(about: str, names: Sequence[str], amounts: Tensor) -> Terms:
    items = [Term(name, amount) for name, amount in zip(names, amounts.tolist(), strict=True)]
    return Terms(about, tuple(sorted(items, key=lambda term: -abs(term.amount))))


def _short(name: str) -> str:
    """
    >>> _short("cross layer 2 head 0"), _short("layer 4 feed-forward"), _short("token")
    ('cross 2·0', '4·ff', 'token')
    """
    return name.replace("layer ", "").replace(" head ", "·").replace(" feed-forward", "·ff")


def _largest(parts: Tensor, names: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Return the rows that add most, the largest first, and the sum of the others."""
    order = parts.abs().sum(1).argsort(descending=True).tolist()
    rows, shown = [parts[n] for n in order[:_SIDE]], [names[n] for n in order[:_SIDE]]
    if len(order) > _SIDE:
        rows, shown = [*rows, parts[order[_SIDE:]].sum(0)], [*shown, f"{len(order) - _SIDE} others"]
    return torch.stack(rows), shown


# The questions


def why(
    record: Any, what: Place, at: Place, layer: int, head: int, kind: str | None, minus: Place | None, sequence: int
) -> Why:
    """Answer `Record.why`."""
    chosen = record.at(layer=layer, kind=kind)
    if len(chosen) != 1:
        raise InputError(f"why takes one score apart, and there are {', '.join(chosen)}: choose kind=….")
    (name,) = chosen
    chosen[name].head(head)  # an error says which heads there are
    with torch.inference_mode(False), torch.enable_grad():
        run = _Apart(chosen, sequence)
        entry = run.entry(name)
        side, keys = query_side(entry), key_side(entry)
        places, others = side.find_all(what), keys.find_all(at)
        about = f"{phrase(side, what, places)} → {phrase(keys, at, others)}"
        rows, columns = _shares(places), _shares(others)
        if minus is not None:
            others = keys.find_all(minus)
            about += f", not {phrase(keys, minus, others)}"
            columns = _shares(others, -1.0, columns)
        (query, plain_query), (key, plain_key) = (
            run.side(name, "query", head, rows),
            run.side(name, "key", head, columns),
        )
        scale = run.scale(name)
        parts = scale * query.parts @ key.parts.mT
        run.check(parts, float(scale * plain_query @ plain_key))
        sources: dict[tuple[str, str], Callable[[], Terms]] = {}
        for each, this, other in (("query", query, key), ("key", key, query)):
            for writer, words in run.sources(scale * this.vector @ other.vector.detach()).items():
                sources[each, writer] = partial(_words, f"{about}, by {writer}", *words)
    return Why(f"{about}, layer {entry.layer} head {head}", query.writers, key.writers, parts, sources)


def says(record: Any, token: str | int, other: str | int | None, at: Place | None, sequence: int) -> Terms:
    """Answer `Record.says`."""
    tokens = [each for each in (token, other) if each is not None]
    with torch.inference_mode(False), torch.enable_grad():
        run = _Apart(record, sequence)
        side = run.written
        place = len(side) - 1 if at is None else side.find(at)[-1]
        rows = run.logits(place)
        ids = [token_id(each, len(rows[0]), run.tokenizer) for each in tokens]
        known, amount, shut = (row[ids[0]] - (row[ids[1]] if other is not None else 0.0) for row in rows)
        terms = run.parts(amount[None], shut[None])
        run.check(terms.parts, float(known))
    tokens = [each for each in (token, other) if each is not None]
    spelled = run.tokenizer is not None  # else a number stays a number
    about = " − ".join(
        [spelt(run.tokenizer, each) if spelled and isinstance(each, int) else f"{each}" for each in tokens]
    )
    return _terms(f"{about} after {side.word_at(place).text}", terms.writers, terms.parts[:, 0])


def _shares(places: Sequence[range], sign: float = 1.0, others: Mapping[int, float] | None = None) -> dict[int, float]:
    """Return the share of each token in the mean over occurrences, each the mean of its tokens; added to `others`."""
    shares = dict(others or {})
    for place in places:
        for token in place:
            shares[token] = shares.get(token, 0.0) + sign / len(places) / len(place)
    return shares


def _mean(rows: Float[Tensor, "tokens *numbers"], shares: Mapping[int, float]) -> Float[Tensor, "*numbers"]:
    return torch.tensor([*shares.values()]).to(rows) @ rows[torch.tensor([*shares], device=rows.device)]


def _words(about: str, side: Tokens, amounts: Tensor) -> Terms:
    sums = [amounts[word.start : word.stop].sum() for word in side.words]
    return _terms(about, [word.text for word in side.words], torch.stack(sums))


# The model, run again with gates


class _Sum(NamedTuple):
    """A vector and its parts, one for each writer."""

    writers: tuple[str, ...]
    parts: Float[Tensor, "writers width"]
    vector: Float[Tensor, " width"]  # with its graph


def run_again(record: Any, *keep: str, **options: Any) -> Any:
    """Run the model of a record again on the same inputs."""
    if record.again is None:
        raise WatchError(
            "the model must run again, and this record does not know its inputs: it was opened from a file, or is "
            "one of several passes. Call the model on the whole text, and ask its own record."
        )
    if record.model.training:
        raise WatchError("the model is in training mode, in which dropout makes each run another: model.eval().")
    return record.again(*keep, **options)


class _Apart:
    """One text of a model that runs again: as it is, with its gates open, and with its gates shut."""

    def __init__(self, record: Any, sequence: int):
        self._sequence, self._model = sequence, record.model
        with torch.no_grad():
            self._known = run_again(record, "matrix", "value")
        self._check_unchanged(record)
        self._gates = _Gates(record.model, self._known)
        self._open = run_again(record, "graph", "value", gates=self._gates)
        if missing := [name for name in self._open.record if name not in self._gates.inputs]:
            raise WatchError(
                f"{type(record.model).__name__} cannot be taken apart: what {some_of(missing)} wrote cannot be told "
                "apart by heads, as no linear layer was called with their outputs."
            )
        self._gates.shut = True
        with torch.no_grad():
            self._shut = run_again(record, "matrix", gates=self._gates)

    def _check_unchanged(self, record: Any) -> None:
        """Require that the model gives the same scores as when it was watched, in the last row of the last layer."""
        for name, watched in list(record.items())[-1:]:
            if watched.attention is not None and name in self._known.record:
                before, now = (
                    each.text(self._sequence).matrix.scaled[0, :, -1].float()
                    for each in (watched, self._known.record[name])
                )
                if before.shape != now.shape or not torch.allclose(before, now, rtol=1e-2, atol=1e-3):
                    raise WatchError(
                        f"{name} gives other scores than when it was watched: the model or its inputs have changed, or "
                        "it runs under another autocast. Watch it again."
                    )

    def entry(self, name: str) -> Entry:
        """Return the attention of a module on the text."""
        entry: Entry = self._open.record[name].text(self._sequence)
        return entry

    def side(self, name: str, side: str, head: int, shares: Mapping[int, float]) -> tuple[_Sum, Tensor]:
        """Return the mean query, or key, of some tokens for a head, taken apart; and as it is."""
        vectors = []
        for run in (self._known, self._open, self._shut):
            entry: Entry = run.record[name].text(self._sequence).head(head)
            assert entry.call is not None, "an entry that has its matrix has its call"
            tensor = getattr(entry.call, side)[0]
            group = entry.call.query.shape[1] // tensor.shape[0]
            vectors.append(_mean(tensor[entry.of_call.start // group], shares))
        return self.parts(*vectors[1:]), vectors[0]

    def scale(self, name: str) -> float:
        """Return what a query times a key is multiplied by."""
        call = self.entry(name).call
        assert call is not None, "an entry that has its matrix has its call"
        return float(call.query.shape[-1] ** -0.5 if call.scale is None else call.scale)

    def parts(self, vector: Float[Tensor, " width"], shut: Float[Tensor, " width"]) -> _Sum:
        """Return the parts of a vector: its derivatives by the gates, and what is left when these are shut."""
        leaves = self._gates.leaves
        each = torch.eye(len(vector)).to(vector)
        some = [_gradients(vector, list(leaves.values()), rows) for rows in torch.split(each, _ROWS_AT_ONCE)]
        slopes = [None if slope[0] is None else torch.cat(slope) for slope in zip(*some, strict=True)]
        writers, parts = [""], [shut.detach()[None]]
        for (label, _), slope in zip(leaves, slopes, strict=True):
            if slope is None:
                continue
            parts.append(slope.reshape(len(vector), -1).mT.to(vector.device))
            heads = slope.dim() == 2
            writers += [f"{label} head {n}" for n in range(slope.shape[1])] if heads else [label]
        writers[0] = _BIASES if "token" in writers else f"input and {_BIASES}"  # of vectors, not of tokens
        return _Sum(tuple(writers), torch.cat(parts), vector)

    @property
    def error(self) -> float:
        """The largest error of a sum, as a share of its terms."""
        dtypes = {leaf.dtype for leaf in self._gates.leaves.values()}
        return max((_ERROR.get(dtype, _COARSE) for dtype in dtypes), default=_COARSE)

    def check(self, parts: Tensor, whole: float) -> None:
        """Require that the parts make up the whole."""
        wrong = abs(float(parts.double().sum()) - whole)
        if not wrong <= self.error * float(parts.abs().double().sum()):
            raise WatchError(
                f"{type(self._model).__name__} cannot be taken apart: the parts differ from the whole {whole:.4g} by "
                f"{wrong:.2g}. Between its layers is something else than sums, linear layers and norms."
            )

    def sources(self, score: Float[Tensor, ""]) -> dict[str, tuple[Tokens, Tensor]]:
        """Return what each word gave to a score by way of each head: its value, weighted, along what the score asks."""
        names, inputs = [*self._gates.inputs], [*self._gates.inputs.values()]
        sources: dict[str, tuple[Tokens, Tensor]] = {}
        for name, slope in zip(names, _gradients(score, inputs), strict=True):
            if slope is None:
                continue
            entry = self.entry(name)
            assert entry.values is not None, "they are kept"
            real = _rows(self._open.record[name], self._sequence)
            slope = slope[self._sequence][real]
            slope = slope.view(len(slope), entry.shape[1], -1)  # (queries, heads, width)
            rows = slope.abs().sum((1, 2)).nonzero().flatten()
            value = entry.values.value[0].detach()
            value = value.repeat_interleave(entry.shape[1] // len(value), 0)  # (heads, keys, width)
            weights = entry.matrix[0, :, rows].detach()  # (heads, rows, keys)
            amounts = (weights * torch.einsum("hkd,rhd->hrk", value, slope[rows])).sum(1)
            label = self._gates.labels[name]
            sources |= {f"{label} head {n}": (key_side(entry), amounts[n]) for n in range(len(amounts))}
        return sources

    @property
    def tokenizer(self) -> Any:
        """What names the tokens."""
        return self._open.tokenizer

    @property
    def written(self) -> Tokens:
        """The text whose next tokens the model predicts."""
        return query_side(self.entry(self._reader))

    @property
    def _reader(self) -> str:
        kinds: dict[str, str] = {entry.kind: name for name, entry in self._open.record.items()}
        return kinds.get("decoder") or kinds["encoder"]

    def logits(self, place: int) -> list[Float[Tensor, " vocabulary"]]:
        """Return the logits after a token: of the model as it is, with gates open, and with gates shut."""
        rows = []
        for run in (self._known, self._open, self._shut):
            logits = run.output if isinstance(run.output, Tensor) else getattr(run.output, "logits", None)
            if not isinstance(logits, Tensor) or logits.dim() != 3:
                raise InputError(f"{type(self._model).__name__} predicts no tokens, so there are no logits to explain.")
            rows.append(logits[self._sequence][_rows(run.record[self._reader], self._sequence)][place])
        return rows


def token_id(token: str | int, count: int, tokenizer: Any) -> int:
    """Return the id of a token among so many."""
    if isinstance(token, str):
        if tokenizer is None:
            raise InputError(f"{token!r} needs a tokenizer: tokenizer=…; or give the id of the token.")
        ids = list(tokenizer.encode(token, add_special_tokens=False))
        if len(ids) != 1:
            raise InputError(f"{token!r} is {len(ids)} tokens, {ids}: give the id of one of them.")
        token = int(ids[0])
    if not 0 <= whole("a token", token) < count:
        raise InputError(f"a token is a number from 0 to {count - 1}. Got {token}.")
    return token


def spelt(tokenizer: Any, number: int) -> str:
    """Return a token id as text."""
    if tokenizer is None:
        return f"token {number}"
    if hasattr(tokenizer, "decode"):
        return repr(str(tokenizer.decode([number])))
    return str(tokenizer.convert_ids_to_tokens([number])[0]).lstrip("▁")


def _gradients(of: Tensor, leaves: list[Tensor], each: Tensor | None = None) -> tuple[Tensor | None, ...]:
    """Return the derivatives of a number or, with `each` row of an identity, of all numbers of a vector."""
    if not leaves:
        return ()
    options = {"retain_graph": True, "allow_unused": True, "is_grads_batched": each is not None}
    return torch.autograd.grad(of, leaves, each, **options)


class _Gates(contextlib.AbstractContextManager["_Gates"]):
    """Hooks that multiply each writer by a gate, and keep the scales of norms: 1 in the first run, 0 when shut."""

    def __init__(self, model: nn.Module, known: Any):
        self.shut = False
        self.leaves: dict[tuple[str, int], Tensor] = {}  # by label and run of the module
        self.inputs: dict[str, Tensor] = {}  # of output projections, by the name of the entry
        kinds = {entry.kind for entry in known.record.values()}
        self.labels = {
            name: f"{f'{entry.kind} ' * (len(kinds) > 1)}layer {entry.layer}" for name, entry in known.record.items()
        }
        self._several = len(kinds) > 1
        self._model, self._known = model, known
        self._norms: list[_Norm] = []  # in the order in which they ran

    def __enter__(self) -> _Gates:
        self._runs: dict[str, int] = {}
        self._next = iter(list(self._norms))
        self._undo = contextlib.ExitStack()
        modules = self._known.modules
        projections = {id(module): name for name, module in self._known.projections.items() if module is not None}
        widths = {_width(modules[name]) for name in modules if id(modules[name]) in projections}
        inside = tuple(f"{name}." for name in projections.values())
        for name, module in modules.items():
            if id(module) in projections:
                self._hook(module.register_forward_pre_hook, partial(self._project, projections[id(module)]))
            elif _is_norm(module):
                self._hook(module.register_forward_hook, self._norm)
            elif _width(module) in widths and not f"{name}.".startswith(inside):
                label = _embedding(name) if isinstance(module, nn.Embedding) else ""
                self._hook(module.register_forward_hook, partial(self._write, name, label))
            if isinstance(module, Transformer):  # its positions are a buffer, not a module
                self._undo.callback(setattr, module, "positions", module.positions)
                module.positions = module.positions * self._gate("position", module.positions.new_ones(()))
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _hook(self, register: Any, run: Any) -> None:
        self._undo.callback(register(run).remove)

    def _gate(self, label: str, ones: Tensor) -> Tensor:
        """Return a new gate; open, it is a leaf whose derivatives are the parts of its writer."""
        if self.shut:
            return torch.zeros_like(ones)
        run = sum(name == label for name, _ in self.leaves)
        self.leaves[label, run] = ones.requires_grad_()
        return ones

    def _label(self, name: str) -> str:
        """Return the words for a linear layer that writes: its layer; outside the layers its own name."""
        run = self._runs[name] = self._runs.get(name, -1) + 1
        if not any(part.isdecimal() for part in name.split(".")):
            return name.rpartition(".")[2]
        stack = next((f"{kind} " for kind in ("encoder", "decoder") if kind in name.split(".")), "") * self._several
        layer = layer_of(f"{name}#{run}" if run else name)
        return f"{stack}layer {layer} feed-forward"

    def _project(self, name: str, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Cut the input of an output projection from its graph, and gate each head of it."""
        run = self._runs[name] = self._runs.get(name, -1) + 1
        key = f"{name}#{run}" if run else name
        heads = self._known.record[key].shape[1]
        x = args[0].detach()
        if not self.shut:
            x.requires_grad_()
            self.inputs[key] = x
        gate = self._gate(self.labels[key], x.new_ones(heads))
        return ((x.unflatten(-1, (heads, -1)) * gate[:, None]).flatten(-2), *args[1:])

    def _write(self, name: str, label: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Cut the output of a linear layer or an embedding from its graph, and gate it but for its bias."""
        if not isinstance(output, Tensor):  # a router of experts
            return output
        bias = getattr(module, "bias", None)
        bias = 0.0 if bias is None else bias.detach()
        gate = self._gate(label or self._label(name), output.new_ones(()))
        return (output.detach() - bias) * gate + bias

    def _norm(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        """Return the output of a norm as a linear function of its input: with the scale that it has here."""
        x = args[0]
        if not self.shut:
            self._norms.append(_freeze(module, x.detach(), output.detach()))
        norm = next(self._next) if self.shut else self._norms[-1]
        inner: Tensor = x - x.mean(-1, keepdim=True) if norm.centred else x
        return inner * norm.scale + norm.bias


class _Norm(NamedTuple):
    """A norm at the scale that it had: (x, or x minus its mean) × scale + bias."""

    centred: bool
    scale: Float[Tensor, "*tokens width"]
    bias: Float[Tensor, " width"]


def _width(module: nn.Module) -> int | None:
    """Return how many numbers a linear layer or an embedding writes for each token; None for other modules."""
    weight = vars(module).get("_parameters", {}).get("weight")
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return int(weight.shape[0 if isinstance(module, nn.Linear) else 1])  # transformers' Conv1D has (in, out)


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith(("LayerNorm", "RMSNorm"))


def _freeze(module: nn.Module, x: Tensor, output: Tensor) -> _Norm:
    """Measure a norm by what it does to a few vectors: whether it subtracts the mean, its weights, its bias."""
    probe = torch.ones_like(x[..., :1, :])
    probe[..., ::2] = -1  # of mean 0, if the width is even
    probe = probe - probe.mean(-1, keepdim=True)
    bias = module.forward(torch.zeros_like(probe))
    centred = torch.allclose(module.forward(probe + 1), module.forward(probe), atol=1e-3, rtol=1e-3)
    weight = (module.forward(probe) - bias) / probe  # but for one factor
    inner = x - x.mean(-1, keepdim=True) if centred else x
    at = (inner * weight).abs().argmax(-1, keepdim=True)
    factor = ((output - bias) / (inner * weight)).gather(-1, at)
    return _Norm(centred, torch.where(factor.isfinite(), factor, 0.0) * weight, bias)


def _embedding(name: str) -> str:
    """Return what an embedding is of, by the name of its module."""
    last = name.rpartition(".")[2]
    return "position" if "pos" in last or last == "wpe" else "token type" if "type" in last else "token"


def _rows(entry: Entry, sequence: int) -> Tensor:
    """Return where the queries of a text are in a batch with padding."""
    real = entry.real
    if real is None:
        return torch.arange(entry.shape[2])
    return real[sequence, real.shape[1] - entry.shape[2] :].nonzero().flatten()
