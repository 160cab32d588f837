"""`regard.monitor`: its numbers are the dense ones, and a training does not notice it."""

import copy
import csv
import json
import math
import pickle
import re
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from jaxtyping import config
from support.models import FAMILIES, Direct, Layers, made
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional

import regard
from regard.backends.reference import Reference
from regard.watching import head_numbers
from regard.watching.monitoring import alarms

NAMES = ("max_logit", "entropy", "entropy_least", "entropy_relative", "sink", "itself", "previous", "largest", "output_norm")  # fmt: skip


def own(**more):
    torch.manual_seed(0)
    sizes = {"width": 16, "heads": 2, "hidden": 32, "encoder_layers": 2, "decoder_layers": 2}
    return regard.Transformer(regard.TransformerConfig(vocabulary=30, **sizes | more))


class Packed(nn.Module):
    """Two packed texts in a row, with a sink of its own."""

    def __init__(self, ids):
        super().__init__()
        self.mask = regard.causal() & regard.documents(ids)
        self.heads, self.kind, self.attend = 2, "decoder", regard.attention

    def forward(self, x):
        sinks = torch.tensor([0.5, -torch.inf])
        return self.attend(x, x.flip(-1), x, mask=self.mask, scale=0.7, softcap=2.0, sinks=sinks)


def dense(entry, real, texts=None):
    """The numbers of each head of an entry by the definition, row by row. `real`: (batch, queries) of bools."""
    call = entry.call
    R = Reference(call.query, call.key, mask=call.mask, scale=call.scale, softcap=call.softcap, sinks=call.sinks)
    output = R.output(entry.values.value)
    batch, heads, queries, keys = R.weights.shape
    texts = np.zeros((batch, keys), int) if texts is None else texts
    found = {name: [] for name in NAMES}
    for h in range(heads):
        rows = [
            (b, i) for b in range(batch) for i in range(queries) if real[b, i] and np.isfinite(R.masked[b, h, i]).any()
        ]
        count = {(b, i): int(np.isfinite(R.masked[b, h, i]).sum()) for b, i in rows}
        entropies = {(b, i): -sum(p * math.log(p) for p in R.weights[b, h, i] if p > 0) for b, i in rows}
        received = np.zeros((batch, keys))
        for b, i in rows:
            received[b] += R.weights[b, h, i]
        sink = sum(max(received[b, texts[b] == t]) for b in range(batch) for t in set(texts[b]))
        sink += sum(R.sink_share[b, h, i] for b, i in rows)
        found["max_logit"].append(max(R.masked[b, h, i].max() for b, i in rows))
        found["entropy"].append(np.mean(list(entropies.values())))
        found["entropy_least"].append(min(entropies[row] for row in rows if count[row] > 1))
        found["entropy_relative"].append(sum(entropies.values()) / sum(map(math.log, count.values())))
        found["sink"].append(sink / len(rows))
        found["largest"].append(np.mean([R.weights[b, h, i].max() for b, i in rows]))
        found["output_norm"].append(np.mean([np.linalg.norm(output[b, h, i]) for b, i in rows]))
        if entry.kind != "cross" and queries == keys:
            found["itself"].append(np.mean([R.weights[b, h, i, i] for b, i in rows]))
            found["previous"].append(np.mean([R.weights[b, h, i, i - 1] if i else 0.0 for b, i in rows]))
    return {name: values for name, values in found.items() if values}


def left(shape):
    real = torch.ones(shape, dtype=torch.bool)
    real[1, :4] = False
    return real


def compared(model, args, kwargs, real, texts=None, tolerance=2e-5):
    monitor = regard.monitor(model, every=1)
    numbers = monitor.step(*args, **kwargs)
    with torch.no_grad(), regard.watch(model.eval(), keep=("matrix", "value")) as record:
        model(*args, **kwargs)
    (sample,) = monitor.samples
    assert len(sample.layers) == len(record)
    for (label, found), (name, entry) in zip(sample.layers.items(), record.items(), strict=True):
        expected = dense(entry, real(name, entry), texts)
        assert set(found) == set(expected), name
        for what, values in expected.items():
            assert np.allclose(found[what], values, rtol=tolerance, atol=tolerance), (name, what, found[what], values)
            for head, value in enumerate(found[what]):
                assert numbers[f"attention/{label}/head{head:02d}/{what}"] == value
    every = [layer["max_logit"] for layer in sample.layers.values()]
    assert numbers["attention/max_logit"] == max(map(max, every))
    assert numbers["attention/heads"] == sum(map(len, every))
    assert len(sample.overall) == 12 - (0 if any("itself" in layer for layer in sample.layers.values()) else 2)
    return sample


