"""Teach a translator what "it" stands for, inside the training of everything else, on one GPU.

    python recipes/guided.py START OUT --data recipes/wide --seconds 560       # START: a folder, or "default"

Every step has two batches, and the gradients are those of the sum:
  sentences of all kinds, each in the share that SHARES gives it: the loss of their French. In the sentences of the
      grammars with a link from "it" to its noun, il, elle, ils and elles count four times, and the loss of
      `regard.guide` for one encoder head is added. In some of them (`turned`) this head is made to look at one of the
      two nouns, whichever sense would choose, and the French has the pronoun of this noun: so the decoder learns to
      believe the head;
  sentences with links in English alone (grammars/english.py): the loss of the head, which needs the layers below it.
A twentieth of the nouns is held out, to choose by (`held_out`).
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import math
import multiprocessing
import os
import random
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from recipes import corpora
from recipes.grammars import english, number_words, pronouns, sense
from regard.nn import Transformer
from regard.nn.loss import _chunk, _fused
from regard.translation import Translator, read_pairs
from regard.translation.training.corpus import near
from regard.translation.training.vocabulary import Vocabulary, clean

LAYER, HEAD, NAME = 5, 0, 'what "it" stands for'
WEIGHT, PRONOUN, SMOOTHING = 0.3, 4.0, 0.1  # of the head's loss, of a pronoun among the tokens, of labels
LONGEST, TOKENS = 112, 32_768  # of a sentence; of a batch, padding included
ALONE = 8_192  # tokens of a batch for the head alone
HELD = 20  # of so many nouns, one is held out
# How often a sentence of each kind is read in one pass.
SHARES = {
    "tatoeba": 1.0, "storybook": 2.0, "parliament": 1.0, "books": 0.5, "documents": 0.6, "general": 1.5,
    "captions": 0.8, "news": 1.0, "joined": 1.0, "numbers": 1.0, "marks": 1.0, "noise": 1.0, "own": 3.0, "greeted": 2.0,
    "grammar": 0.35, "turned": 0.3,
}  # fmt: skip
FILES = {"parliament": "parliament-uncommon"}  # the others have the name of their kind
MAKES = {"tatoeba": ("joined", "noise", "numbers", "marks"), "books": ("marks",), "general": ("marks", "numbers"),
         "parliament": ("numbers", "marks"), "documents": ("numbers", "marks")}  # fmt: skip
COPIES = {"joined": 90_000, "numbers": 90_000, "marks": 80_000, "noise": 50_000}
WRITTEN = {"grammar": 300_000, "turned": 320_000, "linked": 1_200_000}  # sentences of the grammars
# The jobs that make them, of each kind.
PARTS = {"parliament": 8, "books": 4, "tatoeba": 4, "linked": 12, "turned": 8, "grammar": 6, "documents": 2,
         "general": 1, "captions": 1, "news": 1, "storybook": 1, "own": 1}  # fmt: skip
JOBS = 12


class Lines(NamedTuple):
    """Many sentences as ids one after the other, with their lengths, "it" and its noun (-1 without)."""

    ids: tuple[np.ndarray, np.ndarray]  # of all sources, of all targets, without ends
    sizes: np.ndarray  # (sentences, 2)
    links: np.ndarray  # (sentences, 3): the token of "it", the first and the last token of the noun
    turned: bool = False

    def __len__(self) -> int:
        return len(self.sizes)


def nouns_held_out() -> set[str]:
    """The words of nouns that no sentence of the training has, one in `HELD`."""
    names = {each.name for pairs in english.things().values() for both in pairs for each in both if each}
    names |= {noun.english for pairs in pronouns.GROUPS.values() for both in pairs for noun in both if noun}
    singular = {re.sub(r"(?<=[^s])s$", "", name.split()[-1]) for name in names}
    held = {name for name in singular if zlib.crc32(name.encode()) % HELD == 0}
    return held | {f"{name}s" for name in held}


def kept_away(folder: Path) -> tuple[set[str], list[str]]:
    """The nouns of tests/data/pronouns.tsv in both numbers, and the lines to keep away from."""
    rows = [line.split("\t") for line in (folder / "pronouns.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    nouns = {form for row in rows for noun in row[1:3] for form in (noun, noun.removesuffix("s"), noun + "s")}
    documents = (folder / "documents.txt").read_text(encoding="utf-8").splitlines()
    return nouns | {"dog", "dogs", "cat", "cats", "sushi", "animal"}, [row[0] for row in rows] + documents


def encoded(words: Vocabulary, rows: Sequence[tuple[str, ...]], turned: bool = False) -> Lines:
    """Rows of English, French and, if any, links, as ids."""
    sides = [words.encode_many([row[side] for row in rows]) for side in (0, 1)]
    kept = [
        n
        for n in range(len(rows))
        if max(len(sides[0][n]), len(sides[1][n])) < LONGEST - 1 and sides[0][n] and sides[1][n]
    ]
    links = np.full((len(kept), 3), -1, np.int16)
    for place, n in enumerate(kept):
        if len(rows[n]) > 2 and rows[n][2]:
            owner = words.words(sides[0][n])[1]
            pairs = [tuple(map(int, link.split(">"))) for link in rows[n][2].split()]
            nouns = [key for row, key in pairs if row == pairs[0][0]]
            tokens = [k for k, word in enumerate(owner) if word in nouns]
            links[place] = owner.index(pairs[0][0]), tokens[0], tokens[-1]
    ids = tuple(
        np.concatenate([np.array(side[n], np.int16) for n in kept] or [np.zeros(0, np.int16)]) for side in sides
    )
    return Lines(
        ids, np.array([[len(sides[0][n]), len(sides[1][n])] for n in kept], np.int32).reshape(-1, 2), links, turned
    )  # type: ignore[arg-type]


def together(parts: Sequence[Lines]) -> Lines:
    """Several as one."""
    ids = tuple(np.concatenate([part.ids[side] for part in parts]) for side in (0, 1))
    sizes, links = (np.concatenate([getattr(part, name) for part in parts]) for name in ("sizes", "links"))
    return Lines(ids, sizes, links, parts[0].turned)  # type: ignore[arg-type]


# What the processes do: each job gives the rows of one kind


def read(folder: Path, kind: str) -> list[tuple[str, str]]:
    """The pairs of a kind of text: its file as corpora.py writes it, which may be packed."""
    opens: dict[str, Any] = {"": open, ".bz2": bz2.open, ".xz": lzma.open}
    name = FILES.get(kind, kind)
    end = next((end for end in opens if (folder / f"{name}.tsv{end}").is_file()), "")
    with opens[end](folder / f"{name}.tsv{end}", "rt", encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [(row[0], row[1]) for row in rows if len(row) > 1]


def written(kind: str, lines: int, seed: int) -> list[tuple[str, str, str]]:
    """Sentences of the grammars with links."""
    draw, found = random.Random(seed), dict[tuple[str, str], tuple[str, str, str]]()
    if kind == "linked":
        return english.sentences(lines, seed)
    if kind == "grammar":
        for row in pronouns.linked_sentences(lines // 2, seed):
            found[row[0], ""] = row
    while len(found) < lines:
        for text, french, noun, other_french, other in sense.turned(draw):
            link, other_link = pronouns.links(text, noun), pronouns.links(text, other)
            if not link or not other_link:
                continue
            if kind == "grammar":
                found[text, ""] = text, french, link
            elif noun.feminine != other.feminine and other_french != french:
                found[text, french] = text, french, link
                found[text, other_french] = text, other_french, other_link
    return list(found.values())


def copies(kind: str, pairs: list[tuple[str, str]], lines: int, rng: random.Random) -> list[tuple[str, str]]:
    """Copies that teach facts, as in corpora.py."""
    if kind == "joined":
        return list(corpora.joined(pairs, lines, rng))
    if kind == "noise":
        return [corpora.noisy(pair, rng) for pair in rng.sample(pairs, min(lines, len(pairs)))]
    if kind == "numbers":
        some = [pair for pair in pairs if re.search(r"\d", pair[0]) and len(pair[0]) < 250]
        return [
            pair for pair in (corpora.other_numbers(each, rng) for each in rng.choices(some or pairs, k=lines)) if pair
        ]
    some = [pair for pair in pairs if len(pair[0]) < 200]
    found = (corpora.marked(each, rng) for each in rng.sample(some, min(5 * lines, len(some))))
    return [pair for _, pair in zip(range(lines), filter(None, found), strict=False)]


def job(
    kind: str, part: int, parts: int, small: float, data: Path, tests: Path, words: bytes
) -> list[tuple[str, Lines]]:
    """The sentences of one job, by kind."""
    seed, share = 1000 + part, small / parts
    vocabulary, rng = Vocabulary(words), random.Random(seed)
    here = Path(__file__).parent
    rows: Sequence[tuple[str, ...]]
    if kind in WRITTEN:
        rows = written(kind, int(WRITTEN[kind] * share), seed)
        held, (nouns, lines) = nouns_held_out(), kept_away(tests)
        rows = [row for row in rows if not (held | nouns) & set(re.findall(r"\w+", row[0].lower()))]
        rows = [
            row for row, drop in zip(rows, near([row[0] for row in rows], lines, corpora.NEAR), strict=True) if not drop
        ]
        if kind == "grammar":  # some after another sentence
            others = [pair for pair in read(data, "storybook") if len(pair[0]) < 60]
            for n in rng.sample(range(len(rows)), len(rows) // 10):
                rows[n] = after(rng.choice(others), rows[n])  # type: ignore[index]
        return [(kind, encoded(vocabulary, rows, kind == "turned"))]
    if kind == "own":
        rows = [
            *number_words.sentences(),
            *read_pairs(here / "everyday.tsv"),
            *read_pairs(here / "visits.tsv"),
            *read_pairs(here / "greetings.tsv"),
        ]
        rows = [*rows, *[row for row in rows[-500:] for _ in range(4)]]
        return [(kind, encoded(vocabulary, rows))]
    pairs = [(clean(source), clean(target)) for source, target in read(data, kind)[part::parts]]
    found: list[tuple[str, Lines]] = []
    for made in MAKES.get(kind, ()):
        whole = share if made in ("joined", "noise") else share / 4
        found.append((made, encoded(vocabulary, copies(made, pairs, int(COPIES[made] * whole), rng))))
    if kind == "tatoeba":
        greetings = list(read_pairs(here / "greetings.tsv"))[part::parts]
        found.append(("greeted", encoded(vocabulary, list(corpora.greeted(greetings, pairs, rng)))))
    return [*found, (kind, encoded(vocabulary, pairs))]


def jobs(small: float) -> list[tuple[str, int, int, float]]:
    """Kind, part, number of parts and share of each job."""
    return [(kind, part, parts, small) for kind, parts in PARTS.items() for part in range(parts)]


# Batches, made by other processes

_POOL: list[Lines] = []
_PLACES: list[tuple[np.ndarray, np.ndarray]] = []


def settle(kinds: Sequence[Lines]) -> None:
    """Keep the sentences where the processes find them."""
    for lines in kinds:
        _POOL.append(lines)
        _PLACES.append(tuple(np.concatenate([[0], np.cumsum(lines.sizes[:, side], dtype=np.int64)]) for side in (0, 1)))  # type: ignore[arg-type]


def plan(shares: Sequence[float], seed: int, tokens: int) -> list[np.ndarray]:
    """The batches of one pass in random order: of each sentence its kind and its number."""
    random_ = np.random.default_rng(seed)
    rows = []
    for kind, (lines, share) in enumerate(zip(_POOL, shares, strict=True)):
        whole, part = divmod(share, 1)
        some = [np.arange(len(lines))] * int(whole) + [random_.permutation(len(lines))[: int(part * len(lines))]]
        numbers = np.concatenate(some)
        rows.append(np.stack([np.full(len(numbers), kind), numbers], 1))
    chosen = np.concatenate(rows)
    sizes = np.concatenate([_POOL[n].sizes[each[:, 1]] for n, each in enumerate(rows)]) + 1
    jitter = sizes + random_.random(sizes.shape) * 2
    order = np.lexsort((jitter[:, 0], jitter[:, 1]))
    widths = -(-sizes[order].max(1) // 8) * 8
    batches, start = [], 0
    while start < len(order):
        ahead = np.maximum.accumulate(widths[start : start + tokens])
        over = ahead * np.arange(1, len(ahead) + 1) > tokens
        stop = start + max(int(over.argmax()) if over.any() else len(ahead), 1)
        batches.append(chosen[order[start:stop]].astype(np.int32))
        start = stop
    return [batches[n] for n in random_.permutation(len(batches))]


def batch(rows: np.ndarray, pad: int, end: int) -> tuple[np.ndarray, ...]:
    """Sources and targets, the token of "it" (-1 without), the noun's tokens, and which rows are turned."""
    sizes = np.stack([_POOL[kind].sizes[n] for kind, n in rows])
    width = [-(-(int(sizes[:, side].max()) + 1) // 8) * 8 + side for side in (0, 1)]
    sides = [np.full((len(rows), width[side]), pad, np.int16) for side in (0, 1)]
    links = np.stack([_POOL[kind].links[n] for kind, n in rows])
    for row, (kind, n) in enumerate(rows):
        for side in (0, 1):
            start, size = _PLACES[kind][side][n], sizes[row, side]
            sides[side][row, side : side + size] = _POOL[kind].ids[side][start : start + size]
            sides[side][row, side + size] = end
    column = np.arange(width[0])
    nouns = (column >= links[:, 1:2]) & (column <= links[:, 2:3]) & (links[:, :1] >= 0)
    turned = np.array([_POOL[kind].turned for kind, _ in rows])
    return sides[0], sides[1], links[:, 0].astype(np.int64), nouns, turned


def stream(
    pool: Any, shares: Sequence[float], tokens: int, pad: int, end: int, seed: int, ahead: int = 40
) -> Iterator[tuple[np.ndarray, ...]]:
    """Batches without end, `ahead` of them made beforehand."""
    waiting: list[Any] = []
    make = partial(batch, pad=pad, end=end)
    coming = pool.apply_async(plan, (shares, seed, tokens))
    while True:
        batches = coming.get()
        seed += 1
        coming = pool.apply_async(plan, (shares, seed, tokens))
        for rows in batches:
            waiting.append(pool.apply_async(make, (rows,)))
            if len(waiting) > ahead:
                yield waiting.pop(0).get()


# The model


class _WeightedLoss(torch.autograd.Function):
    """`regard.nn.loss.token_loss` with a weight for each token."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        weights: Tensor,
        work: Callable[..., Any],
    ) -> Tensor:
        share = weights / weights.sum().clamp_min(1)
        total = states.new_zeros((), dtype=torch.float32)
        d_states, d_weight = [], torch.zeros_like(weight, dtype=torch.float32)
        chunk = max(2**26 // len(weight), 1)
        for start in range(0, len(states), chunk):
            state, label, coefficient = (t[start : start + chunk] for t in (states, labels, share))
            loss, d_logits = work(functional.linear(state, weight, bias), label, coefficient, SMOOTHING)
            total = total + loss
            d_states.append(functional.linear(d_logits, weight.mT))
            d_weight += d_logits.mT @ state
        ctx.save_for_backward(torch.cat(d_states).to(states.dtype), d_weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        d_states, d_weight = ctx.saved_tensors
        return d_states * grad.to(d_states.dtype), d_weight * grad.to(d_weight.dtype), None, None, None, None


class Guided:
    """A model whose head is guided, and turned where a batch says so."""

    def __init__(self, model: Transformer, words: Vocabulary, compiled: bool):
        self.model, self.compiled = model, compiled
        self.guided = model.encoder.layers[LAYER].attention  # type: ignore[union-attr]
        self.guided.attend = self.attend  # type: ignore[assignment]
        said = [words.pieces([n])[0].lstrip("▁").lower() for n in range(len(words))]
        weights = [PRONOUN if piece in ("il", "elle", "ils", "elles") else 1.0 for piece in said]
        self.counts = torch.tensor(weights, device=model.embedding.weight.device)
        self.turn: tuple[Tensor, Tensor, Tensor] | None = None
        self.row: tuple[Tensor, Tensor] | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **_: Any) -> Tensor:
        """Attention over what is visible; a turned row of the head has the mean of the noun's values."""
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=self.visible[:, None, None, :])
        self.row = query[:, HEAD], key[:, HEAD]
        if self.turn is None:
            return mixed
        it, nouns, turned = self.turn
        share = nouns / nouns.sum(-1, keepdim=True).clamp_min(1)
        mean = torch.einsum("bs,bsd->bd", share.to(value.dtype), value[:, HEAD])
        at = it.clamp_min(0)[:, None, None].expand(-1, 1, mean.shape[-1])
        ours = mixed[:, HEAD]
        row = torch.where(turned[:, None], mean, ours.gather(1, at)[:, 0])
        ours = ours.scatter(1, at, row[:, None].to(ours.dtype))
        return torch.cat([mixed[:, :HEAD], ours[:, None], mixed[:, HEAD + 1 :]], 1)

    def pull(self, query: Tensor, key: Tensor, it: Tensor, nouns: Tensor, counted: Tensor) -> Tensor:
        """`regard.guide` for one row of one head in each sentence that counts."""
        at = it.clamp_min(0)[:, None, None].expand(-1, 1, query.shape[-1])
        row = query.gather(1, at).float()
        scores = (row * key.float()).sum(-1) * query.shape[-1] ** -0.5
        scores = scores.masked_fill(~self.visible, -1e9)
        losses = scores.logsumexp(-1) - scores.masked_fill(~nouns, -1e9).logsumexp(-1)
        return torch.where(counted, losses, 0.0).sum() / counted.sum().clamp_min(1)

    def french(
        self, source: Tensor, target: Tensor, it: Tensor, nouns: Tensor, turned: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of the French, and that of the head."""
        self.visible, self.turn = source.ne(self.model.config.pad), (it, nouns, turned)
        states = self.model.states(target[:, :-1], self.model.encode(source))
        self.turn = None
        labels = target[:, 1:]
        weights = torch.where((it >= 0)[:, None], self.counts[labels], 1.0) * labels.ne(self.model.config.pad)
        work = _fused() if self.compiled else _chunk
        dtype = torch.bfloat16 if states.is_cuda else states.dtype
        loss: Tensor = _WeightedLoss.apply(  # type: ignore[no-untyped-call]
            states.flatten(0, 1).to(dtype),
            self.model._head().to(dtype),
            self.model.output_bias.to(dtype),
            labels.flatten(),
            weights.flatten(),
            work,
        )
        assert self.row is not None
        return loss, self.pull(*self.row, it, nouns, (it >= 0) & ~turned)

    def head(self, source: Tensor, it: Tensor, nouns: Tensor) -> Tensor:
        """The loss of the head alone."""
        x, self.visible = self.model.enter(source)
        mask = self.model._mask(self.visible)
        for layer in self.model.encoder.layers[:LAYER]:
            x = layer(x, mask)
        query, key, _ = self.guided._project(x, None, None)
        return self.pull(query[:, HEAD], key[:, HEAD], it, nouns, it >= 0)


def held_out(lines: int = 600, seed: int = 77) -> list[tuple[str, str]]:
    """Sentences of the grammar in English alone that have a noun which the training has not."""
    held, found = nouns_held_out(), list[tuple[str, str]]()
    draw = random.Random(seed)
    while len(found) < lines:
        text, links = english.linked(draw)
        words = [re.sub(r"\W", "", word).lower() for word in text.split()]
        if words[int(links.split(">")[1].split()[0])] in held:
            found.append((text, links))
    return found


@torch.no_grad()
def heads_right(guided: Guided, words: Vocabulary, rows: list[tuple[str, str]]) -> tuple[float, float]:
    """How often the head gives the noun more than half of the weight, and its mean weight."""
    lines = encoded(words, [(text, "-", links) for text, links in rows])
    pad, end = guided.model.config.pad, guided.model.config.end
    _POOL.append(lines)
    _PLACES.append(tuple(np.concatenate([[0], np.cumsum(lines.sizes[:, side], dtype=np.int64)]) for side in (0, 1)))  # type: ignore[arg-type]
    kind = len(_POOL) - 1
    arrays = batch(np.stack([np.full(len(lines), kind), np.arange(len(lines))], 1), pad, end)
    _POOL.pop(), _PLACES.pop()
    source, _, it, nouns, _ = (torch.from_numpy(each).to(guided.counts.device) for each in arrays)
    x, guided.visible = guided.model.enter(source.long())
    for layer in guided.model.encoder.layers[:LAYER]:
        x = layer(x, guided.model._mask(guided.visible))
    query, key, _ = guided.guided._project(x, None, None)
    scores = (query[:, HEAD].float() @ key[:, HEAD].float().mT) * query.shape[-1] ** -0.5
    weights = scores[torch.arange(len(it)), it].masked_fill(~guided.visible, -1e9).softmax(-1)
    share = (weights * nouns).sum(-1)
    return float((share > 0.5).float().mean()), float(share.mean())


def main() -> None:
    """Train, and write the folders."""
    begun = time.monotonic() - float(os.environ.get("SPENT", "0"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start")
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parent / "wide", help="of corpora.py, tatoeba.tsv, storybook.tsv"
    )
    parser.add_argument("--tests", type=Path, default=Path(__file__).parents[1] / "tests" / "data")
    parser.add_argument("--seconds", type=float, default=530.0, help="from the start of the program to the last step")
    parser.add_argument(
        "--middle", type=float, default=0.8, help="share of the training after which OUT-middle is written"
    )
    parser.add_argument("--rate", type=float, default=4.0e-4)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--small", type=float, default=1.0, help="share of the written sentences, for a rehearsal")
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    translator = Translator.default() if options.start == "default" else Translator.load(options.start)
    words, config = translator.words, translator.model.config
    context = multiprocessing.get_context("fork")
    with context.Pool(JOBS if os.cpu_count() != 2 else 2) as pool:
        work = [
            pool.apply_async(job, (*each, options.data, options.tests, words.model)) for each in jobs(options.small)
        ]
        made: dict[str, list[Lines]] = {}
        for each in work:
            for kind, lines in each.get():
                made.setdefault(kind, []).append(lines)
    kinds = {kind: together(parts) for kind, parts in made.items()}
    for kind, lines in kinds.items():
        print(f"{kind}: {len(lines):,} sentences, {lines.sizes.sum(0).tolist()} tokens", flush=True)
    order = [kind for kind in kinds if kind != "linked"]
    settle([*(kinds[kind] for kind in order), kinds["linked"]])
    shares = [SHARES[kind] for kind in order]
    print(f"{time.monotonic() - begun:.0f} s: the sentences are there", flush=True)
    dev = held_out()
    with (
        context.Pool(4 if os.cpu_count() != 2 else 1) as pool,
        sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]),
    ):
        sentences = stream(pool, [*shares, 0.0], options.tokens, config.pad, config.end, 100 * options.seed)
        alone = stream(
            pool,
            [*(0.0 for _ in shares), 1.0],
            min(ALONE, options.tokens),
            config.pad,
            config.end,
            100 * options.seed + 50,
        )
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(options.seed)
        torch.set_float32_matmul_precision("high")
        model = translator.model.float()
        if not options.eager:
            model.compile_for_training(skip=[model.encoder.layers[LAYER]])
        model.to(device).train()
        guided = Guided(model, words, compiled=not options.eager)
        average = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer = torch.optim.AdamW(
            model.parameters(), options.rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )
        parameters = list(model.parameters())

        def tensors(arrays: tuple[np.ndarray, ...]) -> list[Tensor]:
            found = [torch.from_numpy(each).to(device, non_blocking=True) for each in arrays]
            return [found[0].long(), found[1].long(), *found[2:]]

        def save(folder: Path) -> None:
            plain = Transformer(config)
            state = {name: value.cpu() for name, value in model.state_dict().items()} | {
                name: p.cpu() for name, p in average.items()
            }
            plain.load_state_dict(state)
            Translator(plain.eval(), words, languages=translator.languages, heads={NAME: (LAYER, HEAD)}).save(
                folder, int8=True
            )
            print(f"{time.monotonic() - begun:.0f} s: {folder}", flush=True)

        since, step, middle, sums = time.monotonic(), 0, False, torch.zeros(3, device=device)
        last, tokens = since, 0
        end = begun + options.seconds
        while (now := time.monotonic()) < end:
            done = (now - since) / (end - since)
            rate = options.rate * min(1.0, (step + 1) / 200) * (1 - done) ** 0.7
            for group in optimizer.param_groups:
                group["lr"] = rate
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                source, target, it, nouns, turned = tensors(next(sentences))
                french, head = guided.french(source, target, it, nouns, turned)
            (french + WEIGHT * head).backward()
            tokens += source.numel()
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                source, _, it, nouns, _ = tensors(next(alone))
                own = guided.head(source, it, nouns)
            (WEIGHT * own).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            decay = min(0.999, (1 + step) / (10 + step))
            with torch.no_grad():
                torch._foreach_lerp_(list(average.values()), [p.detach() for p in parameters], 1 - decay)
                sums += torch.stack([french.detach().float(), head.detach().float(), own.detach().float()])
            step += 1
            every = 200 if device.type == "cuda" else 2
            if step % every == 0 or step == 1:
                means = (sums / (every if step > 1 else 1)).tolist()
                sums.zero_()
                took, last = time.monotonic() - last, time.monotonic()
                losses = f"French {means[0]:.3f}, head {means[1]:.3f}, alone {means[2]:.3f}"
                speed = f"rate {rate:.1e}, {tokens / took / 1e3:.0f}k tokens/s"
                print(f"{now - begun:.0f} s, step {step}: {losses}, {speed}", flush=True)
                tokens = 0
                if math.isnan(means[0]):
                    sys.exit("the loss is not a number")
            if not middle and done >= options.middle:
                middle = True
                save(options.out.with_name(options.out.name + "-middle"))
        save(options.out)
        pool.terminate()
    print(f"{step} steps in {time.monotonic() - since:.0f} s", flush=True)
    checked = Transformer(config).to(device)
    checked.load_state_dict(model.state_dict() | average)
    right, share = heads_right(Guided(checked.eval(), words, False), words, dev)
    print(f"head on {len(dev)} sentences with a new noun: right {right:.1%}, mean weight {share:.1%}", flush=True)


if __name__ == "__main__":
    main()
