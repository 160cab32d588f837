"""`Record`: the attention of a model by module name, and the questions about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from regard.drawing import Picture
from regard.drawing.terminal import html_table
from regard.errors import InputError, WatchError
from regard.matrix import Mixture, mix
from regard.scores import bind
from regard.support import Float, progress, some_of
from regard.watching.capture.links import listed
from regard.watching.images.families import Box
from regard.watching.images.overlays import over, with_image
from regard.watching.questions import looks as questions
from regard.watching.questions.atlas import Atlas, atlas
from regard.watching.questions.cache import Forgettable, forgettable
from regard.watching.questions.looks import Heads, Looks, Rollout, Span, Spans
from regard.watching.questions.passages import picture
from regard.watching.questions.sinks import Sinks, find_sinks
from regard.watching.questions.speech import Speech, spoken
from regard.watching.questions.why import Terms, Why, says, why
from regard.watching.record import storage
from regard.watching.record.entries import Entry, mean_over_heads
from regard.watching.record.tokens import Place, Tokens

_ROWS = 20  # of a table in a notebook, at most
# What the classes of transformers call a logistic regression over the heads of all layers: those of ESM-2, which are
# also those of Nucleotide Transformer, an ESM over DNA.
_CONTACT_HEADS = (".contact_head.regression",)


class Record(Mapping[str, Entry]):
    """A Mapping from module name to `Entry`, of the last text that the model read; `passes` has the earlier texts.

    Questions take the mean over all heads and layers, unless `layer`, `head` or `kind` ("encoder", "decoder", "cross")
    choose some (layer -1 is the last); `sequence` chooses a text of the batch. The answer is that for the text alone:
    padding, where a mask or the end of a generation tells it, neither looks nor is looked at, and tokens are counted
    from the first that is not padding. `entry.matrix` has all rows as they ran.

    A word that occurs several times stands for all its occurrences: the mean of what they look at, the sum of what they
    are given. To choose one, put it in brackets and add words around it, as in looks("the old [dog] slept"), or give
    the number of its token.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     def forward(self, x):
    ...         return regard.attention(x, x, x)
    >>> with regard.watch(Layer(), tokens=["A", "dog", "ate"]) as record:
    ...     output = record.model(5 * torch.eye(3)[None, None])
    >>> print(record.looks("dog"))
    dog ━━━━━━━━━━━━━━━━━━━━ dog 100 %  … and 2 others 0 %
    """

    def __init__(
        self,
        passes: list[Any],  # of each, a mapping from the names of modules to entries, or to calls that become entries
        model: nn.Module | None = None,
        unseen: Collection[str] = (),
        whole: Sequence[Entry] | None = None,
        changes: Sequence[str] = (),
        again: Callable[..., Any] | None = None,
    ):
        self._passes, self._unseen = passes, unseen  # a session appends to these while its model runs
        self.model = model
        self.changes = tuple(changes)  # what the model ran without, or with a bias: a sentence for each
        self.again = again  # runs the model again; None where the inputs are not known
        self._whole = whole  # all entries, if this is a part of a record: sinks are measured over all of them

    def __getitem__(self, name: str) -> Entry:
        entries = self._entries()
        if name not in entries:
            raise KeyError(f"{name!r} was not seen. Seen: {', '.join(entries)}")
        return entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries() if self._passes else ())

    def __len__(self) -> int:
        return len(self._entries()) if self._passes else 0

    def __repr__(self) -> str:
        more = f", {self.name}" if self.name else ""
        more += f", the last of {len(self._passes)} passes" if len(self._passes) > 1 else ""
        lines = [f"Record of {len(self)} attentions{more}", *(f"  {entry!r}" for entry in self.values())]
        lines = lines if len(lines) <= 20 else [*lines[:10], "  …", *lines[-9:]]
        lines += [f"  {note[0].upper()}{note[1:]}." for note in self._notes()]
        if any(entry.shard is not None for entry in self.values()):
            lines.append("  Other ranks have the other heads: record.gather() brings them to the first.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(e.name, e.kind, e.layer, *e.shape, ", ".join(e.keeps)) for e in list(self.values())[:_ROWS]]
        columns = ("module", "kind", "layer", "texts", "heads", "queries", "keys", "kept")
        about = [f"{len(self)} attentions"]
        about += [f"the last of {len(self._passes)} passes"] if len(self._passes) > 1 else []
        return html_table(rows, columns, caption=", ".join([*about, *self._notes()]), more=len(self) - _ROWS)

    def _notes(self) -> list[str]:
        unseen = [f"not seen: {some_of(self._unseen)}"] if self._unseen else []
        return [*(f"changed: {change}" for change in self.changes), *unseen]

    @property
    def unseen(self) -> tuple[str, ...]:
        """The modules that computed attention where it could not be seen: the record has nothing about them."""
        return tuple(self._unseen)

    @property
    def name(self) -> str:
        """Either "", or "unconditional" for a text that guides the next pass (classifier-free guidance)."""
        return str(getattr(self._passes[-1], "name", "")) if self._passes else ""

    @property
    def passes(self) -> list[Record]:
        """One record for each text, or batch of texts, that the model read."""
        again = self.again if len(self._passes) == 1 else None
        return [Record([one], self.model, self._unseen, changes=self.changes, again=again) for one in self._passes]

    def at(
        self, *, layer: int | None = None, head: int | slice | None = None, kind: str | None = None,
        module: str | None = None,
    ) -> Record:  # fmt: skip
        """Return the record of some layers, heads, kinds or modules only; layer -1 is the last, of each kind.

        A `module` is named as in the model and includes the modules inside it: "text_model", "encoder.layers.0".
        """
        entries = {name: entry for name, entry in self._entries().items() if _is_inside(name, module)}
        if not entries and len(self._entries()):
            raise InputError(f"nothing was seen of a module {module!r}. There are {some_of(self._entries())}.")
        layers: dict[str, list[int]] = {}  # of each kind, in ascending order
        for each_kind, number in sorted({(entry.kind, entry.layer) for entry in entries.values()}):
            layers.setdefault(each_kind, []).append(number)
        chosen = {
            name: entry if head is None else entry.head(head)
            for name, entry in entries.items()
            if kind in (None, entry.kind)
            and layer in (None, entry.layer, layers[entry.kind].index(entry.layer) - len(layers[entry.kind]))
        }
        if not chosen:
            missing = ", ".join(f"{name} = {n}" for name, n in (("layer", layer), ("kind", kind)) if n is not None)
            layers = {kind: layers[kind]} if kind in layers else layers
            there = "; ".join(f"{each_kind} layers {listed(numbers)}" for each_kind, numbers in layers.items())
            raise InputError(
                f"nothing was seen of {missing or 'any layer'}. There are {there or 'no layers'}. Layers also count "
                "back from -1."
            )
        whole = [entry for entry in self._whole or self._entries().values() if _is_inside(entry.name, module)]
        return Record([chosen], self.model, self._unseen, whole, self.changes, self.again)

    # Questions. By default attention sinks (see sinks.py) are set aside, except for a single head. sinks=True gives the
    # plain numbers; sinks=False sets them aside in any case.

    @torch.no_grad()
    def looks(
        self, what: Place, *, layer: int | None = None, head: int | None = None, kind: str | None = None,
        sequence: int = 0, sinks: bool | None = None,
    ) -> Looks:  # fmt: skip
        """What a word looks at, the largest weight first; a word of several tokens counts as one.

        Where attention sinks are set aside (unless `sinks` is True or one head is chosen), weights are shares of the
        rest.
        """
        entries = self._comparable(layer, head, kind, sequence)
        return questions.looks(entries, what, self._sinks(entries, sinks, sequence))

    @torch.no_grad()
    def looked_at(
        self, what: Place, *, layer: int | None = None, head: int | None = None, kind: str | None = None,
        sequence: int = 0, sinks: bool | None = None,
    ) -> Looks:  # fmt: skip
        """What looks at a word: the weight that each word gives to it, as in the `looks` of that word."""
        entries = self._comparable(layer, head, kind, sequence)
        return questions.looked_at(entries, what, self._sinks(entries, sinks, sequence))

    def why(
        self, what: Place, at: Place, *, layer: int, head: int, kind: str | None = None, minus: Place | None = None,
        sequence: int = 0,
    ) -> Why:  # fmt: skip
        """Why a head looks from one word to another: its score as an exact sum over what wrote query and key.

        Writers are embeddings, earlier heads and earlier feed-forward layers. The score is q·k/√d, before softcap, bias
        and mask; of words with several tokens or occurrences it is the mean. The model runs again, on the same inputs.
        Norms keep the scales that they had: what a writer does to these scales, and through other writers, is left out.

        Args:
            what: The word that looks.
            at: The word that it looks at.
            layer: The layer of the head.
            head: The head.
            kind: "encoder", "decoder" or "cross", where a layer has several.
            minus: Another word: why not there? The difference of two scores.
            sequence: The text of the batch.
        """
        return why(self, what, at, layer, head, kind, minus, sequence)

    def says(
        self, token: str | int, other: str | int | None = None, *, at: Place | None = None, sequence: int = 0
    ) -> Terms:
        """What heads and feed-forward layers add to the logit of a token, or to the difference of two logits.

        The sum is exact, with the scales of norms as they were (direct logit attribution). `at` is the word after which
        the token is predicted, by default the last. A token is its text, with the tokenizer of `watch`, or its id.
        """
        return says(self, token, other, at, sequence)

    @torch.no_grad()
    def heads(self, start: Place, end: Place, *, kind: str | None = None, sequence: int = 0) -> Heads:
        """The heads that look most from one word to another, by their plain weights: no sink is set aside."""
        return questions.heads_between(self._comparable(None, None, kind, sequence), start, end)

    @torch.no_grad()
    def scores(self, habit: str, *, sequence: int = 0) -> Heads:
        """Heads by a habit: "sink" (look at the first token), "previous", "diagonal" (at itself) or "induction"."""
        return questions.scored(self._texts(sequence), habit)

    @torch.no_grad()
    def atlas(
        self, *, context: int | Place | None = None, needle: Place | None = None, ids: Tensor | None = None,
        kind: str | None = None, sequence: int = 0,
    ) -> Atlas:  # fmt: skip
        """What every head does, in a phrase and in numbers: where it looks, and what it copies.

        Args:
            context: How many first tokens, or up to which words, the model did not write; by default its prompt.
            needle: Words or a range of tokens: retrieval then counts only what is copied from there.
            ids: The ids that `generate` returned, to count the last written token too, which was never read.
            kind: The kind of attention; by default all.
            sequence: The text of the batch.

        >>> import torch, regard
        >>> class Layer(torch.nn.Module):
        ...     def forward(self, x):
        ...         return regard.attention(x, x, x)
        >>> with regard.watch(Layer(), tokens=["A", "dog", "ate", "food"]) as record:
        ...     output = record.model(5 * torch.eye(4)[None, None])
        >>> print(record.atlas())
        1 head on 4 tokens
        itself    1   0·0 100 %
        """
        return atlas(self.at(kind=kind)._texts(sequence), context, needle, self._ids_of_text(ids, sequence))

    @torch.no_grad()
    def spans(
        self, by: str | Mapping[str, Span], *, layer: int | None = None, head: int | None = None,
        kind: str | None = None, sequence: int = 0,
    ) -> Spans:  # fmt: skip
        """Attention between spans, by "word", "sentence", chat "message", or {name: text or token range}."""
        return questions.spans(self._comparable(layer, head, kind, sequence), by)

    @torch.no_grad()
    def rollout(self, what: Place, *, sequence: int = 0, sinks: bool | None = None) -> Rollout:
        """What a word is made of down to the input, through all layers: half residual, half attention in each.

        What rests on attention sinks stays with the word that gives it, unless `sinks` is True (the classic rollout).
        In a deep causal model much of the rest still gathers at the first words, as attention only goes to the left.
        """
        entries = self._texts(sequence)
        plain = _is_plain(entries, sinks)
        return questions.rollout(entries, what, lambda entry: self._sinks([entry], plain, sequence))

    @torch.no_grad()
    def mix(
        self, weights: Any = None, *, symmetric: bool = False, apc: bool = False, tokens: slice | range | None = None,
        layer: int | None = None, head: int | None = None, kind: str | None = None, sequence: int = 0,
    ) -> Mixture:  # fmt: skip
        """A weighted sum of heads as one lazy matrix, with the slices, reductions and pictures of any other.

        Args:
            weights: A number for each head, layer by layer; by default the mean.
            symmetric: A + Aᵀ in place of each A.
            apc: Subtract from each head its average product, (sum of the row) × (sum of the column) ÷ (sum of all).
            tokens: Which tokens it is about, by default all; the average product counts no others.
            layer, head, kind, sequence: As in `looks`.

        >>> import torch, regard
        >>> class Layer(torch.nn.Module):
        ...     def forward(self, x):
        ...         return regard.attention(x, x, x)
        >>> with regard.watch(Layer()) as record:
        ...     output = record.model(torch.randn(1, 4, 500, 8))
        >>> record.mix([1, 0, 0, -1], symmetric=True, apc=True)
        Mixture(shape=(500, 500), of 4 heads, symmetric, corrected)
        """
        entries = self._comparable(layer, head, kind, sequence)
        sides = questions.query_side(entries[0]), questions.key_side(entries[0])
        words = tuple([*side] if side.named else None for side in sides)
        matrices = [entry.matrix for entry in entries]
        return mix(matrices, weights, symmetric=symmetric, apc=apc, tokens=tokens, words=words)

    @torch.no_grad()
    def contacts(self, *, sequence: int = 0) -> Mixture:
        """The probability that each two residues of a protein touch, by the regression in the model (ESM-2).

        The first and the last token, <cls> and <eos>, are left out. It equals the model's `predict_contacts`, in memory
        that grows with the number of residues and not with its square.
        """
        modules = {} if self.model is None else dict(self.model.named_modules())
        name = next((name for name in modules if f".{name}".endswith(_CONTACT_HEADS)), "")
        head, end = modules.get(name), getattr(modules.get(name.rpartition(".")[0]), "eos_idx", None)
        if not isinstance(head, nn.Linear):
            raise InputError(
                "contacts need a regression over all heads in the model, as EsmModel has. With other weights: "
                "record.mix(weights, symmetric=True, apc=True)."
            )
        ids = self._texts(sequence)[0].ids
        if ids is not None and end in ids[0, 1:-1].tolist():  # whose weights `predict_contacts` leaves out
            raise InputError(
                "contacts are those of a single chain. Got <eos> inside of the text: watch each chain alone."
            )
        mixture = self.mix(head.weight, symmetric=True, apc=True, tokens=slice(1, -1), sequence=sequence)
        bias = 0.0 if head.bias is None else head.bias.detach()
        return replace(mixture, then=lambda sums: torch.sigmoid(sums + bias))

    @torch.no_grad()
    def spoken(
        self, frames: int | None = None, *, heads: Sequence[Sequence[int]] | None = None, prompt: int | None = None,
        sequence: int = 0,
    ) -> Speech:  # fmt: skip
        """When each word was spoken, of a model that writes down a sound (Whisper), from its alignment heads.

        Args:
            frames: How many frames of the spectrogram are sound, and not padding (`num_frames` in transformers).
            heads: (layer, head) of each alignment head, by default those of the model's `generation_config`.
            prompt: How many first tokens were not written; by default what the first call of a generation read.
            sequence: The text of the batch.
        """
        return spoken(self._texts(sequence), self.model, frames, heads, prompt)

    @torch.no_grad()
    def forgettable(
        self, size: int | float = 0.5, *, by: str = "h2o", sequence: int = 0, window: int = 64
    ) -> Forgettable:  # fmt: skip
        """Which tokens a key–value cache should keep, by a published rule (see questions/cache.py).

        Args:
            size: The share or the number of tokens to keep.
            by: The rule: "h2o", "observed", "snapkv" or "tova". For the first two, keep="received" is enough.
            sequence: The text of the batch.
            window: How many of the last queries "snapkv" observes.
        """
        return forgettable(self._texts(sequence), size, by, window)

    def by_norm(self) -> Record:
        """Return the record with weight × norm in place of weights: the length of the vector that each key adds.

        This is ‖weight · value · projection‖ of each head (Kobayashi et al. 2020), with rows normalized to 1, so that
        all questions and pictures work; `rollout` is then weighted by values. Needs keep=("matrix", "value").
        """
        entries = {name: entry.by_norm() for name, entry in self._entries().items()}
        change = "weights are multiplied by the norms of the projected values, and normalized to 1"
        return Record([entries], self.model, self._unseen, changes=(*self.changes, change))

    @torch.no_grad()
    def relevance(self, what: Place, *, sequence: int = 0) -> Looks:
        """The words that a word depends on, by gradient × attention through all layers (Chefer et al. 2021).

        The gradient is that of the number on which .backward() was called. Needs keep=("matrix", "value", "gradient").
        """
        return questions.relevance(self._texts(sequence), what)

    def weights(
        self, *, layer: int | None = None, head: int | None = None, kind: str | None = None, sequence: int = 0
    ) -> Float[Tensor, "queries keys"]:
        """The weights themselves, the mean over the chosen heads, for short texts."""
        entries = self._comparable(layer, head, kind, sequence)
        return mean_over_heads(entries, lambda entry: entry.matrix[0].float().sum(0).cpu())

    def pool(
        self, rows: int = 256, columns: int = 256, *, layer: int | None = None, head: int | None = None,
        kind: str | None = None, sequence: int = 0,
    ) -> Float[Tensor, "rows columns"]:  # fmt: skip
        """The weights averaged over bins, for texts of any length."""
        entries = self._comparable(layer, head, kind, sequence)
        return mean_over_heads(entries, lambda entry: entry.pool(rows, columns)[0].sum(0).cpu())

    @torch.no_grad()
    def picture(
        self, drawing: str = "lines", *, word: Place | None = None, around: Place | None = None,
        layer: int | None = None, head: int | None = None, kind: str | None = None, sequence: int = 0, title: str = "",
        sinks: bool | None = None,
    ) -> Picture:  # fmt: skip
        """Draw "lines", "heads", a "matrix", a "grid" of all heads, a "flow" through layers or a "map" of a long text.

        In a notebook or an HTML file, "heads" is a view of all layers, heads and kinds. The lines or the flow of `word`
        stand out. Of a long text, lines, matrix and flow show the passage around the word, or `around` another place:
        some words, the number of a token, or a range of tokens. The caption says how much goes to words outside of it.
        Lines and flows set attention sinks aside as `looks` and `rollout` do.

        >>> import torch, regard
        >>> class Layer(torch.nn.Module):
        ...     def forward(self, x):
        ...         return regard.attention(x, x, x)
        >>> with regard.watch(Layer(), tokens=["A", "dog", "ate"]) as record:
        ...     output = record.model(torch.eye(3)[None, None])
        >>> print(record.picture("lines", word="dog"))
        dog ━━━━━━━━━━ dog 47.1 %   ━━━━━━ A 26.4 %   ━━━━━━ ate 26.4 %
        encoder, layer 0, head 0.
        """
        if drawing == "heads":
            entries = self.at(layer=layer, head=head, kind=kind)._texts(sequence)
        else:
            entries = self._comparable(layer, head, kind, sequence)
        aside = self._sinks(entries, sinks, sequence) if drawing in ("lines", "flow") else None
        return self._captioned(picture(entries, drawing, word, title, self._unseen, around, aside))

    def _captioned(self, drawn: Picture) -> Picture:
        """Return a picture whose caption names the changes of the model."""
        changes = (f"Changed: {change}." for change in self.changes)
        return replace(drawn, caption=" ".join([drawn.caption, *changes]).strip()) if self.changes else drawn

    @torch.no_grad()
    def over(
        self, what: Place, image: Any = None, *, layer: int | None = None, head: int | None = None,
        kind: str | None = None, module: str | None = None, steps: slice | range | None = None, sequence: int = 0,
        number: int = 0, each: str | None = None, looked_at: bool | None = None, rollout: bool = False,
        fit: str | Box | None = None, title: str = "",
    ) -> Picture:  # fmt: skip
        """Draw what a word, or a patch of an image, looks at in an image, over the image.

        Patches that most tokens look at are marked, not set aside, and the caption says what goes elsewhere.

        Args:
            what: The word or patch.
            image: A file, a Pillow image or an array; by default the brightness that the model read.
            layer, head, kind, module, sequence: As in `looks` and `at`.
            steps: Which passes of a model that paints the image itself (diffusion); by default all.
            number: Which of several images of a text.
            each: "head", "layer" or "step" draws a panel for each of them instead of the mean.
            looked_at: Draw the patches that look at the word instead; by default so where only these look.
            rollout: Draw what the word, such as "[CLS]", is made of down to the input, as in `rollout` with all sinks.
            fit: How the picture was fitted to the patches: "whole", "middle", "padded", "padded below", or a box (top,
                left, bottom, right) in shares of the picture. By default it is compared with what the model read.
            title: A title.

        >>> import torch, regard
        >>> class Layer(torch.nn.Module):
        ...     def forward(self, x):
        ...         return regard.attention(x, x, x)
        >>> with regard.watch(Layer(), tokens=["dog", "", "", "", ""], images=[(2, 2, 1)]) as record:
        ...     output = record.model(4 * torch.eye(5)[None, None, [3, 0, 1, 3, 4]])
        >>> print(record.over("dog"))
        up to 49.9 %
        ░░░░
        ██░░
        encoder, layer 0, head 0. Of what "dog" gives, 50.1 % falls on the image, 49.9 % elsewhere. Drawn without a
        picture: none was given.
        """
        paints, passes = self._paints(), self.passes
        steps = slice(None if paints else -1, None) if steps is None else steps
        chosen = range(len(passes))[steps.start : steps.stop : steps.step]
        every = [
            replace(entry, step=n)
            for n in chosen
            for entry in passes[n].at(layer=layer, head=head, kind=kind, module=module)._texts(sequence)
        ]
        entries, looked_at = with_image(every, what, looked_at)
        if not (paints and looked_at and isinstance(what, str)):  # blocks may see the image at several scales
            self._require_alike(entries)
        sinks = self._sinks(entries, False, sequence) if not looked_at else None
        flow = None
        if rollout:
            flow = torch.zeros(entries[0].shape[3])
            for look in questions.rollout(entries, what).own:
                flow[look.position] = look.weight
        drawn = over(
            entries, what, image, number=number, each=each, looked_at=looked_at, fit=fit, sinks=sinks or (), flow=flow,
            title=title,
        )  # fmt: skip
        return self._captioned(drawn)

    @torch.no_grad()
    def check(self, rows: int = 16) -> Check:
        """Compare some rows with the plain dense computation in float64, print the result, and return it."""
        result = _compare(list(self._entries().values()), rows)
        print(result)
        return result

    def gather(self) -> Record | None:
        """Return the record with the heads of all ranks (tensor parallel) on the first rank, None on the others.

        Every rank must call it. Where each rank has all heads, it is the record itself.
        """
        if not any(entry.shard is not None for part in self.passes for entry in part.values()):
            return self
        passes = [entries for part in self.passes if (entries := storage.gathered(dict(part))) is not None]
        return Record(passes, self.model, self._unseen) if len(passes) == len(self._passes) else None

    def forget(self) -> None:
        """Forget all passes so far, so that their queries and keys are freed: after each step of a long sampling."""
        del self._passes[:]

    # To a file and back

    def save(self, path: str | PathLike[str]) -> None:
        """Save everything that was kept of the last pass, as safetensors."""
        storage.save(self._entries(), self.unseen, self.changes, path)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Record:
        """Open a record that was saved."""
        entries, unseen, changes = storage.load(path)
        return cls([entries], unseen=unseen, changes=changes)

    def _entries(self) -> dict[str, Entry]:
        """Return the entries of the last pass, as they are now."""
        if not self._passes:
            raise WatchError("nothing was watched yet: call the model inside the `with` block.")
        last = self._passes[-1]
        return {name: item if isinstance(item, Entry) else item.entry() for name, item in last.items()}

    def _paints(self) -> bool:
        """Whether the model paints an image: each pass is a step."""
        sides = (side for entry in self.values() for side in (entry.tokens, entry.key_tokens) if side)
        return any(grid.painted for side in sides for grid in side[0].grids)

    def _texts(self, sequence: int) -> list[Entry]:
        """Return one text of the batch without its padding; an entry of a smaller batch, as of images, is left out."""
        entries = list(self._entries().values())
        return [each.text(sequence) for each in entries if 0 <= sequence < each.shape[0]] or [entries[0].text(sequence)]

    def _sinks(self, entries: Sequence[Entry], sinks: bool | None, sequence: int) -> Sinks:
        """Return the sinks to set aside from texts of one kind and shape; None: show everything."""
        if _is_plain(entries, sinks):
            return None
        first = entries[0]
        whole = [each.text(sequence) for each in self._whole or self._entries().values() if sequence < each.shape[0]]
        alike = [entry for entry in whole if (entry.kind, entry.shape[2:]) == (first.kind, first.shape[2:])]
        return find_sinks(alike, questions.key_side(first))

    def _ids_of_text(self, ids: Tensor | None, sequence: int) -> Tensor | None:
        """Return the ids of one text without its padding, and the next id, if any: of (batch, tokens) or (tokens)."""
        if ids is None:
            return None
        row = ids.cpu() if ids.dim() == 1 else ids[sequence].cpu()
        real = next((e.real_keys for e in self.values() if e.kind == "decoder" and e.real_keys is not None), None)
        if real is None or len(row) - real.shape[1] not in (0, 1):
            return row
        places = real[sequence].nonzero().flatten()
        return torch.cat([row[places], row[places[-1] + 1 :][:1]])

    def _comparable(self, layer: int | None, head: int | None, kind: str | None, sequence: int) -> list[Entry]:
        """Return the chosen entries of a text, which must have one kind and one shape: only then a mean makes sense."""
        entries = self.at(layer=layer, head=head, kind=kind)._texts(sequence)
        self._require_alike(entries)
        return entries

    @staticmethod
    def _require_alike(entries: Sequence[Entry]) -> None:
        kinds = sorted({entry.kind for entry in entries})
        if len(kinds) > 1:
            raise InputError(f"the record has attention of {len(kinds)} kinds: choose kind = {' or '.join(kinds)}.")
        shapes = sorted({entry.shape[2:] for entry in entries})
        if len(shapes) > 1:
            raise InputError(
                f"the layers look at texts of different lengths {shapes}: choose a layer, or a module by "
                "record.at(module=…)."
            )
        if not questions.of_one_text(entries):
            raise InputError("the layers look at different texts: choose a module by record.at(module=…).")


def by_written_word(record: Record, written: Sequence[Tokens]) -> Record:
    """Return the record with the rows of its cross-attention named after the tokens they wrote, one text a pass.

    A decoder reads one token and writes the next. The row that shows what "chien" looked at in the source is the row
    that wrote "chien", where the token before it was read.
    """
    passes = []
    for one, tokens in zip(record.passes, written, strict=True):
        renamed = {
            name: replace(entry, tokens=[tokens])
            for name, entry in one.items()
            if entry.kind == "cross" and (entry.shape[0], entry.shape[2]) == (1, len(tokens))
        }
        passes.append(dict(one) | renamed)
    return Record(passes, record.model, record.unseen, changes=record.changes)


def _is_plain(entries: Sequence[Entry], sinks: bool | None) -> bool:
    """Whether sinks are shown like any token: by default, for one head."""
    return sum(entry.shape[1] for entry in entries) == 1 if sinks is None else sinks


@dataclass(frozen=True)
class Check:
    """How far the weights of a record are from the dense computation, and how many were compared."""

    entries: int
    heads: int
    calls: int
    rows: int
    difference: float  # the largest of any weight
    row_sum: float  # the largest difference of a row's sum from 1 - the share of its sink

    def __str__(self) -> str:
        return (
            f"{self.entries} attentions, {self.heads} heads, {self.calls} calls. "
            f"{self.rows:,} rows computed again in float64: weights differ by {self.difference:.1e} at most, "
            f"rows sum to 1 within {self.row_sum:.1e}."
        )


def _compare(entries: Sequence[Entry], rows: int) -> Check:
    """Compare some rows of every head with softmax(QKᵀ · scale + mask), written out."""
    count, difference, row_sum = 0, 0.0, 0.0
    with progress("checking", total=len(entries)) as advance:
        for entry in entries:
            batch, heads, queries, _ = entry.shape
            sample = torch.linspace(0, max(queries - 1, 0), min(rows, queries)).round().long().unique()  # type: ignore[no-untyped-call]
            exact, sums = _dense_rows(entry, sample)
            ours = torch.stack([entry.matrix[:, :, row] for row in sample.tolist()], 2).double().cpu()
            difference = max(difference, float((ours - exact).abs().max()))
            row_sum = max(row_sum, float((ours.sum(-1) - sums).abs().max()))
            count += batch * heads * len(sample)
            advance(1)
    heads = sum(entry.shape[1] for entry in entries)
    return Check(len(entries), heads, sum(entry.calls for entry in entries), count, difference, row_sum)


def _dense_rows(entry: Entry, rows: Tensor) -> tuple[Float[Tensor, "batch heads rows keys"], Tensor]:
    """Return the weights of these rows, and the sum of each row."""
    _ = entry.matrix  # raises where only reductions were kept
    call, heads = entry.call, entry.of_call
    assert call is not None
    positions = rows.to(call.query.device)
    group = call.query.shape[1] // call.key.shape[1]
    query = call.query[:, heads].index_select(2, positions).double()
    key = call.key.repeat_interleave(group, 1)[:, heads].double()
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if call.scale is None else call.scale)
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    shape = (*call.query.shape[:3], key.shape[2])
    mask, keys = bind(call.mask, shape, call.query.device, plain=False), range(shape[3])
    if (bias := mask.bias_tile(positions, keys)) is not None:
        scores = scores + (bias if bias.shape[1] == 1 else bias[:, heads])
    if (visible := mask.tile(positions, keys, call.query.device)) is not None:
        scores = scores.masked_fill(~(visible if visible.shape[1] == 1 else visible[:, heads]), -math.inf)
    if call.sinks is not None:
        sinks = call.sinks.double().expand(shape[0], shape[1])[:, heads, None, None]
        scores = torch.cat([scores, sinks.expand(*scores.shape[:3], 1)], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)  # a row that sees no key
    weights = weights if call.sinks is None else weights[..., :-1]
    zeroed = bind(call.zeroed, shape, call.query.device, plain=False).tile(positions, keys, call.query.device)
    if zeroed is not None:
        weights = weights * (zeroed if zeroed.shape[1] == 1 else zeroed[:, heads])
    return weights.cpu(), weights.sum(-1).cpu()


def _is_inside(name: str, module: str | None) -> bool:
    """Whether an entry is of a module, or of a module inside it.

    >>> _is_inside("text_model.encoder.layers.1.self_attn", "encoder.layers.1"), _is_inside("text_model.0", "text")
    (True, False)
    """
    return module is None or f".{module}." in f".{name.partition('#')[0]}."