def all_rows(name, entry):
    return torch.ones(entry.shape[0], entry.shape[2], dtype=torch.bool)


class TestEveryNumberIsTheDenseOne:
    @pytest.mark.parametrize("family", ["Llama", "GPT-2", "Gemma 2", "GPT-OSS", "BERT", "ALBERT"])
    def test_of_hugging_face_models_with_padding(self, family):
        model, inputs = made(family), FAMILIES[family].inputs("left")
        sample = compared(model, (), inputs, lambda name, entry: left((2, 12)))
        assert list(sample.layers) == ["layer00", "layer01"]

    def test_of_two_texts(self):
        model, inputs = made("BART"), FAMILIES["BART"].inputs("left")
        sample = compared(
            model, (), inputs, lambda name, entry: left((2, 12)) if entry.kind == "encoder" else all_rows(name, entry)
        )
        assert list(sample.layers)[::2] == ["encoder/layer00", "decoder/layer00", "decoder/layer01"]

    def test_of_our_transformer_with_padding(self):
        model = own()
        pad = model.config.pad
        source, target = torch.randint(5, 20, (2, 9)), torch.randint(5, 20, (2, 7))
        source[1, 6:], target[0, 4:] = pad, pad
        compared(
            model, (source, target), {}, lambda name, entry: (source if entry.kind == "encoder" else target) != pad
        )

    def test_of_torch_layers_and_plain_calls(self):
        torch.manual_seed(3)
        x, hidden = 3 * torch.randn(2, 6, 16), torch.zeros(2, 6, dtype=torch.bool)
        hidden[1, 4:] = True
        torchs = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)
        compared(torchs, (x,), {"src_key_padding_mask": hidden}, lambda name, entry: ~hidden)
        compared(Direct(), (x,), {}, all_rows)
        compared(Layers(), (x,), {"mask": regard.bias(torch.randn(2, 6, 6))}, all_rows)
        compared(Layers(), (x,), {"mask": torch.rand(2, 6, 6) < 0.7}, all_rows)

    def test_of_packed_texts_and_sinks(self):
        torch.manual_seed(4)
        ids = torch.tensor([[3, 3, 3, 7, 7, 7, 7], [7, 7, 2, 2, 2, 2, 2]])
        compared(Packed(ids), (torch.randn(2, 2, 7, 8),), {}, all_rows, ids.numpy())

    def test_under_autocast(self):
        model, ids = made("Llama"), {"input_ids": torch.randint(5, 90, (2, 12))}
        with torch.autocast("cpu", torch.bfloat16):
            compared(model, (), ids, all_rows, tolerance=2e-2)

    def test_layers_measured_together_or_one_by_one(self, monkeypatch):
        model, inputs = made("BART"), FAMILIES["BART"].inputs("left")
        together = regard.monitor(model, every=1).step(**inputs)
        monkeypatch.setattr(head_numbers, "_STACKED", 1)
        assert regard.monitor(model, every=1).step(**inputs) == pytest.approx(together, rel=1e-5)

    def test_rows_far_below_the_others(self):
        """A logit beyond 100 is measured exactly."""
        x = torch.eye(4)[None, None].expand(1, 2, 4, 4)
        sample = compared(Direct(2, causal=True), (40 * x[0].transpose(0, 1).flatten(1)[None],), {}, all_rows)
        assert sample.layers["layer00"]["max_logit"] == [800.0, 800.0]
        assert {alarm.kind for alarm in sample.alarms} >= {"logits"}


