"""`Translation`: a text and its translation, how sure the model was, and which words attended to which.

A word is as probable as its least probable token, a sentence as the geometric mean of its tokens. `Calibration` maps
the logarithms of these to probabilities of being right by a logistic function each, fitted on pairs that the model has
not been trained on: recipes/confidence.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.drawing import alignment as draw_alignment
from regard.drawing.terminal import html_table, visible
from regard.errors import InputError
from regard.nn import Transformer
from regard.support import Float, ensure_room, progress, threads
from regard.translation.searching.definition import Hypothesis
from regard.translation.text.languages import looks_english
from regard.translation.text.segments import Segment, show_marks
from regard.translation.training.vocabulary import Vocabulary
from regard.watching import Record, watch
from regard.watching.record.record import by_written_word
from regard.watching.record.tokens import Tokens

if TYPE_CHECKING:
    from regard.drawing import Picture
    from regard.watching import Link
    from regard.watching.capture.links import Without

_START = "<start>"  # what the decoder reads first; its id is that of padding
_REPR = 60  # cells of each text in a prompt
_ROWS = 10  # of a table in a notebook, at most
_READ_TOGETHER, _READ_TOKENS = 32, 2048  # pairs in a pass through the model, and their tokens, at most


class Curve(NamedTuple):
    """A logistic function of a log-probability.

    >>> round(Curve(offset=2.0, slope=4.0)(-0.5), 2)
    0.5
    """

    offset: float
    slope: float

    def __call__(self, log: float) -> float:
        """The probability of being right."""
        return 1 / (1 + math.exp(-max(min(self.offset + self.slope * log, 500.0), -500.0)))


class Calibration(NamedTuple):
    """The curves of a model; without curves, a confidence is the probability that the model computes."""

    sentence: Curve | None = None
    word: Curve | None = None

    def of_sentence(self, logs: Sequence[float]) -> float:
        """The confidence in a sentence, from the log-probabilities of its tokens and of its end."""
        mean = math.fsum(logs) / max(len(logs), 1)
        return math.exp(mean) if self.sentence is None else self.sentence(mean)

    def of_words(self, logs: Sequence[float], owners: Sequence[int]) -> list[float]:
        """The confidence in each word; `owners` has the index of the word of each token.

        >>> Calibration().of_words([0.0, math.log(0.5), 0.0], [0, 0, 1])
        [0.5, 1.0]
        """
        least = [0.0] * (max(owners, default=-1) + 1)
        for log, owner in zip(logs, owners, strict=False):  # the last log is that of the end, which has no word
            least[owner] = min(least[owner], log)
        return [math.exp(log) if self.word is None else self.word(log) for log in least]

    @classmethod
    def from_json(cls, fields: Any) -> Calibration:
        """The calibration in translation.json; raises `InputError` for wrong fields."""
        if fields is None:
            return cls()
        try:
            curves = {name: Curve(*map(float, fields[name])) for name in cls._fields}
        except (TypeError, ValueError, KeyError, IndexError):
            curves = {}
        if not curves or not all(map(math.isfinite, (*curves["sentence"], *curves["word"]))):
            raise InputError(f"confidence must give two numbers for sentence and for word. Got {str(fields)[:80]}.")
        return cls(**curves)

    def as_json(self) -> dict[str, list[float]] | None:
        """The fields of translation.json."""
        if self.sentence is None or self.word is None:
            return None
        return {"sentence": list(self.sentence), "word": list(self.word)}


@dataclass(frozen=True, eq=False)
class TranslatedSegment:
    """A segment of a text, and the hypotheses of its translation."""

    segment: Segment
    hypotheses: list[Hypothesis]  # best first; none: the segment is copied
    model: Transformer = field(repr=False)
    calibration: Calibration = field(default=Calibration(), repr=False)

    def text(self, rank: int) -> str:
        """The translation of this rank, or the last one there is."""
        if not self.hypotheses:
            return self.segment.text
        return self.segment.write(self.hypothesis(rank).tokens, lambda: self.alignment.tolist())

    def keeps_facts(self) -> bool:
        """Whether the best translation has all facts of the segment."""
        return not self.hypotheses or self.segment.keeps_facts(self.hypotheses[0].tokens)

    def faithful_first(self) -> TranslatedSegment:
        """The same, with the hypotheses that keep all facts before the others."""
        if self.keeps_facts():
            return self
        order = sorted(self.hypotheses, key=lambda each: not self.segment.keeps_facts(each.tokens))
        return dataclasses.replace(self, hypotheses=order)

    def hypothesis(self, rank: int) -> Hypothesis:
        """The hypothesis of this rank, or the last one there is."""
        return self.hypotheses[min(rank, len(self.hypotheses) - 1)]

    @property
    def pair(self) -> tuple[list[int], list[int]]:
        """The ids of the source and of the best translation, without their ends; none of what is copied."""
        return (self.segment.ids, self.hypotheses[0].tokens) if self.hypotheses else ([], [])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The subwords of the source or the translation; the words of what is copied."""
        return self.segment.vocabulary.pieces(ids) if self.hypotheses else self.segment.text.split()

    def words(self, ids: Sequence[int]) -> list[str]:
        """The words of the source or the translation, as `alignment` counts them."""
        if not self.hypotheses:
            return self.segment.text.split()
        return [show_marks(word, self.segment.marks) for word in self.segment.vocabulary.words(ids)[0]]

    @cached_property
    def alignment(self) -> Float[Tensor, "words source_words"]:
        """Words of the best translation × words of the source; what is copied is aligned with itself."""
        if not self.hypotheses:
            return torch.eye(len(self.segment.text.split()))
        columns, rows = (self.segment.vocabulary.words(ids)[1] for ids in self.pair)
        if not rows:
            return torch.zeros(0, max(columns) + 1)
        return by_words(self._reading.weights, rows, columns)

    @property
    def logs(self) -> list[float]:
        """The log-probability of each token of the best translation, and of its end."""
        return self._reading.logs if self.hypotheses else []

    @cached_property
    def _reading(self) -> Reading:
        return read_back(self.model, [self.pair])[0]

    @property
    def word_confidence(self) -> list[float]:
        """The confidence in each word of the best translation; what is copied is certain."""
        if not self.hypotheses:
            return [1.0] * len(self.segment.text.split())
        owners = self.segment.vocabulary.words(self.pair[1])[1]
        return self.calibration.of_words(self.logs, owners)


