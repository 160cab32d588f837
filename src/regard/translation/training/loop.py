"""`train`: from a recipe to a model, with progress shown, logged and saved."""

from __future__ import annotations

import dataclasses
import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.errors import FileError, InputError, RegardError, TooLargeError
from regard.nn import Transformer, TransformerConfig
from regard.nn.model_folder import make_folder, remove_drafts, sha256, write_bytes
from regard.support import progress
from regard.translation.searching import search_all
from regard.translation.training import checkpoint
from regard.translation.training.corpus import (
    Batches,
    Corpus,
    import_sacrebleu,
    near,
    read_lines,
    read_linked,
    read_pairs,
)
from regard.translation.training.processes import Processes, joined, restarted
from regard.translation.training.recipe import Recipe
from regard.translation.training.vocabulary import FILE as VOCABULARY
from regard.translation.training.vocabulary import Vocabulary, clean
from regard.translation.translator import Translator

if TYPE_CHECKING:
    from rich.console import Console

LOG = "log.jsonl"
_LOG_STEPS = 10  # steps between lines of the log
_NEAR = 0.7  # similarity to a line of `far_from` at which a training pair is dropped
# Not cuDNN: it would build a new plan for each of the many batch shapes.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def train(recipe: Recipe, folder: str | Path, *, resume: bool = False, quiet: bool = False) -> Transformer:
    """Train by a recipe; in the end the folder holds the model with the best dev chrF, for `Translator.load`.

    The first Ctrl-C stops after the current step, with a checkpoint; KeyboardInterrupt says how to continue. A second
    Ctrl-C stops at once. Under torchrun all processes train one model: the first writes the folder, all return it.
    """
    from rich.console import Console  # here, so that `import regard` stays light

    folder = Path(folder)

    def advice() -> str:
        if checkpoint.exists(folder):
            return f"go on with --resume ({folder})"
        if folder.exists():
            return "nothing was saved yet: start again"
        return f"go on with --resume if {folder} holds a checkpoint"  # on another machine

    with joined(advice) as processes:
        import_sacrebleu()  # the first evaluation needs it: fail before the training
        trainer = Trainer(recipe, folder, Console(stderr=True, quiet=quiet or not processes.first), processes)
        try:
            with trainer.alone_in_folder(), trainer.deferred_interrupts():
                trainer.prepare(resume or (restarted() and checkpoint.exists(folder)))
                trainer.run()
                return trainer.best()
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(str(stop) or f"stopped: {advice()}.") from None
        except RegardError:
            raise
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            raise TooLargeError(
                "the memory is exhausted: lower tokens in the recipe, or the sizes in [model]."
            ) from None
        except OSError as error:
            raise FileError(f"{error.filename or folder}: {error.strerror or error}.") from None