class GPT(nn.Module):
    """Plain torch, with dropout: attention by scaled_dot_product_attention, as nanoGPT has it.

    With `noise` it draws random numbers in every mode, and counts its forwards in the statistics of a BatchNorm.
    """

    def __init__(self, checkpoints=False, noise=False):
        super().__init__()
        self.noise, self.scale = noise, nn.BatchNorm1d(16)
        self.words, self.head = nn.Embedding(40, 16), nn.Linear(16, 40)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.dropout, self.checkpoints = nn.Dropout(0.1), checkpoints

    def forward(self, ids):
        x = self.dropout(self.words(ids))
        if self.noise:
            x = self.scale((x + 0.1 * torch.randn_like(x)).transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False) if self.checkpoints else layer(x)
        return self.head(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.norm, self.dropout = nn.Linear(16, 48), nn.LayerNorm(16), nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = self.project(self.norm(x)).unflatten(-1, (3, 2, 8)).movedim(-3, 0).transpose(2, 3).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.dropout(mixed.transpose(1, 2).flatten(2))


def trained(model, monitor, steps=6, accumulate=1, autocast=False, batch_first=None):
    """The losses of a training, its model's gradients in the last step, and what was sampled."""
    torch.manual_seed(7)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses, found = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            ids = torch.randint(40, (3, 10))
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                if monitor is not None:  # before the model, where what it leaves behind would do most harm
                    found.append(monitor.step(ids))
                logits = model(ids)
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
            loss.backward()
            losses.append(float(loss))
        optimizer.step()
    return losses, [p.grad.clone() for p in model.parameters() if p.grad is not None], found


def state(model):
    """What may be wrapped or hooked: all of every module but its parameters."""
    return {name: {k: (len(v) if hasattr(v, "__len__") else v) for k, v in vars(module).items()} for name, module in model.named_modules()}  # fmt: skip


class TestATrainingDoesNotNotice:
    @pytest.mark.parametrize(
        ("checkpoints", "options"), [(False, {}), (True, {}), (False, {"accumulate": 2}), (False, {"autocast": True})],
        ids=["plain", "checkpoints", "accumulation", "autocast"],
    )  # fmt: skip
    def test_losses_and_gradients_are_the_same_bits(self, checkpoints, options):
        torch.manual_seed(0)
        model = GPT(checkpoints, noise=True)
        alone, sampled = copy.deepcopy(model), copy.deepcopy(model)
        before = state(sampled)
        monitor = regard.monitor(sampled, every=2)
        losses, gradients, _ = trained(alone, None, **options)
        same, same_gradients, found = trained(sampled, monitor, **options)
        assert same == losses
        assert all(map(torch.equal, gradients, same_gradients))
        assert all(map(torch.equal, alone.buffers(), sampled.buffers()))
        assert [bool(numbers) for numbers in found] == [True, False] * (len(found) // 2)
        assert state(sampled) == before
        assert sampled.training

    @pytest.mark.parametrize("way", ["torch.compile(model)", "model.compile()"])
    def test_compiled_code_stays(self, way):
        """No graph is compiled again, none breaks, and the compiled code computes the same bits."""
        torch.manual_seed(0)
        model = GPT()

        def run(with_monitor):
            torch._dynamo.reset()
            counters.clear()
            one = copy.deepcopy(model)
            if way == "model.compile()":
                one.compile(backend="aot_eager")
            compiled = torch.compile(one, backend="aot_eager") if way != "model.compile()" else one
            losses, _, found = trained(compiled, regard.monitor(compiled, every=2) if with_monitor else None)
            return losses, found, counters["stats"]["unique_graphs"], dict(counters["graph_break"])

        losses, _, graphs, breaks = run(False)
        same, found, same_graphs, same_breaks = run(True)
        assert same == losses
        assert (same_graphs, same_breaks) == (graphs, breaks) == (1, {})
        assert [bool(numbers) for numbers in found] == [True, False] * 3

    def test_hugging_face_models_with_checkpoints_and_grouped_heads(self):
        def run(with_monitor):
            model = made("Llama").train()
            model.gradient_checkpointing_enable()
            monitor = regard.monitor(model, every=2)
            optimizer, losses = torch.optim.SGD(model.parameters(), 0.01), []
            inputs = FAMILIES["Llama"].inputs("right")
            for _ in range(4):
                loss = model(**inputs, labels=inputs["input_ids"]).loss
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
                if with_monitor:
                    monitor.step(**inputs)
            return losses, len(monitor.samples), model.config._attn_implementation, model.is_gradient_checkpointing

        assert run(True) == (run(False)[0], 2, "sdpa", True)

    def test_dropout_is_off_in_a_sample(self):
        monitor, ids = regard.monitor(GPT(), every=1), torch.randint(40, (2, 10))
        assert monitor.step(ids) == monitor.step(ids)

    def test_an_error_in_the_model_leaves_nothing_behind(self):
        model = GPT()
        before, seed = state(model), torch.random.get_rng_state()
        with pytest.raises(TypeError):
            regard.monitor(model).step()
        assert state(model) == before
        assert torch.equal(torch.random.get_rng_state(), seed)
        assert torch.is_grad_enabled()


class TestAlarms:
    LAYER = {name: [1.0, 1.0, 1.0, 1.0] for name in NAMES} | {"sink": [0.1] * 4, "entropy_relative": [0.5] * 4}

    def found(self, first=None, highest=1.0, **numbers):
        layer = self.LAYER | numbers
        return [(each.where, each.kind) for each in alarms(7, {"a": layer}, {"a": first or self.LAYER}, {"a": highest})]

    def test_none_where_all_is_well(self):
        assert self.found() == []

    def test_logits_that_grow(self):
        assert self.found(max_logit=[1.0, 100.5, 99.0, 1.0]) == [("a/head01", "logits")]

    def test_entropy_that_collapses(self):
        low = {"entropy": [0.01] * 4, "entropy_relative": [0.01] * 4}
        assert self.found(**low) == [("a", "entropy")]
        assert self.found(highest=0.03, **low) == []  # it was never higher

    def test_dead_heads(self):
        assert self.found(output_norm=[1.0, 1.0, 0.005, 0.5]) == [("a/head02", "dead")]

    def test_a_sink_that_appears(self):
        assert self.found(sink=[0.31, 0.1, 0.1, 0.1]) == [("a/head00", "sink")]
        assert self.found(sink=[0.31, 0.1, 0.1, 0.1], first=self.LAYER | {"sink": [0.31, 0.1, 0.1, 0.1]}) == []

    def test_they_come_from_a_model_and_are_listed_where_they_begin(self):
        torch.manual_seed(0)
        model, ids = GPT(), torch.randint(40, (2, 10))
        monitor = regard.monitor(model, every=1)
        monitor.step(ids)
        with torch.no_grad():
            model.layers[0].project.weight[:32] *= 60  # queries and keys: large logits
            model.layers[1].project.weight[40:] = 0  # the values of the second head
            model.layers[1].project.bias[40:] = 0
        monitor.step(ids)
        monitor.step(ids)
        found = {(alarm.step, alarm.where, alarm.kind) for alarm in monitor.alarms}
        assert {
            (1, "layer00/head00", "logits"),
            (1, "layer00/head01", "logits"),
            (1, "layer01/head01", "dead"),
        } <= found
        assert all(step == 1 for step, _, _ in found)
        assert monitor.samples[-1].overall["attention/dead_alarms"] == 1
        assert re.search(r"! step 2, layer00/head00: logits up to \d+\. Kimi K2", str(monitor))


class Gated(Block):
    """Changes what the attention returned in place."""

    def forward(self, x):
        q, k, v = self.project(self.norm(x)).unflatten(-1, (3, 2, 8)).movedim(-3, 0).transpose(2, 3).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + mixed.mul_(0.5).transpose(1, 2).flatten(2)


def test_a_model_may_change_outputs_in_place():
    model, x = Gated(), torch.randn(2, 10, 16)
    before = regard.monitor(model).step(x)
    with torch.no_grad():
        model.project.weight[32:] *= 2
        model.project.bias[32:] *= 2
    assert regard.monitor(model).step(x)["attention/output_norm"] == pytest.approx(2 * before["attention/output_norm"])
    compared(model, (x,), {}, all_rows)


class TestWhatIsShown:
    def sampled(self, steps=4):
        torch.manual_seed(0)
        monitor = regard.monitor(GPT(), every=2)
        for _ in range(steps):
            monitor.step(torch.randint(40, (2, 10)))
        return monitor

    def test_a_table(self):
        lines = str(self.sampled()).splitlines()
        assert lines[0].startswith("step 2, 4 heads in 2 layers")
        assert lines[1].split() == list(NAMES)
        assert [line.split()[0] for line in lines[2:4]] == ["layer00", "layer01"]

    def test_a_film_that_can_be_scrubbed(self, tmp_path):
        monitor = self.sampled()
        page = monitor.report(tmp_path / "run.html").read_text()
        frames = re.findall(r'<g data-frame="(step \d+)"( display="none")?>', page)
        assert frames == [("step 0", ' display="none"'), ("step 2", "")]
        assert 'type: "range"' in page
        values = monitor.picture().numbers["step 2 entropy"]
        assert values.tolist() == [layer["entropy"] for layer in monitor.samples[-1].layers.values()]

    def test_nothing_before_the_first_sample(self):
        monitor = regard.monitor(GPT())
        assert "no sample yet" in str(monitor)
        with pytest.raises(regard.WatchError, match="no sample to draw yet"):
            monitor.picture()
        with pytest.raises(regard.InputError, match="every must be at least 1"):
            regard.monitor(GPT(), every=0)

    def test_numbers_are_logged_with_their_step(self):
        said = []
        monitor = regard.monitor(GPT(), every=3, log=lambda numbers, step: said.append((step, len(numbers))))
        for _ in range(4):
            monitor.step(torch.randint(40, (2, 10)))
        assert said == [(0, 4 * 9 + 12), (3, 4 * 9 + 12)]


@pytest.fixture
def unchecked():
    """Without the checks of types: one of them reads a number of what `step` returns."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked")
class TestNumbersThatArriveLater:
    """On a GPU a sample does not wait; here what has not arrived is told by hand."""

    @pytest.fixture
    def late(self, monkeypatch):
        """How many times `arrived` still says no."""
        left = [0]

        def arrived(_):
            left[0] -= 1
            return left[0] < 0

        monkeypatch.setattr(head_numbers.Measured, "arrived", arrived)
        return left

    def test_the_log_gets_them_at_a_later_step_in_order(self, late):
        torch.manual_seed(0)
        said, model, ids = [], GPT(), torch.randint(40, (2, 10))
        monitor = regard.monitor(model, every=2, log=lambda numbers, step: said.append((step, monitor.steps, numbers)))
        expected = regard.monitor(model).step(ids)
        late[0] = 3
        numbers = [monitor.step(ids) for _ in range(2)]
        assert [bool(n) for n in numbers] == [True, False]
        assert said == []
        with torch.no_grad():
            model.layers[0].project.weight[:32] *= 2  # what arrives is of the model as it was
        monitor.step(ids)  # asked twice for the first sample: before it was not there
        monitor.step(ids)
        assert [(step, at) for step, at, _ in said] == [(0, 4), (2, 4)]
        assert said[0][2] == expected == numbers[0]
        assert said[1][2] != expected

    def test_whoever_asks_waits(self, late):
        said, ids = [], torch.randint(40, (2, 10))
        monitor = regard.monitor(GPT(), every=1, log=lambda numbers, step: said.append(step))
        late[0] = 100
        first, second = monitor.step(ids), monitor.step(ids)
        assert said == []
        assert len(second) == 4 * 9 + 12
        assert said == [0, 1]
        assert first["attention/entropy"] == monitor.samples[0].overall["attention/entropy"]
        monitor.step(ids)
        assert str(monitor).startswith("step 2")

    def test_they_join_other_numbers(self):
        """As the dict does that `log` gets."""
        monitor = regard.monitor(GPT(), every=1)
        numbers = monitor.step(torch.randint(40, (2, 10)))
        expected = monitor.samples[0].numbers
        assert numbers | {"loss": 1.0} == expected | {"loss": 1.0}
        assert {"loss": 1.0} | numbers == {"loss": 1.0} | expected
        assert json.loads(json.dumps(dict(numbers))) == expected
        pickle.dumps(monitor)

    def test_a_sample_keeps_its_numbers(self, late, monkeypatch):
        """If the wait for it is interrupted, and if the samples before it are dropped."""
        ids, layers = torch.randint(40, (2, 10)), head_numbers.Measured.layers
        monitor = regard.monitor(GPT(), every=1)
        late[0] = 100
        first, second = monitor.step(ids), monitor.step(ids.flip(1))

        def interrupted(*_):
            monkeypatch.setattr(head_numbers.Measured, "layers", layers)
            raise KeyboardInterrupt

        monkeypatch.setattr(head_numbers.Measured, "layers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dict(first)
        samples = monitor.samples.copy()
        monitor.samples.clear()
        assert [first, second] == [sample.numbers for sample in samples]
        assert [sample.step for sample in samples] == [0, 1]

    def test_a_sample_reads_nothing_from_the_device(self, monkeypatch):
        """The ids of the text would come from the GPU, layer by layer, each time after all that it has to do."""

        def refuse(*_, **__):
            raise AssertionError("a sample waits for the device")

        model, ids = made("Llama"), torch.randint(5, 90, (2, 12))
        expected = regard.monitor(model).step(input_ids=ids)
        for name in ("cpu", "tolist", "numpy"):
            monkeypatch.setattr(torch.Tensor, name, refuse)
        with torch.no_grad():
            measured = head_numbers.measure(model.eval(), (), {"input_ids": ids})
        monkeypatch.undo()
        found = measured.layers({})
        assert found["layer01"]["entropy"][1] == expected["attention/layer01/head01/entropy"]

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
    def test_a_sample_does_not_wait_for_the_gpu(self):
        torch.manual_seed(0)
        said, model, ids = [], GPT(), torch.randint(40, (2, 10))
        expected = regard.monitor(model).step(ids)
        model, ids = model.cuda(), ids.cuda()
        monitor = regard.monitor(model, every=1, log=lambda numbers, step: said.append(step))
        with torch.autocast("cuda", torch.bfloat16):  # in float32, the normalisers are checked: that waits
            monitor.step(ids)  # compiles kernels
            torch.cuda.synchronize()
            torch.cuda._sleep(10**9)  # half a second of work
            torch.cuda.set_sync_debug_mode("error")
            try:
                numbers = monitor.step(ids)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        assert said == [0]
        assert dict(numbers) == pytest.approx(dict(expected), rel=5e-2, abs=5e-2)
        assert said == [0, 1]
        assert dict(monitor.step(ids)) == pytest.approx(dict(expected), rel=1e-3, abs=1e-3)


@pytest.mark.usefixtures("unchecked")
class TestCallbacks:
    @pytest.fixture(params=[0, 2, 100], autouse=True)
    def late(self, request, monkeypatch):
        """Numbers arrive at once, after two more looks, or when they are waited for: the steps are the same."""
        left = dict[int, int]()

        def arrived(measured):
            left[id(measured)] = left.get(id(measured), request.param) - 1
            return left[id(measured)] < 0

        monkeypatch.setattr(head_numbers.Measured, "arrived", arrived)

    def trainer(self, folder, callbacks, **options):
        model = made("Llama").train()
        texts = [
            {"input_ids": row, "labels": row}
            for row in torch.randint(5, 90, (16, 8), generator=torch.Generator().manual_seed(1))
        ]
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=2, max_steps=4, logging_steps=1, report_to=[], save_strategy="no",
            use_cpu=True, disable_tqdm=True, gradient_accumulation_steps=2, **options,
        )  # fmt: skip
        return model, lambda monitor: transformers.Trainer(
            model, arguments, train_dataset=texts, callbacks=callbacks(monitor)
        )

    @pytest.mark.parametrize("with_batch", [False, True])
    def test_of_transformers(self, tmp_path, with_batch):
        batch = {"input_ids": torch.randint(5, 90, (2, 8))} if with_batch else None
        losses = []
        for on in (False, True):
            model, make = self.trainer(tmp_path, lambda m: [m.trainer_callback(batch)] if on else [])  # noqa: B023
            monitor = regard.monitor(model, every=2)
            trainer = make(monitor)
            trainer.train()
            losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
            logged = [entry["step"] for entry in trainer.state.log_history if "attention/entropy" in entry]
        assert losses[0] == losses[1]
        assert [sample.step for sample in monitor.samples] == [0, 2]
        assert logged == [0, 2]
        assert not any(module._forward_pre_hooks for module in model.modules())

    def test_a_compiled_trainer_needs_a_batch(self, tmp_path):
        model, make = self.trainer(tmp_path, lambda m: [m.trainer_callback()], torch_compile=True)
        with pytest.raises(regard.InputError, match="trainer_callback\\(batch\\)"):
            make(regard.monitor(model)).train()

    def test_of_lightning(self, monkeypatch):
        model = GPT()
        monitor = regard.monitor(model, every=2)
        for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(regard.MissingDependencyError, match="pip install lightning"):
            monitor.lightning_callback()
        monkeypatch.setitem(sys.modules, "pytorch_lightning", types.SimpleNamespace(Callback=object))
        callback, logged = monitor.lightning_callback(), []
        logger = types.SimpleNamespace(log_metrics=lambda numbers, step: logged.append((step, len(numbers))))
        trainer = types.SimpleNamespace(
            global_step=0, loggers=[logger], precision_plugin=types.SimpleNamespace(forward_context=nullcontext)
        )
        callback.on_train_start(trainer, model)
        for n, step in enumerate([0, 1, 1, 2, 2, 3]):  # two batches for each step of the optimizer
            trainer.global_step = step
            callback.on_train_batch_end(trainer, model, None, (torch.randint(40, (2, 10)), n), n)
        callback.on_train_end(trainer, model)
        assert logged == [(0, 12), (2, 12)]
        assert [sample.step for sample in monitor.samples] == [0, 2]

    @pytest.mark.slow
    def test_in_a_trainer_of_lightning(self, tmp_path):
        lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.gpt, self.losses, self.sampled_in = GPT(), [], []

            def forward(self, ids):
                if not self.training:
                    self.sampled_in.append(torch.is_autocast_enabled("cpu"))
                return self.gpt(ids)

            def training_step(self, batch, _):
                logits = self(batch[0])
                loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), batch[0][:, 1:].flatten())
                self.losses.append(float(loss.detach()))
                return loss

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters(), 1e-2)

        losses = []
        for on in (False, True):
            torch.manual_seed(0)
            model = Module()
            monitor = regard.monitor(model, every=2)
            trainer = lightning.Trainer(
                max_steps=3, accumulate_grad_batches=2, accelerator="cpu", devices=1, precision="bf16-mixed",
                callbacks=[monitor.lightning_callback()] if on else [], default_root_dir=tmp_path,
                logger=lightning.loggers.CSVLogger(tmp_path), enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False,
            )  # fmt: skip
            ids = torch.randint(40, (24, 10), generator=torch.Generator().manual_seed(1))
            trainer.fit(model, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(ids), 4))
            losses.append(model.losses)
        assert losses[0] == losses[1]
        assert len(losses[1]) == 6
        assert [sample.step for sample in monitor.samples] == [0, 2]
        assert model.sampled_in == [True, True]
        with Path(trainer.logger.experiment.metrics_file_path).open() as file:
            assert [row["step"] for row in csv.DictReader(file) if row["attention/entropy"]] == ["0", "2"]
        assert not any(module._forward_pre_hooks for module in model.modules())


class Growing(nn.Module):
    """A second layer runs from the second step on."""

    def __init__(self):
        super().__init__()
        self.layers, self.steps = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in "ab"), 0

    def forward(self, x):
        self.steps += 1
        for layer in self.layers[: self.steps]:
            x = layer(x)
        return x


class Either(nn.Module):
    """A part of it runs, or both."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in "ab")

    def forward(self, x, parts):
        for name in parts:
            x = getattr(self, name)(x)
        return x


def test_a_layer_keeps_its_label():
    """A sample in which other parts run has other layers, but no layer another name."""
    x, monitor = torch.randn(2, 3, 8), regard.monitor(Either(), every=1)
    for parts in (["encoder"], ["encoder", "decoder"], ["decoder"]):
        monitor.step(x, parts)
    first, both, second = (list(sample.layers) for sample in monitor.samples)
    assert first == ["layer00"]
    assert both == [*first, *second]
    assert second == ["decoder/layer00"]
    values = monitor.picture().numbers
    assert np.isnan(values["step 0 entropy"]).tolist() == [[False, False], [True, True]]
    assert np.isnan(values["step 2 entropy"]).tolist() == [[True, True], [False, False]]


def test_a_layer_that_comes_later_is_compared_with_its_own_first_sample():
    monitor = regard.monitor(Growing(), every=1)
    monitor.step(torch.randn(2, 1, 8))
    assert "attention/layer01/head00/sink" in monitor.step(torch.randn(2, 1, 8))  # 1: above what an alarm begins at
    assert monitor.alarms == []


def test_a_single_token_has_no_choice_and_no_text_no_numbers():
    numbers = regard.monitor(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)).step(torch.randn(3, 1, 8))
    assert not {"attention/entropy_relative", "attention/entropy_least"} & numbers.keys()
    assert all(map(math.isfinite, numbers.values()))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert "attention/max_logit" not in regard.monitor(layer).step(torch.randn(0, 4, 8))
