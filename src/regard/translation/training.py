"""`train`: from a recipe to a model, with progress shown, logged and saved."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.errors import FileError, InputError, RegardError, TooLargeError
from regard.nn import Transformer, TransformerConfig
from regard.nn.files import make_folder, remove_drafts, sha256, write_bytes
from regard.support import available
from regard.translation import checkpoint
from regard.translation.beam_search import search_all
from regard.translation.corpus import Batches, Corpus, near, read_lines, read_pairs
from regard.translation.recipe import Recipe
from regard.translation.scoring import import_sacrebleu
from regard.translation.translator import Translator
from regard.translation.vocabulary import FILE as VOCABULARY
from regard.translation.vocabulary import Vocabulary, clean

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Trainer", "train"]

LOG = "log.jsonl"
_LOG_STEPS = 10  # steps between lines of the log
_NEAR = 0.7  # similarity to a line of `far_from` at which a training pair is dropped
_ADAM = 5 * 4  # bytes per parameter: the weight, its gradient, two moments and the average


def train(recipe: Recipe, folder: str | Path, *, resume: bool = False, quiet: bool = False) -> Transformer:
    """Follow a recipe; at the end the folder holds the best model by dev chrF, ready for `Translator.load`.

    Ctrl-C ends it after the current step, with a checkpoint; then KeyboardInterrupt says how to go on. A second Ctrl-C
    ends it at once.
    """
    from rich.console import Console  # here, so that `import regard` stays light

    import_sacrebleu()  # needed at the first look: ask for it before the training
    folder = Path(folder)
    trainer = Trainer(recipe, folder, Console(stderr=True, quiet=quiet))
    make_folder(folder)
    try:
        with checkpoint.lock(folder) as locked, trainer.deferred_interrupts():
            if not locked:
                trainer.console.print("this file system has no locks: let no other training use the folder")
            remove_drafts(folder)
            trainer.prepare(resume)
            trainer.run()
            return Transformer.load(folder)
    except KeyboardInterrupt as stop:
        hint = f"go on with --resume ({folder})" if checkpoint.exists(folder) else "nothing was saved yet"
        raise KeyboardInterrupt(str(stop) or f"stopped: {hint}.") from None
    except RegardError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        raise TooLargeError("the memory is exhausted: lower tokens in the recipe, or the sizes in [model].") from None
    except OSError as error:
        raise FileError(f"{error.filename or folder}: {error.strerror or error}.") from None


class Trainer:
    """One training: the recipe, its data, the model, and the progress."""

    def __init__(self, recipe: Recipe, folder: Path, console: Console):
        self.recipe, self.folder, self.console = recipe, folder, console
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.state: dict[str, Any] = {
            "step": 0, "epoch": 0, "batch": 0, "best": -1.0, "waited": 0, "seconds": 0.0, "unlogged": 0, "ended": False,
        }  # fmt: skip
        self.total = torch.zeros((), device=self.device)  # of the losses of the steps that are not yet in the log
        self.log = bytearray()
        self.stopping = False

    # Preparation

    def prepare(self, resume: bool = False) -> None:
        """Read the corpora, learn or open the vocabulary, build the model; with `resume`, load the checkpoint."""
        recipe, folder = self.recipe, self.folder
        if not resume and checkpoint.exists(folder):
            raise FileError(f"{folder} holds a training already. Go on with --resume, or choose another folder.")
        make_folder(folder)
        self.origin = self._origin()
        found = self._checkpoint() if resume else None
        if found is not None and found.state["ended"]:
            self.state = found.state
            self._put(found.files)
            return
        pairs = self._corpus(recipe.train, "training").pairs
        self.dev = self._corpus([recipe.dev], "dev").pairs
        if found is not None:
            self.words = Vocabulary(found.files[VOCABULARY])
        elif recipe.vocabulary_from is not None:
            self.words = Vocabulary.load(recipe.folder / recipe.vocabulary_from)
        else:
            lines = (side for pair in pairs for side in pair)
            self.words = Vocabulary.train(lines, recipe.vocabulary, marks=recipe.marks)
        config = recipe.config(len(self.words))
        self._check_memory(config)
        self._stop_if_asked()
        self.batches = self._batches(self._encode(pairs), config)
        torch.manual_seed(recipe.seed)
        self.model = Transformer(config).to(self.device)
        self.average = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )
        self.console.print(f"{self.model.config.parameters:,} parameters, on {self.device}")
        if found is not None:
            self._restore(found)
        self._put({VOCABULARY: self.words.model, LOG: bytes(self.log)})
        self._stop_if_asked()

    def _put(self, files: dict[str, bytes]) -> None:
        """Write files into the folder, unless they are there."""
        for name, data in files.items():
            path = self.folder / name
            if not path.is_file() or path.read_bytes() != data:
                write_bytes(path, data)

    def _stop_if_asked(self) -> None:
        if self.stopping:
            raise KeyboardInterrupt

    def _origin(self) -> dict[str, Any]:
        """The recipe, and a sum of each file that it reads: a training goes on with the same ones only."""
        corpora = [[entry] if isinstance(entry, str) else entry for entry in [*self.recipe.train, self.recipe.dev]]
        names = [name for files in corpora for name in files] + self.recipe.far_from
        return {"recipe": self.recipe.as_json(), "files": {name: sha256(self.recipe.folder / name) for name in names}}

    def _checkpoint(self) -> checkpoint.Checkpoint:
        """The last good checkpoint, if it is of this recipe and these corpora."""
        found, wrong = checkpoint.read(self.folder)
        for text in wrong:
            self.console.print(f"{text} Going on from the checkpoint before it.", markup=False)
        changes = self.recipe.differences(found.origin["recipe"])
        files = found.origin["files"]
        changes += [f"{name} has changed" for name, now in self.origin["files"].items() if files.get(name, now) != now]
        if changes:
            raise FileError(
                f"{self.folder} holds a training of another recipe or corpus: {'; '.join(changes)}. Undo that to "
                "go on, or train in another folder."
            )
        return found

    def _restore(self, found: checkpoint.Checkpoint) -> None:
        checkpoint.restore(found, self.model, self.average, self.optimizer, {"loss": self.total})
        self.state, self.log = found.state, bytearray(found.files[LOG])
        self.console.print(f"going on at step {self.state['step']:,}")
        if self.state["best"] >= 0:
            try:
                Translator.load(self.folder)
            except FileError as error:
                self.console.print(f"{error} The next look at the dev corpus saves the model anew.", markup=False)
                self.state["best"] = -1.0

    def _check_memory(self, config: TransformerConfig) -> None:
        needed, free = config.parameters * _ADAM, available(self.device)
        if free is not None and needed > free:
            raise TooLargeError(
                f"to train {config.parameters:,} parameters takes {needed / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB "
                f"are free on {self.device}. Lower the sizes in [model]."
            )

    def _batches(self, ids: list[tuple[list[int], list[int]]], config: TransformerConfig) -> Batches:
        recipe, words = self.recipe, self.words
        longest = min(recipe.longest, config.positions // 8 * 8)  # a batch is padded to a multiple of 8
        batches = Batches(
            ids, end=words.end, pad=words.pad, tokens=recipe.tokens, longest=longest, joined=recipe.joined,
            seed=recipe.seed,
        )  # fmt: skip
        self.console.print(f"{len(words):,} subwords; {batches.dropped:,} pairs are longer than {longest}")
        if not len(batches):
            raise InputError(
                f"no training pair has fewer than {longest} tokens a side: raise longest = {recipe.longest} or, in "
                f"[model], positions = {config.positions}."
            )
        return batches

    def _encode(self, pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        sources, targets = [source for source, _ in pairs], self.words.encode_many([target for _, target in pairs])
        ids = self.words.encode_many(sources)
        if self.recipe.sampling:  # each pair once more, its source split in another way
            ids = ids + self.words.encode_many(sources, sampling=self.recipe.sampling, seed=self.recipe.seed)
            targets = targets + targets
        return list(zip(ids, targets, strict=True))

    def _corpus(self, files: list[Any], name: str) -> Corpus:
        corpus = Corpus()
        for entry in files:
            paths = [self.recipe.folder / file for file in ([entry] if isinstance(entry, str) else entry)]
            corpus.add(read_pairs(*paths))
            self._stop_if_asked()
        if name == "training" and self.recipe.far_from:
            corpus.pairs = self._far(corpus)
        if self.recipe.reverse:
            corpus.pairs = [(target, source) for source, target in corpus.pairs]
        if not corpus.pairs:
            raise InputError(f"the {name} corpus holds no pair that can be used.")
        self.console.print(f"[bold]{name}[/]: {corpus.report()}")
        return corpus

    def _far(self, corpus: Corpus) -> list[tuple[str, str]]:
        """The pairs that are not near duplicates of lines the model will be tested on."""
        others = []
        for name in self.recipe.far_from:
            lines = read_lines(self.recipe.folder / name)
            others += [clean(line.split("\t")[0]) for line in lines if line.strip() and not line.startswith("#")]
        is_near = near([source for source, _ in corpus.pairs], others, _NEAR)
        corpus.dropped["near to a line of far_from"] += sum(is_near)
        return [pair for pair, drop in zip(corpus.pairs, is_near, strict=True) if not drop]

    # Steps

    def run(self) -> None:
        """Train until the steps, the minutes or the patience run out."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        recipe, state = self.recipe, self.state
        if state["ended"]:
            self.console.print(f"this training ended at step {state['step']:,}: nothing is left to do")
            return
        path = self.folder / checkpoint.CLOCK if recipe.minutes is not None else None
        seconds = checkpoint.Clock(path, step=state["step"], seconds=state["seconds"])
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
        tokens, since = 0, time.monotonic()
        bar = Progress(*columns, TimeRemainingColumn(), console=self.console)
        with closing(seconds), bar as progress:
            task = progress.add_task("training", total=1.0)
            for source, target in self._stream():
                state["seconds"] = seconds.at(state["step"])
                rate = self._rate()
                self.total += self._step(source.to(self.device), target.to(self.device), rate)
                tokens += source.numel() + target.numel()
                state["unlogged"] += 1
                state["step"] += 1
                ends = self._done() >= 1
                if state["step"] % _LOG_STEPS == 0 or state["step"] % recipe.check == 0 or ends:
                    loss, speed = self.total.item() / state["unlogged"], tokens / (time.monotonic() - since)
                    if not loss < float("inf"):
                        raise RegardError(
                            f"the loss is {loss} at step {state['step']}: lower the rate or raise warmup."
                        )
                    self._log(loss=loss, rate=rate, tokens_per_second=round(speed))
                    text = f"step {state['step']:,}  loss {loss:.3f}  {speed / 1e3:,.0f} k tokens/s"
                    progress.update(task, completed=self._done(), description=text)
                    self.total.zero_()
                    state["unlogged"], tokens, since = 0, 0, time.monotonic()
                if state["step"] % recipe.check == 0 or ends:
                    self._evaluate(ends)
                    since = time.monotonic()
                    if state["ended"]:
                        break
                elif self.stopping:
                    self._save()
                if self.stopping:
                    raise KeyboardInterrupt(
                        f"stopped after step {state['step']:,}; go on with --resume ({self.folder})."
                    )

    @contextmanager
    def deferred_interrupts(self) -> Iterator[None]:
        """Let the first Ctrl-C only ask the training to stop; the second stops it at once.

        An exception inside a step would leave half a step, and one inside safetensors or torch can turn into another.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: Any) -> None:
            self.stopping = True
            signal.signal(signal.SIGINT, before)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _stream(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches without end, from the current one; the state counts a batch when it is handed out."""
        state = self.state
        while True:
            for batch in self.batches.epoch(state["epoch"], start=state["batch"]):
                state["batch"] += 1
                yield batch
            state["epoch"], state["batch"] = state["epoch"] + 1, 0

    def _done(self) -> float:
        """The share of the training that is done, by steps or by time, whichever is larger."""
        share: float = self.state["step"] / self.recipe.steps
        if self.recipe.minutes is not None:
            share = max(share, self.state["seconds"] / 60 / self.recipe.minutes)
        return min(share, 1.0)

    def _rate(self) -> float:
        warm = min((self.state["step"] + 1) / self.recipe.warmup, 1.0)
        return float(self.recipe.rate * warm * (1 - self._done()) ** 0.7)

    def _step(self, source: Tensor, target: Tensor, rate: float) -> Tensor:
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # Not cuDNN: it would build a new plan for each of the many batch shapes.
        kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        with sdpa_kernel(kernels):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                loss = self.model.loss(source, target, smoothing=self.recipe.smoothing)
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        decay = min(self.recipe.average, (1 + self.state["step"]) / (10 + self.state["step"]))
        with torch.no_grad():
            parameters = [p.detach() for p in self.model.parameters()]
            torch._foreach_lerp_(list(self.average.values()), parameters, 1 - decay)
        return loss.detach()

    def averaged(self) -> Transformer:
        """The model with the averaged weights."""
        model = Transformer(self.model.config).to(self.device)
        model.load_state_dict(self.model.state_dict() | self.average)
        return model.eval()

    def _evaluate(self, ends: bool) -> None:
        """Translate the dev corpus, save the best model, write the checkpoint; note if it was the last time."""
        model, state = self.averaged(), self.state
        translations = self.translate(model, [source for source, _ in self.dev])
        chrf = import_sacrebleu().corpus_chrf(translations, [[target for _, target in self.dev]]).score
        sample = self.translate(model, [self.recipe.sample])[0]
        state["waited"] = 0 if chrf > state["best"] else state["waited"] + 1
        if chrf > state["best"]:
            state["best"] = chrf
            Translator(model, self.words, languages=self.recipe.languages).save(self.folder)
        state["ended"] = ends or state["waited"] >= self.recipe.patience
        self._log(chrf=chrf, sample=sample)
        self._save()
        self.console.print(
            f"step {state['step']:,}: chrF2 {chrf:.1f} (best {state['best']:.1f})  {sample}", markup=False
        )

    def _save(self) -> None:
        checkpoint.write(
            self.folder, self.model, self.average, self.optimizer, self.state, origin=self.origin,
            files={VOCABULARY: self.words.model, LOG: bytes(self.log)}, extra={"loss": self.total},
        )  # fmt: skip

    def translate(self, model: Transformer, texts: list[str], beam: int = 1, tokens: int = 16_384) -> list[str]:
        """Translations of texts, in batches of about `tokens` tokens."""
        ids = [[*self.words.encode(text), self.words.end][: model.config.positions] for text in texts]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            found = search_all(model, ids, beam=beam, tokens=tokens)
        return [self.words.decode(best[0].tokens) for best in found]

    def _log(self, **values: Any) -> None:
        step = {"step": self.state["step"], "epoch": self.state["epoch"], "seconds": round(self.state["seconds"], 1)}
        line = (json.dumps(step | values, ensure_ascii=False) + "\n").encode()
        self.log += line
        with (self.folder / LOG).open("ab") as file:
            file.write(line)