class Trainer:
    """One training: the recipe, its data, the model, and the progress.

    Each of several processes has a trainer; they differ only in their share of a batch.
    """

    def __init__(self, recipe: Recipe, folder: Path, console: Console, processes: Processes | None = None):
        self.recipe, self.folder, self.console = recipe, folder, console
        self.processes = processes or Processes()
        self.device = self.processes.device
        self.state: dict[str, Any] = {
            "step": 0, "epoch": 0, "batch": 0, "best": -1.0, "waited": 0, "seconds": 0.0, "unlogged": 0, "ended": False,
        }  # fmt: skip
        # The part of this process in the losses since the last line of the log. In float64, sums of float32 losses are
        # exact, so a checkpoint may hold one sum over all processes.
        self.total = torch.zeros((), dtype=torch.float64, device=self.device)
        self.tokens = 0  # that this process has read since then
        self.log = bytearray()
        self.stopping = False
        self.monitor: Any = None  # a `regard.watching.Monitor`, once it has sampled
        self.loss: Any = None  # a function of source and target, wrapped for several processes

    # Preparation

    @contextmanager
    def alone_in_folder(self) -> Iterator[None]:
        """Create the folder, and lock it until the end of the training."""
        if not self.processes.first:
            yield
            return
        make_folder(self.folder)
        with checkpoint.lock(self.folder) as locked:
            if not locked:
                self.console.print("this file system has no locks: let no other training use the folder")
            remove_drafts(self.folder)
            yield

    def prepare(self, resume: bool = False) -> None:
        """Read the corpora, learn or open the vocabulary, build the model; with `resume`, load the checkpoint."""
        recipe = self.recipe
        self.origin = self._origin()
        saved = self._open_folder(resume) if self.processes.first else None
        resume = self.processes.of_first(saved is not None)
        self.state = self.processes.of_first(saved.state if saved else self.state)
        if self.state["ended"]:
            self._put(saved.files if saved else {})
            return
        changes = self._changes(self.processes.of_first(self.origin))
        if changes:
            raise FileError(f"not the recipe or corpus of the first process: {'; '.join(changes)}.")
        with progress("reading the corpora"):
            corpus = self._corpus(recipe.train, "training")
        self.dev = self._corpus([recipe.dev], "dev").pairs
        self.words = self._vocabulary(corpus.pairs, saved)
        config = recipe.config(len(self.words))
        self.processes.check_room(config.parameters, shard=recipe.shards(config.parameters))
        self._stop_if_asked()
        with progress("cutting words into pieces"):
            self.batches = self._batches(corpus, config)
        torch.manual_seed(recipe.seed)
        self.model = Transformer(config)
        if recipe.weights_from is not None:
            checkpoint.begin_with(self.model, recipe.folder / recipe.weights_from)
        if recipe.compile:
            self.model.compile_for_training(skip=[self.model.encoder.layers[each.layer] for each in recipe.guides])
        self.model.to(self.device)
        self.loss = self.processes.wrap(self.model, recipe.guides, shard=recipe.shards(config.parameters))
        self.average = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )
        where = self.device.type if self.processes.world == 1 else f"{self.processes.world} processes"
        self.console.print(f"{config.parameters:,} parameters, on {where}")
        self._settle_buckets()
        if resume:
            self._restore(saved)
        self._put({VOCABULARY: self.words.model, LOG: bytes(self.log)})
        self._stop_if_asked()

    def _open_folder(self, resume: bool) -> checkpoint.Checkpoint | None:
        """The last good checkpoint, if this recipe and these corpora made it; None for a new training."""
        make_folder(self.folder)
        if not resume:
            if checkpoint.exists(self.folder):
                raise FileError(
                    f"{self.folder} holds a training already. Go on with --resume, or choose another folder."
                )
            return None
        saved, damages = checkpoint.read(self.folder)
        for damage in damages:
            self.console.print(f"{damage} Going on from the checkpoint before it.", markup=False)
        changes = self._changes(saved.origin)
        if changes:
            raise FileError(
                f"{self.folder} holds a training of another recipe or corpus: {'; '.join(changes)}. Undo that to "
                "go on, or train in another folder."
            )
        return saved

    def _put(self, files: dict[str, bytes]) -> None:
        """Write files into the folder, unless they are there."""
        for name, data in files.items() if self.processes.first else ():
            path = self.folder / name
            if not path.is_file() or path.read_bytes() != data:
                write_bytes(path, data)

    def _stop_if_asked(self) -> None:
        if self.stopping:
            raise KeyboardInterrupt

    def _origin(self) -> dict[str, Any]:
        """The recipe, and a checksum of each file that it reads: a training resumes only with the same ones."""
        corpora = [[entry] if isinstance(entry, str) else entry for entry in [*self.recipe.train, self.recipe.dev]]
        names = [name for files in corpora for name in files] + self.recipe.far_from
        return {"recipe": self.recipe.as_json(), "files": {name: sha256(self.recipe.folder / name) for name in names}}

    def _changes(self, origin: dict[str, Any]) -> list[str]:
        """Describe what differs from an earlier training or another process."""
        files = origin["files"]
        return self.recipe.differences(origin["recipe"]) + [
            f"{name} has changed" for name, now in self.origin["files"].items() if files.get(name, now) != now
        ]

    def _restore(self, saved: checkpoint.Checkpoint | None) -> None:
        """Continue from the checkpoint, which the first process has read."""
        tensors = self._tensors()
        if saved is not None:
            self.log = bytearray(saved.files[LOG])
        for name, tensor in tensors.items():
            self.processes.fill(tensor, saved.tensors[name] if saved is not None else None)
        if not self.processes.first:
            self.total.zero_()  # the checkpoint holds the sum over all processes
        self.console.print(f"going on at step {self.state['step']:,}")
        if self.state["best"] >= 0 and self.processes.first:
            try:
                Translator.load(self.folder)
            except FileError as error:
                self.console.print(f"{error} The next look at the dev corpus saves the model anew.", markup=False)
                self.state["best"] = -1.0
        self.state["best"] = self.processes.of_first(self.state["best"])

    def _vocabulary(self, pairs: list[tuple[str, str]], saved: checkpoint.Checkpoint | None) -> Vocabulary:
        """The vocabulary of the first process, which learns it, loads it or reads it from the checkpoint."""
        words = None
        if saved is not None:
            words = Vocabulary(saved.files[VOCABULARY])
        elif self.processes.first and self.recipe.vocabulary_from is not None:
            words = Vocabulary.load(self.recipe.folder / self.recipe.vocabulary_from)
        elif self.processes.first:
            lines = (side for pair in pairs for side in pair)
            words = Vocabulary.train(lines, self.recipe.vocabulary, marks=self.recipe.marks)
        self.processes.await_first("vocabulary")
        model = self.processes.of_first(None if words is None else words.model)
        return words or Vocabulary(model)

    def _links(self, corpus: Corpus, sources: list[list[int]]) -> list[list[tuple[int, int]]]:
        """The links between words, as links of the first piece of a word to all pieces of the other word."""
        links = []
        for n, source in enumerate(sources):
            pair = corpus.pairs[n % len(corpus.pairs)]  # with `sampling`, each pair comes twice
            text = corpus.links.get(pair, "")
            word_of = self.words.words(source)[1] if text else []
            words = [(int(row), int(key)) for row, key in (link.split(">") for link in text.split())]
            if words and max(map(max, words)) > word_of[-1]:
                raise InputError(f"a link of {text!r} is to a word that the text does not have: {pair[0]!r}.")
            links.append(
                [(word_of.index(row), k) for row, key in words for k, word in enumerate(word_of) if word == key]
            )
        if not any(links):
            raise InputError("[[guide]] needs links: a third column in one of the corpora, such as 7>1.")
        return links

    def _batches(self, corpus: Corpus, config: TransformerConfig) -> Batches:
        """The training pairs as subwords; with `sampling`, each pair once more, its source split in another way."""
        recipe, words = self.recipe, self.words
        texts = [[pair[side] for pair in corpus.pairs] for side in (0, 1)]
        sources, targets = (words.encode_many(side, cleaned=True) for side in texts)
        if recipe.sampling:
            sources = sources + words.encode_many(texts[0], sampling=recipe.sampling, seed=recipe.seed, cleaned=True)
            targets = targets + targets
        links = self._links(corpus, sources) if recipe.guide else None
        longest = min(recipe.longest, config.positions // 8 * 8)  # a batch is padded to a multiple of 8
        batches = Batches(
            list(zip(sources, targets, strict=True)), links, end=words.end, pad=words.pad,
            tokens=recipe.tokens * recipe.accumulate, longest=longest, joined=recipe.joined, seed=recipe.seed,
        )  # fmt: skip
        self.console.print(f"{len(words):,} subwords; {batches.dropped:,} pairs are longer than {longest}")
        if not len(batches):
            raise InputError(
                f"no training pair has fewer than {longest} tokens a side: raise longest = {recipe.longest} or, in "
                f"[model], positions = {config.positions}."
            )
        return batches

    def _corpus(self, files: list[Any], name: str) -> Corpus:
        corpus = Corpus()
        for entry in files:
            paths = [self.recipe.folder / file for file in ([entry] if isinstance(entry, str) else entry)]
            corpus.add(read_linked(*paths) if self.recipe.guide and len(paths) == 1 else read_pairs(*paths))
            self._stop_if_asked()
        if name == "training" and self.recipe.far_from:
            self._drop_near_pairs(corpus)
        if self.recipe.reverse:
            corpus.pairs = [(target, source) for source, target in corpus.pairs]
        if not corpus.pairs:
            raise InputError(f"the {name} corpus holds no pair that can be used.")
        self.console.print(f"[bold]{name}[/]: {corpus.report()}")
        return corpus

    def _drop_near_pairs(self, corpus: Corpus) -> None:
        """Drop the pairs that are near duplicates of test lines."""
        tests = []
        for name in self.recipe.far_from:
            lines = read_lines(self.recipe.folder / name)
            tests += [clean(line.split("\t")[0]) for line in lines if line.strip() and not line.startswith("#")]
        is_near = near([source for source, _ in corpus.pairs], tests, _NEAR)
        corpus.dropped["near to a line of far_from"] += sum(is_near)
        corpus.pairs = [pair for pair, drop in zip(corpus.pairs, is_near, strict=True) if not drop]

    def _settle_buckets(self) -> None:
        """Run one pass and drop its gradients.

        DistributedDataParallel reorders its buckets after the first pass. From three processes on, the place of a
        gradient in a bucket decides the order of its sum. Without this pass, the first step after a resume would round
        differently from the same step of an uninterrupted training.
        """
        if self.processes.world > 1:
            with sdpa_kernel(_KERNELS):
                self._backward(self.batches.plan(0)[0][: self.processes.world])
            self.optimizer.zero_grad(set_to_none=True)
            self.tokens = 0

    # Steps

    def run(self) -> None:
        """Train until the steps, the minutes or the patience run out."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        recipe, state = self.recipe, self.state
        if state["ended"]:
            self.console.print(f"this training ended at step {state['step']:,}: nothing is left to do")
            return
        timed = recipe.minutes is not None
        path = self.folder / checkpoint.CLOCK if timed and self.processes.first else None
        seconds = checkpoint.Clock(path, step=state["step"], seconds=state["seconds"])
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
        since = time.monotonic()
        bar = Progress(*columns, TimeRemainingColumn(), console=self.console)
        with closing(seconds), bar as progress:
            task = progress.add_task("training", total=1.0)
            for rows in self._stream():
                state["seconds"] = seconds.at(state["step"])
                if timed:  # the rate depends on the time
                    state["seconds"] = self.processes.of_first(state["seconds"])
                rate = self._rate()
                self.total += self._step(rows, rate)
                state["unlogged"] += 1
                state["step"] += 1
                ends = self._done() >= 1
                if recipe.monitor and state["step"] % recipe.monitor == 0:
                    self._sample(rows)
                if state["step"] % _LOG_STEPS == 0 or state["step"] % recipe.check == 0 or ends:
                    text = self._report(rate, time.monotonic() - since)
                    progress.update(task, completed=self._done(), description=text)
                    since = time.monotonic()
                if state["step"] % recipe.check == 0 or ends:
                    self._evaluate(ends)
                    if self.monitor is not None and self.monitor.samples:
                        self.monitor.report(self.folder / "attention.html")
                    since = time.monotonic()
                    if state["ended"]:
                        break
                self._stop_with_checkpoint()

    def _report(self, rate: float, seconds: float) -> str:
        """Log the mean loss and the speed since the last report; return both as text."""
        state = self.state
        total, tokens = self.processes.sum(self.total), self.processes.sum(torch.tensor(self.tokens))
        loss, speed = total.item() / state["unlogged"], int(tokens) / seconds
        if not loss < float("inf"):
            raise RegardError(f"the loss is {loss} at step {state['step']}: lower the rate or raise warmup.")
        self._log(loss=loss, rate=rate, tokens_per_second=round(speed))
        self.total.zero_()
        state["unlogged"], self.tokens = 0, 0
        return f"step {state['step']:,}  loss {loss:.3f}  {speed / 1e3:,.0f} k tokens/s"

    def _sample(self, rows: Sequence[tuple[int, ...]]) -> None:
        """Measure every head on this process's share of a batch, and log the numbers of the whole model."""
        from regard.watching import Monitor

        self.monitor = self.monitor or Monitor(self.model, self.recipe.monitor)
        self.monitor.steps = self.state["step"] + 1
        own = self.processes.share(rows, self.recipe.accumulate)[0]
        source, target = (side.to(self.device) for side in self.batches.batch(own or rows[:1]))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            numbers = self.monitor.sample(source, target[:, :-1])
        if not numbers:  # the first process has them
            return
        began = [alarm for alarm in self.monitor.alarms if alarm.step == self.state["step"]]
        self._log(**self.monitor.samples[-1].overall, alarms=[str(alarm) for alarm in began])
        for alarm in began:
            self.console.print(f"! {alarm}")

    def _stop_with_checkpoint(self) -> None:
        """Stop here if any process was interrupted or abandoned."""
        if not self.processes.any(self.stopping or self.processes.abandoned()):
            return
        if self.state["step"] % self.recipe.check:  # otherwise the evaluation has just written it
            self._save()
        raise KeyboardInterrupt(f"stopped after step {self.state['step']:,}; go on with --resume ({self.folder}).")

    @contextmanager
    def deferred_interrupts(self) -> Iterator[None]:
        """Let the first Ctrl-C stop the training after the step; the second stops it at once.

        An exception would leave half a step, and safetensors or torch can turn KeyboardInterrupt into another error.
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

    def _stream(self) -> Iterator[list[tuple[int, ...]]]:
        """The rows of endless batches, from the current batch on; the state counts a batch when it is yielded.

        They depend on the seed and the epoch alone: every process sees the same batches, and takes its share of each.
        """
        state = self.state
        while True:
            for rows in self.batches.plan(state["epoch"])[state["batch"] :]:
                state["batch"] += 1
                yield rows
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

    def _step(self, rows: Sequence[tuple[int, ...]], rate: float) -> Tensor:
        """One step of the optimizer on a batch, shared over the processes; return this process's part in the loss."""
        self.model.train()
        # The noise of dropout depends on the step and the process, so that a repeated step repeats it.
        noise = np.random.SeedSequence((self.recipe.seed, self.state["step"], self.processes.rank))
        torch.manual_seed(int(noise.generate_state(1, np.uint64)[0]))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with sdpa_kernel(_KERNELS):
            loss = self._backward(rows)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        decay = min(self.recipe.average, (1 + self.state["step"]) / (10 + self.state["step"]))
        with torch.no_grad():
            parameters = [p.detach() for p in self.model.parameters()]
            torch._foreach_lerp_(list(self.average.values()), parameters, 1 - decay)
        return loss

    def _backward(self, rows: Sequence[tuple[int, ...]]) -> Tensor:
        """Sum the gradients of a batch over passes and processes; return the part of this process in the loss.

        Loss and gradient are means over all target tokens of the batch, in all passes and processes.
        """
        total, labels = torch.zeros_like(self.total), self.batches.labels(rows)
        linked = self.batches.linked(rows)
        passes = self.processes.share(rows, self.recipe.accumulate)
        for number, share in enumerate(passes, 1):
            # All processes must take part in every pass: without rows, a process takes a row with weight 0.
            source, target = (side.to(self.device) for side in self.batches.batch(share or rows[:1]))
            weight, links = self.batches.labels(share) / labels, self.batches.links(share)
            with nullcontext() if number == len(passes) else self.loss.no_sync():
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                    loss, guided = self.loss(source, target, self.recipe.smoothing, links.to(self.device))
                    loss = loss * weight + guided * (self.batches.linked(share) / max(linked, 1))
                # DistributedDataParallel averages over the processes; these gradients are parts of a sum.
                (loss * self.processes.world).backward()
            total += loss.detach()
            self.tokens += (source.numel() + target.numel()) * bool(share)
        return total

    def averaged(self) -> Transformer:
        """A model with the averaged weights, whole in each process."""
        model = Transformer(self.model.config).to(self.device)
        state = self.model.state_dict() | self.average
        model.load_state_dict({name: self.processes.whole(tensor) for name, tensor in state.items()})
        return model.eval()

    def best(self) -> Transformer:
        """The best model, from the folder of the first process; ends the training."""
        self.loss = None  # DistributedDataParallel must not outlive the process group: torch may then hang
        first = Transformer.load(self.folder) if self.processes.first else None
        fields = self.processes.of_first(dataclasses.asdict(first.config) if first else None)
        model = first or Transformer(TransformerConfig(**fields)).eval()
        for tensor in model.state_dict().values():
            self.processes.fill(tensor, tensor)
        return model

    def _evaluate(self, ends: bool) -> None:
        """Translate the dev corpus, save the best model and a checkpoint; note whether the training has ended."""
        model, state = self.averaged(), self.state
        texts = [*(source for source, _ in self.dev), self.recipe.sample]
        *translations, sample = self.processes.split(partial(self._translate, model), texts)
        chrf = import_sacrebleu().corpus_chrf(translations, [[target for _, target in self.dev]]).score
        chrf = self.processes.of_first(chrf)
        state["waited"] = 0 if chrf > state["best"] else state["waited"] + 1
        if chrf > state["best"]:
            state["best"] = chrf
            if self.processes.first:
                heads = {each.name: (each.layer, each.head) for each in self.recipe.guides if each.name}
                Translator(model, self.words, languages=self.recipe.languages, heads=heads).save(self.folder)
        state["ended"] = ends or state["waited"] >= self.recipe.patience
        self._log(chrf=chrf, sample=sample)
        self._save()
        self.console.print(
            f"step {state['step']:,}: chrF2 {chrf:.1f} (best {state['best']:.1f})  {sample}", markup=False
        )

    def _tensors(self) -> dict[str, Tensor]:
        return checkpoint.tensors(self.model, self.average, self.optimizer, self.total)

    def _save(self) -> None:
        """Write a checkpoint of whole tensors, so that any number of processes can resume it."""
        whole = {}
        for name, tensor in (self._tensors() | {"extra.loss": self.processes.sum(self.total)}).items():
            tensor = self.processes.whole(tensor)
            if self.processes.first:
                whole[name] = tensor.cpu()  # one by one: together they may be too large for a GPU
        if self.processes.first:
            files = {VOCABULARY: self.words.model, LOG: bytes(self.log)}
            checkpoint.write(self.folder, whole, self.state, origin=self.origin, files=files)
        self.processes.any(False)  # wait until the first process has written it

    def _translate(self, model: Transformer, texts: list[str]) -> list[str]:
        """Translate texts, greedily and in large batches."""
        ids = [[*self.words.encode(text), self.words.end][: model.config.positions] for text in texts]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            results = search_all(model, ids, beam=1, sentences=256)
        return [self.words.decode(best[0].tokens) for best in results]

    def _log(self, **values: Any) -> None:
        if not self.processes.first:
            return
        step = {"step": self.state["step"], "epoch": self.state["epoch"], "seconds": round(self.state["seconds"], 1)}
        line = (json.dumps(step | values, ensure_ascii=False) + "\n").encode()
        self.log += line
        with (self.folder / LOG).open("ab") as file:
            file.write(line)