class Alternative(NamedTuple):
    """Another translation, and its score."""

    text: str
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Translation:
    """What `Translator.translate` returns for a text. Printed, it is the translated text."""

    source: str
    text: str
    score: float  # the mean log-probability of a token, at length penalty 1
    alternatives: list[Alternative]  # best first, the best included
    source_tokens: list[str]  # as the model read them: ▁ begins a word
    tokens: list[str]
    source_words: list[str]
    words: list[str]
    _segments: list[TranslatedSegment]

    @classmethod
    def of(cls, source: str, segments: list[TranslatedSegment], alternatives: int) -> Translation:
        """Join the segments of a text."""
        scores: dict[str, float] = {}
        for rank in range(alternatives):
            text = "".join(each.text(rank) + each.segment.gap for each in segments)
            scores.setdefault(text, _score(segments, rank))  # another tokenization of the same text counts once
        best, *_ = ranked = [Alternative(*pair) for pair in scores.items()]
        return cls(
            source,
            best.text,
            best.score,
            ranked,
            [token for each in segments for token in each.tokens(each.pair[0])],
            [token for each in segments for token in each.tokens(each.pair[1])],
            [word for each in segments for word in each.words(each.pair[0])],
            [word for each in segments for word in each.words(each.pair[1])],
            segments,
        )

    @property
    def sentences(self) -> list[Translation]:
        """The translation of each segment that the model read: sentences if the text was split, else lines.

        >>> import regard
        >>> found = regard.Translator.default().translate("I am good. It is late.", split=True)
        >>> [sentence.source for sentence in found.sentences]
        ['I am good.', 'It is late.']
        """
        return [Translation.of(each.segment.text, [each], 1) for each in self._segments if each.hypotheses]

    @cached_property
    def alignment(self) -> Float[Tensor, "words source_words"]:
        """How much each word of the translation attended to each word of the source; rows sum to 1.

        Computed when first used, by one more pass through the model. For a text of very many words, `looks` takes less.
        """
        size = len(self.words), len(self.source_words)
        ensure_room(size, 2 * 4, torch.device("cpu"), lambda: f"the alignment of {size[0]:,} × {size[1]:,} words")
        whole = torch.zeros(len(self.words), len(self.source_words))
        row = column = 0
        with progress("aligning", total=len(self._segments)) as advance:
            for each in self._segments:  # a segment attends to its own source only
                rows, columns = each.alignment.shape
                whole[row : row + rows, column : column + columns] = each.alignment
                row, column = row + rows, column + columns
                advance(1)
        return whole

    @cached_property
    def confidence(self) -> float:
        """The probability that the translation is right; of several sentences the mean, weighted by their lengths.

        "Right" means a chrF2 of at least 50 with a person's translation, and the probability holds for the kinds of
        text on which the model was calibrated (recipes/confidence.py): its card says which, and how far off it is on
        others. Computed when first used, by one more pass through the model.

        >>> import regard
        >>> found = regard.Translator.default().translate(["I am hungry.", "Cheerio, old chap."])
        >>> found[0].confidence > 0.7 > 0.5 > found[1].confidence
        True
        """
        logs = [(each.logs, each.calibration) for each in self._segments if each.hypotheses]
        total = sum(len(each) for each, _ in logs)
        return sum(c.of_sentence(each) * len(each) for each, c in logs) / total if total else 1.0

    @cached_property
    def word_confidence(self) -> list[float]:
        """The probability that each of `words` is right: that a person's translation has it too."""
        return [share for each in self._segments for share in each.word_confidence]

    @cached_property
    def looks_english(self) -> bool:
        """Whether the source looks like English, the language that the bundled model reads."""
        return looks_english(self.source)

    @staticmethod
    def read_together(translations: Sequence[Translation]) -> None:
        """Compute alignment and confidence of many translations together, several times as fast as one by one.

        >>> import regard
        >>> found = regard.Translator.default().translate(["I am hungry.", "Where is the station?"])
        >>> regard.Translation.read_together(found)
        >>> round(found[0].alignment.sum().item(), 3) == len(found[0].words)
        True
        """
        segments = [each for translation in translations for each in translation._segments]
        unread = [each for each in segments if each.hypotheses and "_reading" not in each.__dict__]
        unread.sort(key=lambda each: sum(map(len, each.pair)))
        while unread:
            longest = sum(map(len, unread[-1].pair)) + 1
            size = max(min(_READ_TOGETHER, _READ_TOKENS // longest), 1)
            batch, unread = unread[-size:], unread[:-size]
            for each, reading in zip(batch, read_back(batch[0].model, [one.pair for one in batch]), strict=True):
                each.__dict__["_reading"] = reading

    def looks(self, most: int) -> Iterator[tuple[str, list[tuple[str, float]]]]:
        """Each word of the translation, and the words of the source that it attended to most, with their weights.

        >>> import regard
        >>> word, looks = next(regard.Translator.default().translate("I am hungry.").looks(most=1))
        >>> word, looks[0][0]
        ("J'ai", 'I')
        """
        for each in self._segments:
            if not each.hypotheses:
                yield from ((word, [(word, 1.0)]) for word in each.segment.text.split())
                continue
            source, target = map(each.words, each.pair)
            for word, row in zip(target, each.alignment.tolist(), strict=True):
                best = sorted(range(len(row)), key=lambda place: -row[place])[:most]
                yield word, [(source[place], row[place]) for place in best]

    @cached_property
    def _record(self) -> Record:
        return self._watched(None, None, True)

    def _watched(self, without: Without | None, steer: Mapping[Link, float] | None, renormalise: bool) -> Record:
        pairs = [each.pair for each in self._segments if each.pair[1]]
        if not pairs:
            raise InputError("there is nothing to watch: no word of the text was translated.")
        model, vocabulary = self._segments[0].model, self._segments[0].segment.vocabulary
        tokenizer, device = Tokenizer(vocabulary, model.config.start), model.embedding.weight.device
        with (
            torch.no_grad(),
            watch(model, tokenizer=tokenizer, without=without, steer=steer, renormalise=renormalise) as record,
            progress("watching", total=len(pairs)) as advance,
        ):
            for source, target in pairs:
                inputs = torch.tensor([[model.config.start, *target]], device=device)
                with threads((len(source) + len(target)) * model.config.parameters):
                    model(torch.tensor([[*source, vocabulary.end]], device=device), inputs)
                advance(1)
        # The rows of cross-attention are named after the token that they write: the target, then the end.
        written = [vocabulary.pieces([*target, vocabulary.end]) for _, target in pairs]
        return by_written_word(record, [Tokens(pieces, tokenizer.all_special_tokens, tokenizer) for pieces in written])

    def watch(
        self, *, without: Without | None = None, steer: Mapping[Link, float] | None = None, renormalise: bool = True
    ) -> Record:
        """All attention of the model on this source and this translation: encoder, decoder and cross.

        `without` and `steer` change the attention as in `regard.watch`; the translation stays as it is.

        Computed when first used, by one more pass through the model, and kept. Of a text in several sentences,
        `record.passes` has one record for each. The rows of cross-attention are named after the words that are being
        written, as in `alignment`; the decoder's own attention is between the words that it has read, from <start> on.

        >>> import regard
        >>> record = regard.Translator.default().translate("A dog ate the food because it was hungry.").watch()
        >>> record.heads("it", "dog", kind="encoder")[0].weight > 0.9
        True
        >>> [word.text for word in record["decoder.layers.0.cross"].tokens[0].words][:4]
        ['Un', 'chien', 'a', 'mangé']
        >>> print(record.looks("chien", kind="cross")[0].word)
        dog
        """
        return self._record if without is None and steer is None else self._watched(without, steer, renormalise)

    def picture(self, title: str = "") -> Picture:
        """The translation below its source, each word joined to the words that it attended to."""
        if not self.words or not self.source_words:
            raise InputError("there is nothing to draw: the text is blank.")
        shares = self.alignment.double().numpy()
        return draw_alignment(shares, self.source_words, self.words, title=title)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        source, text = (visible(each, _REPR) for each in (self.source, self.text))
        more = f", {len(self.alternatives)} alternatives" if len(self.alternatives) > 1 else ""
        return f"Translation({source!r} → {text!r}, score {self.score:.2f}{more})"

    def _repr_html_(self) -> str:
        """Each translation, and the probability of one of its tokens: their geometric mean."""
        rows = [(each.text, math.exp(each.score), f"{each.score:.2f}") for each in self.alternatives[:_ROWS]]
        columns = ("translation", "probability of a token", "score")
        return html_table(rows, columns, caption=self.source, more=len(self.alternatives) - _ROWS)


def _score(segments: Sequence[TranslatedSegment], rank: int) -> float:
    """The mean of the segments' scores, weighted by their number of tokens."""
    chosen = [each.hypothesis(rank) for each in segments if each.hypotheses]
    sizes = [len(hypothesis.tokens) + 1 for hypothesis in chosen]
    return sum(h.score * size for h, size in zip(chosen, sizes, strict=True)) / sum(sizes) if chosen else 0.0


class Reading(NamedTuple):
    """What a model computes for a source with a known target."""

    weights: Tensor  # target × source: the attention of each target token, while it is predicted, to each source token
    logs: list[float]  # the log-probability of each token, and of the end


@torch.no_grad()
def read_back(model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Reading]:
    """One pass through the model over pairs of source and target, without ends; weights are the mean over all heads.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> one, two = read_back(model, [([5, 6, 7], [8, 9]), ([5], [8, 9, 4])])
    >>> one.weights.shape, bool(torch.allclose(one.weights.sum(-1), torch.ones(2))), len(two.logs)
    (torch.Size([2, 4]), True, 4)
    """
    config, device = model.config, model.embedding.weight.device

    def padded(rows: list[list[int]]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, config.pad).to(device)

    # The input at each position is the token before the one that is predicted there.
    inputs = padded([[config.start, *target] for _, target in pairs])
    sources = padded([[*source, config.end] for source, _ in pairs])
    with threads((inputs.numel() + sources.numel()) * config.parameters), watch(model.decoder) as record:
        logits = model(sources, inputs).float()
    logits[..., config.pad] = -torch.inf  # never generated
    targets = padded([[*target, config.end] for _, target in pairs])
    logs = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0].tolist()
    cross = [entry for entry in record.values() if entry.kind == "cross"]
    readings = []
    for n, (source, target) in enumerate(pairs):
        weights = torch.stack([entry[n].mean(0)[: len(target), : len(source) + 1] for entry in cross]).mean(0)
        readings.append(Reading(weights.float().cpu(), logs[n][: len(target) + 1]))
    return readings


def by_words(
    weights: Float[Tensor, "target source"], rows: Sequence[int], columns: Sequence[int]
) -> Float[Tensor, "words others"]:
    """Weights between tokens as weights between words: `rows` and `columns` hold the word index of each token.

    A word receives the sum over its tokens, and attends as their mean; the weight on tokens beyond `columns` (the end)
    is redistributed, so that each row sums to 1.

    >>> by_words(torch.tensor([[0.2, 0.2, 0.1, 0.5], [0.0, 0.4, 0.4, 0.2]]), rows=[0, 1], columns=[0, 0, 1])
    tensor([[0.8000, 0.2000],
            [0.5000, 0.5000]])
    """
    words, others = (max(owner, default=-1) + 1 for owner in (rows, columns))
    received = weights.new_zeros(len(weights), others)
    received.index_add_(1, torch.tensor(columns), weights[:, : len(columns)])
    total = weights.new_zeros(words, others).index_add_(0, torch.tensor(rows), received)
    return total / total.sum(-1, keepdim=True).clamp_min(1e-9)


class Tokenizer:
    """The part of a Hugging Face tokenizer's interface that `watch` and `record.says` use."""

    def __init__(self, vocabulary: Vocabulary, start: int):
        self._vocabulary, self._start = vocabulary, start
        self.all_special_tokens = [_START, *vocabulary.pieces([vocabulary.end, vocabulary.unknown, vocabulary.pad])]

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text, with the end as its only special token."""
        return [*self._vocabulary.encode(text), *([self._vocabulary.end] if add_special_tokens else [])]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The token of each id."""
        pieces = self._vocabulary.pieces(ids)
        return [_START if each == self._start else piece for each, piece in zip(ids, pieces, strict=True)]

    def convert_tokens_to_string(self, pieces: Sequence[str]) -> str:
        """Tokens as text."""
        return "".join(pieces).replace("▁", " ")
