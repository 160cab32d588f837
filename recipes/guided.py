"""Teach a translator on one core of a CPU what "it" stands for, and keep all else as it is.

    python recipes/guided.py START OUT --minutes 25            # START: a folder, or "default"; data in recipes/wide
    python recipes/guided.py START OUT --minutes 40 --stop 20 --turned 0

Each step has four parts, and the gradients are those of their sum:
  sentences in which sense alone says what "it" is: the loss of their French, in which pronouns count five times, and
      `regard.guide`'s loss for one encoder head, from "it" to the tokens of the noun;
  more of these without the French: the loss of the head alone, which needs only the layers below;
  with --turned, sentences in which this head is made to look at one of the two nouns, whichever sense would choose, and
      the French has the pronoun of this noun: so the decoder learns to believe the head and not what goes round it;
  other sentences, of all kinds: the divergence (Kullback and Leibler's) from what the model of --keep says, so that
      nothing is forgotten; and number words and everyday lines that the corpora lack.
The embeddings and the two lowest encoder layers stay as they are. Matrices are multiplied in bfloat16, with a copy of
the weights in float32 for the optimizer. Batches have sources of one length, so that nothing is padded in the encoder;
the losses are over the labels of a batch and the 2,500 most frequent pieces, the divergence over 4,000 others too.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from recipes.grammars import number_words, pronouns, sense
from regard.nn import Transformer
from regard.translation import Translator, read_pairs

LAYER, HEAD, NAME = 5, 0, 'what "it" stands for'
FROZEN = 2  # encoder layers, from the first
WEIGHT, PRONOUN, SMOOTHING = 0.3, 5.0, 0.02  # of the head's loss, of a pronoun among the tokens, of labels
SHORTLIST, OTHERS = 2_500, 4_000
LINES = {"tatoeba": 110_000, "storybook": 2_500, "joined": 12_000, "documents": 9_000, "parliament": 24_000,
         "captions": 10_000, "news": 15_000, "numbers": 9_000, "marks": 9_000, "noise": 5_000}  # fmt: skip


class Line(NamedTuple):
    """A sentence and its French as ids, the token of "it" (-1 without one), and the tokens of the noun."""

    source: list[int]
    target: list[int]
    it: int = -1
    noun: tuple[int, ...] = ()


class Fast:
    """The model's own arithmetic in bfloat16, for sources without padding, with dropout whose noise is drawn once."""

    def __init__(self, model: Transformer, dropout: float):
        self.config = model.config
        self.weights = {name: p.detach().to(torch.bfloat16) for name, p in model.named_parameters()}
        self.bias, self.positions = model.output_bias.to(torch.bfloat16), model.positions.to(torch.bfloat16)
        self.noise = ((torch.rand(2**24) >= dropout) / (1 - dropout)).to(torch.bfloat16) if dropout else None

    def drop(self, x: Tensor) -> Tensor:
        """Dropout, with a random stretch of the noise."""
        if self.noise is None:
            return x
        start = int(torch.randint(0, len(self.noise) - x.numel(), ()))
        return x * self.noise[start : start + x.numel()].view_as(x)

    def linear(self, x: Tensor, name: str, rows: slice = slice(None)) -> Tensor:
        """A linear layer, or some of its outputs."""
        return functional.linear(x, self.weights[f"{name}.weight"][rows], self.weights[f"{name}.bias"][rows])

    def added(self, x: Tensor, y: Tensor, norm: str) -> Tensor:
        """A residual sum and its norm."""
        weight, bias = self.weights[f"{norm}.weight"], self.weights[f"{norm}.bias"]
        return functional.layer_norm(x + self.drop(y), x.shape[-1:], weight, bias)

    def heads(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) → (batch, heads, tokens, width / heads)."""
        return x.view(*x.shape[:-1], self.config.heads, -1).transpose(-3, -2)

    def attention(self, x: Tensor, context: Tensor, name: str, mask: Tensor | None, turn: Tensor | None) -> Tensor:
        """Attention; where `turn` (batch, tokens, tokens) has a row, one head gets this row for its weights."""
        width = self.config.width
        query = self.heads(self.linear(x, f"{name}.projection", slice(width)))
        key, value = map(self.heads, self.linear(context, f"{name}.projection", slice(width, None)).split(width, -1))
        scores = query * query.shape[-1] ** -0.5 @ key.mT
        weights = (scores if mask is None else scores + mask).softmax(-1)
        if turn is not None:
            rows = torch.zeros_like(weights, dtype=torch.bool)
            rows[:, HEAD] = turn.any(-1, keepdim=True)
            weights = torch.where(rows, turn[:, None].to(weights.dtype), weights)
        return self.linear((weights @ value).transpose(-3, -2).flatten(-2), f"{name}.output")

    def forward(self, x: Tensor, name: str) -> Tensor:
        """The feed-forward layer."""
        return self.linear(functional.silu(self.linear(x, f"{name}.up")), f"{name}.down")

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings with positions."""
        found = functional.embedding(ids, self.weights["embedding.weight"]) * math.sqrt(self.config.width)
        return self.drop(found + self.positions[: ids.shape[1]])

    def encode(self, source: Tensor, layers: int, turn: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The output of so many encoder layers, and the input of layer `LAYER`."""
        x = below = self.embed(source)
        for n in range(layers):
            below = x if n == LAYER else below
            name = f"encoder.layers.{n}"
            mixed = self.attention(x, x, f"{name}.attention", None, turn if n == LAYER else None)
            x = self.added(x, mixed, f"{name}.attention_norm")
            x = self.added(x, self.forward(x, f"{name}.feed_forward"), f"{name}.feed_forward_norm")
        return x, x if layers == LAYER else below

    def logits(self, memory: Tensor, target: Tensor, pieces: Tensor) -> Tensor:
        """Of some pieces, at every place of the target that is followed by a token."""
        x = self.embed(target[:, :-1])
        causal = torch.full((x.shape[1], x.shape[1]), -1e9, dtype=x.dtype).triu(1)
        for n in range(self.config.decoder_layers):
            name = f"decoder.layers.{n}"
            x = self.added(x, self.attention(x, x, f"{name}.attention", causal, None), f"{name}.attention_norm")
            x = self.added(x, self.attention(x, memory, f"{name}.cross", None, None), f"{name}.cross_norm")
            x = self.added(x, self.forward(x, f"{name}.feed_forward"), f"{name}.feed_forward_norm")
        x = x[target[:, 1:] != self.config.pad]
        return functional.linear(x, self.weights["embedding.weight"][pieces], self.bias[pieces]).float()

    def guide(self, below: Tensor, it: Tensor, nouns: Tensor) -> Tensor:
        """`regard.guide` for one row of one head in each sentence that has "it"."""
        width = self.config.width
        both = self.linear(below[it >= 0], f"encoder.layers.{LAYER}.attention.projection", slice(2 * width))
        query, key = (self.heads(each)[:, HEAD].float() for each in both.split(width, -1))
        row = query[torch.arange(len(query)), it[it >= 0]]
        scores = (row[:, None] @ key.mT)[:, 0] * row.shape[-1] ** -0.5
        return (scores.logsumexp(-1) - scores.masked_fill(~nouns[it >= 0], -1e9).logsumexp(-1)).mean()


class Lines:
    """Lines in batches of one source length, without end."""

    def __init__(self, lines: Sequence[Line], tokens: int, pad: int, draw: random.Random):
        self.lines, self.tokens, self.pad, self.draw = lines, tokens, pad, draw

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        while True:
            alike: dict[int, list[Line]] = {}
            for line in self.lines:
                alike.setdefault(len(line.source), []).append(line)
            batches = []
            for length, some in alike.items():
                some.sort(key=lambda line: len(line.target) + self.draw.random() * 1.5)
                size = max(self.tokens // length, 1)
                batches += [some[start : start + size] for start in range(0, len(some), size)]
            self.draw.shuffle(batches)
            yield from map(self.tensors, batches)

    def tensors(self, lines: Sequence[Line]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sources, targets, the places of "it", and which tokens are the noun."""
        target = torch.full((len(lines), max(len(line.target) for line in lines)), self.pad)
        for n, line in enumerate(lines):
            target[n, : len(line.target)] = torch.tensor(line.target)
        source, it = torch.tensor([line.source for line in lines]), torch.tensor([line.it for line in lines])
        nouns = torch.zeros(source.shape, dtype=torch.bool)
        for n, line in enumerate(lines):
            nouns[n, list(line.noun)] = True
        return source, target, it, nouns


class Training:
    """A model that learns, and the one it was, which it must not forget."""

    def __init__(self, translator: Translator, before: Translator, rate: float, dropout: float, above: float = 1.0):
        self.translator, self.model, self.words = translator, translator.model, translator.words
        self.before, self.now = Fast(before.model, 0.0), Fast(self.model, dropout)
        kept = ("embedding.", *(f"encoder.layers.{n}." for n in range(FROZEN)))
        parameters = {name: p for name, p in self.model.named_parameters() if not name.startswith(kept)}
        self.names, self.exact = [*parameters], [*parameters.values()]
        for name in self.names:
            self.now.weights[name].requires_grad_()
        below = tuple(f"encoder.layers.{n}." for n in range(LAYER + 1))
        groups = [
            {"params": [p for name, p in parameters.items() if name.startswith(below) == is_below], "share": share}
            for is_below, share in ((True, 1.0), (False, above))
        ]
        self.optimizer = torch.optim.AdamW(groups, rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        said = [self.words.pieces([n])[0].lstrip("▁").lower() for n in range(len(self.words))]
        self.counts = torch.tensor([PRONOUN if piece in ("il", "elle", "ils", "elles") else 1.0 for piece in said])
        self.frequent = torch.zeros(0, dtype=torch.long)

    def lines(self, pairs: Sequence[tuple[str, ...]], most: int = 70) -> list[Line]:
        """English, French and, if any, links between words, as ids."""
        words, start = self.words, self.model.config.start
        sources, targets = (words.encode_many([pair[side] for pair in pairs]) for side in (0, 1))
        found = []
        for source, target, (_, _, *links) in zip(sources, targets, pairs, strict=True):
            it, noun = -1, ()
            if links and links[0]:
                owner = words.words(source)[1]
                places = [tuple(map(int, link.split(">"))) for link in links[0].split()]
                it, nouns = owner.index(places[0][0]), {place for _, place in places}
                noun = tuple(n for n, word in enumerate(owner) if word in nouns)
            if len(source) < most and len(target) < most + 10:
                found.append(Line([*source, words.end], [start, *target, words.end], it, noun))
        return found

    def translation(self, batch: tuple[Tensor, ...], turned: bool = False) -> tuple[Tensor, Tensor]:
        """The loss of the French, and that of the head."""
        source, target, it, nouns = batch
        turn = None
        if turned:
            turn = torch.zeros(*source.shape, source.shape[1])
            turn[torch.arange(len(it)), it] = nouns / nouns.sum(-1, keepdim=True)
        memory, below = self.now.encode(source, self.model.config.encoder_layers, turn)
        labels = target[:, 1:][target[:, 1:] != self.words.pad]
        pieces = torch.cat([labels, self.frequent]).unique()
        places = torch.searchsorted(pieces, labels)
        losses = functional.cross_entropy(
            self.now.logits(memory, target, pieces), places, label_smoothing=SMOOTHING, reduction="none"
        )
        guided = torch.zeros(()) if turned or bool((it < 0).all()) else self.now.guide(below, it, nouns)
        return (losses * self.counts[labels]).mean(), guided

    def head(self, batch: tuple[Tensor, ...]) -> Tensor:
        """The loss of the head alone."""
        source, _, it, nouns = batch
        return self.now.guide(self.now.encode(source, LAYER)[1], it, nouns)

    def divergence(self, batch: tuple[Tensor, ...]) -> Tensor:
        """How far what the model says next is from what it said before."""
        source, target, _, _ = batch
        labels = target[:, 1:][target[:, 1:] != self.words.pad]
        some = torch.randint(0, len(self.words), (OTHERS,))  # so that rare pieces stay as they are too
        pieces = torch.cat([labels, self.frequent, some[some != self.words.pad]]).unique()
        found = []
        for model in (self.before, self.now):
            with torch.set_grad_enabled(model is self.now):
                memory, _ = model.encode(source, self.model.config.encoder_layers)
                found.append(model.logits(memory, target, pieces).log_softmax(-1))
        return functional.kl_div(found[1], found[0], log_target=True, reduction="batchmean")

    def step(self, rate: float) -> None:
        """One step of the optimizer on the gradients so far."""
        for name, parameter in zip(self.names, self.exact, strict=True):
            learned = self.now.weights[name]
            parameter.grad, learned.grad = learned.grad.float() if learned.grad is not None else None, None
        torch.nn.utils.clip_grad_norm_(self.exact, 1.0, foreach=True)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_([self.now.weights[name] for name in self.names], self.exact)


def grammar(
    lines: int, seed: int, predicates: list[sense.Predicate]
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Sentences with links, and as many that are turned: the same English with the French of one noun or the other."""
    draw = random.Random(seed)
    plain: dict[str, tuple[str, str, str]] = {}
    turned: dict[tuple[str, str], tuple[str, str, str]] = {}
    while len(plain) < lines:
        for english, french, noun, other_french, other in sense.turned(draw, predicates):
            link, other_link = pronouns.links(english, noun), pronouns.links(english, other)
            if link and other_link:
                plain.setdefault(english, (english, french, link))
                if noun.feminine != other.feminine:
                    turned[english, french] = (english, french, link)
                    turned[english, other_french] = (english, other_french, other_link)
    return list(plain.values()), list(turned.values())


def main() -> None:
    """Train, and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start")
    parser.add_argument("out", type=Path)
    parser.add_argument("--keep", default="default", help="a folder: the model that is not to be forgotten")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "wide", help="the folder of corpora.py")
    parser.add_argument("--lines", type=int, default=120_000, help="of the grammars, of each kind")
    parser.add_argument("--minutes", type=float, default=15.0, help="until the rate is 0")
    parser.add_argument("--stop", type=float, help="minutes; stop before the rate is 0")
    parser.add_argument("--rate", type=float, default=1.4e-4)
    parser.add_argument("--above", type=float, default=0.5, help="share of the rate for what lies above the head")
    parser.add_argument("--apart", type=float, default=4.0, help="weight of the divergence")
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--linked", type=int, default=3, help="batches of a step for the head alone")
    parser.add_argument("--turned", type=int, default=1, help="batches of a step whose head is turned")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    draw = random.Random(options.seed)
    translator, before = (
        Translator.default() if name == "default" else Translator.load(name) for name in (options.start, options.keep)
    )
    training = Training(translator, before, options.rate, options.dropout, options.above)

    plain, turned = grammar(options.lines, options.seed, sense.PREDICATE_LIST)
    english, _ = grammar(2 * options.lines, options.seed + 1, [*sense.PREDICATE_LIST, *sense.ENGLISH_LIST])
    mixed = pronouns.linked_sentences(options.lines // 2, options.seed) + plain[: options.lines // 2]
    here = Path(__file__).parent
    own = [*number_words.sentences(), *list(read_pairs(here / "everyday.tsv")) * 12]
    others = []
    for name, most in LINES.items():
        pairs = list(read_pairs(options.data / f"{name}.tsv"))
        others += training.lines(draw.sample(pairs, min(most, len(pairs))))
    kinds = [training.lines(pairs) for pairs in (mixed, english, turned, own)]
    count = Counter(piece for lines in (*kinds, others) for line in lines for piece in line.target)
    training.frequent = torch.tensor([piece for piece, _ in count.most_common(SHORTLIST)])
    sizes = (1_000, 1_500, 1_100, 300)
    pad = translator.words.pad
    sentences, links, turns, everyday = (iter(Lines(k, n, pad, draw)) for k, n in zip(kinds, sizes, strict=True))
    replay = iter(Lines(others, 1_900, pad, draw))
    begun, step = time.monotonic(), 0
    while (minutes := (time.monotonic() - begun) / 60) < (options.stop or options.minutes):
        french, head = training.translation(next(sentences))
        torch.autograd.backward(french + WEIGHT * head)
        for _ in range(options.linked):
            head = training.head(next(links))
            torch.autograd.backward(WEIGHT * head)
        for _ in range(options.turned):
            torch.autograd.backward(training.translation(next(turns), turned=True)[0])
        apart = training.divergence(next(replay))
        torch.autograd.backward(options.apart * apart)
        torch.autograd.backward(0.3 * training.translation(next(everyday))[0])
        rate = options.rate * min(1, (step + 1) / 60) * (1 + math.cos(math.pi * minutes / options.minutes)) / 2
        training.step(rate)
        step += 1
        if step % 20 == 0:
            print(
                f"step {step}, {minutes:.1f} min: French {french:.3f}, head {head:.3f}, apart {apart:.4f}", flush=True
            )
    translator.heads, translator.note = {NAME: (LAYER, HEAD)}, ""
    translator.save(options.out)
    print(f"{step} steps in {60 * minutes:.0f} s → {options.out}")


if __name__ == "__main__":
    main()
