"""`train`: from a recipe to a model, with progress shown, logged and saved."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.errors import FileError, InputError, RegardError
from regard.nn import Transformer
from regard.translation import checkpoint
from regard.translation.beam_search import search_all
from regard.translation.corpus import Batches, Corpus, near, read_lines, read_pairs
from regard.translation.recipe import Recipe
from regard.translation.vocabulary import Vocabulary, clean

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Trainer", "train"]

LOG = "log.jsonl"
_LOG_STEPS = 10  # steps between lines of the log
_NEAR = 0.7  # similarity to a line of `far_from` at which a training pair is dropped


def train(recipe: Recipe, folder: str | Path, *, resume: bool = False, quiet: bool = False) -> Transformer:
    """Follow a recipe; at the end the folder holds the best model by dev chrF, ready for `Translator.load`."""
    from rich.console import Console  # here, so that `import regard` stays light

    trainer = Trainer(recipe, Path(folder), Console(stderr=True, quiet=quiet))
    trainer.prepare(resume)
    trainer.run()
    return Transformer.load(folder)


class Trainer:
    """One training: the recipe, its data, the model, and the progress."""

    def __init__(self, recipe: Recipe, folder: Path, console: Console):
        self.recipe, self.folder, self.console = recipe, folder, console
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.state: dict[str, Any] = {"step": 0, "epoch": 0, "batch": 0, "best": -1.0, "waited": 0, "seconds": 0.0}

    # Preparation

    def prepare(self, resume: bool = False) -> None:
        """Read the corpora, learn or open the vocabulary, build the model; with `resume`, load the checkpoint."""
        recipe, folder = self.recipe, self.folder
        if not resume and (folder / checkpoint.FILE).exists():
            raise FileError(f"{folder} holds a training already. Go on with --resume, or choose another folder.")
        folder.mkdir(parents=True, exist_ok=True)
        pairs = self._corpus(recipe.train, "training").pairs
        self.dev = self._corpus([recipe.dev], "dev").pairs
        if resume:
            self.words = Vocabulary.load(folder)
        elif recipe.vocabulary_from is not None:
            self.words = Vocabulary.load(recipe.folder / recipe.vocabulary_from)
        else:
            self.words = Vocabulary.train((side for pair in pairs for side in pair), recipe.vocabulary)
        self.words.save(folder)
        ids = self._encode(pairs)
        self.batches = Batches(
            ids, end=self.words.end, pad=self.words.pad, tokens=recipe.tokens, longest=recipe.longest,
            joined=recipe.joined, seed=recipe.seed,
        )  # fmt: skip
        self.console.print(
            f"{len(self.words):,} subwords; {self.batches.dropped:,} pairs are longer than {recipe.longest}"
        )
        torch.manual_seed(recipe.seed)
        self.model = Transformer(recipe.config(len(self.words))).to(self.device)
        self.average = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )
        self.console.print(f"{self.model.config.parameters:,} parameters, on {self.device}")
        if resume:
            self.state = checkpoint.read(folder, self.model, self.average, self.optimizer)
            self._trim_log()
            self.console.print(f"going on at step {self.state['step']:,}")
        else:
            (folder / LOG).write_text("")

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

    def _trim_log(self) -> None:
        """Drop lines logged after the checkpoint: those steps will be repeated."""
        path = self.folder / LOG
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= self.state["step"]]
        path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")

    # Steps

    def run(self) -> None:
        """Train until the steps, the minutes or the patience run out."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        recipe, state = self.recipe, self.state
        started = time.monotonic() - state["seconds"]
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
        total, steps, tokens, since = torch.zeros((), device=self.device), 0, 0, time.monotonic()
        with Progress(*columns, TimeRemainingColumn(), console=self.console) as progress:
            task = progress.add_task("training", total=1.0)
            for source, target in self._stream():
                state["seconds"] = time.monotonic() - started
                rate = self._rate()
                total += self._step(source.to(self.device), target.to(self.device), rate)
                tokens += source.numel() + target.numel()
                steps += 1
                state["step"] += 1
                ends = self._done() >= 1
                if state["step"] % _LOG_STEPS == 0 or state["step"] % recipe.check == 0 or ends:
                    loss, speed = total.item() / steps, tokens / (time.monotonic() - since)
                    if not loss < float("inf"):
                        raise RegardError(
                            f"the loss is {loss} at step {state['step']}: lower the rate or raise warmup."
                        )
                    self._log(loss=loss, rate=rate, tokens_per_second=round(speed))
                    text = f"step {state['step']:,}  loss {loss:.3f}  {speed / 1e3:,.0f} k tokens/s"
                    progress.update(task, completed=self._done(), description=text)
                    total.zero_()
                    steps, tokens, since = 0, 0, time.monotonic()
                if state["step"] % recipe.check == 0 or ends:
                    improving = self._evaluate()
                    since = time.monotonic()
                    if ends or not improving:
                        break

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

    def _evaluate(self) -> bool:
        """Translate the dev corpus, save the best model, write the checkpoint; False when patience has run out."""
        import sacrebleu

        model, state = self.averaged(), self.state
        translations = self.translate(model, [source for source, _ in self.dev])
        chrf = sacrebleu.corpus_chrf(translations, [[target for _, target in self.dev]]).score
        sample = self.translate(model, [self.recipe.sample])[0]
        state["waited"] = 0 if chrf > state["best"] else state["waited"] + 1
        if chrf > state["best"]:
            state["best"] = chrf
            model.save(self.folder)
        self._log(chrf=chrf, sample=sample)
        checkpoint.write(self.folder, self.model, self.average, self.optimizer, state)
        self.console.print(
            f"step {state['step']:,}: chrF2 {chrf:.1f} (best {state['best']:.1f})  {sample}", markup=False
        )
        return bool(state["waited"] < self.recipe.patience)

    def translate(self, model: Transformer, texts: list[str], beam: int = 1, tokens: int = 16_384) -> list[str]:
        """Translations of texts, in batches of about `tokens` tokens."""
        ids = [[*self.words.encode(text), self.words.end][: model.config.positions] for text in texts]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            found = search_all(model, ids, beam=beam, tokens=tokens)
        return [self.words.decode(best[0].tokens) for best in found]

    def _log(self, **values: Any) -> None:
        line = {"step": self.state["step"], "epoch": self.state["epoch"], "seconds": round(self.state["seconds"], 1)}
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | values, ensure_ascii=False) + "\n")
