"""No architecture of transformers is shown wrongly: docs/architectures.md says what each of them gives.

REGARD_SWEEP=all tests every architecture, else those that went wrong once and a random sample.
`make sweep` writes the page anew; `python tests/sweep_page.py NAME …` only the lines of these model types.
"""

import os
import random
from dataclasses import replace

import pytest
import transformers
from support.watching.architectures import model_types
from support.watching.sweep import verdict
from sweep_page import EQUAL, EXCEPT, NOT_EQUAL, PAGE, counts, page, result_of, row, rows_of

from regard.watching.capture.calls import AttentionCall
from regard.watching.record.entries import Entry
from regard.watching.record.record import Record

RISKY = [
    "vit + trocr", "bert + rembert", "roformer + bert", "clip_vision_model + falcon",
    "clip_vision_model + bloom", "sam", "longt5", "pegasus_x", "maskformer",
    "siglip", "aimv2", "paligemma", "gemma3", "aya_vision", "moshi", "doge", "informer", "bert", "llama", "t5", "whisper",
    "gpt_oss", "deepseek_v3", "qwen2_vl", "clip", "vit", "falcon", "mamba",
    "deepseek_v32", "minimax_m3_vl_text", "bridgetower", "nemotron_asr_streaming", "t5gemma2", "sam_vision_model",
    "recurrent_gemma", "granite_speech", "muse_glimmer_assistant", "inkling2_text",
]  # fmt: skip
SAMPLE = 25


def _holds(model_type: str, told: str = "") -> None:
    transformers.logging.set_verbosity_error()
    line = row(verdict(model_type))
    if f"transformers {transformers.__version__}" in PAGE.read_text():  # the page is of one version
        assert line in PAGE.read_text().splitlines(), f"docs/architectures.md says otherwise than {line} {told}"
    else:
        assert NOT_EQUAL not in line, f"{line} {told}"


@pytest.mark.parametrize("model_type", model_types() if os.environ.get("REGARD_SWEEP") == "all" else RISKY)
def test_an_architecture_is_as_its_page_says(model_type):
    _holds(model_type)


@pytest.mark.slow
@pytest.mark.parametrize("sample", ["fixed", "fresh"])
def test_so_are_others_drawn_at_random(sample):
    seed = 37 if sample == "fixed" else int(os.environ.get("REGARD_SWEEP_SEED", random.randrange(10**6)))
    for model_type in random.Random(seed).sample([t for t in model_types() if t not in RISKY], SAMPLE):
        _holds(model_type, f"(to repeat it: REGARD_SWEEP_SEED={seed})")


def test_the_page_counts_its_lines_and_the_readme_says_the_same():
    lines = rows_of(PAGE.read_text())
    forward = counts([*lines.values()], "Forward")
    both = sum(all(result_of(line, c) == EQUAL for c in ("Forward", "Generation")) for line in lines.values())
    assert page([*lines.values()]).split("\n", 3)[3] == PAGE.read_text().split("\n", 3)[3]  # but for the version
    said = " ".join((PAGE.parents[1] / "README.md").read_text().split())
    assert f"{forward[EQUAL]} of the {len(lines)} model types" in said
    assert f"{both} of them token by token" in said
    assert f"{forward[EXCEPT]} more but for `record.unseen`" in said
    # The patch after the last byte sees no byte: its output is 0 here, the mean of all values there.
    assert [name for name, line in lines.items() if NOT_EQUAL in line] == ["blt"]


def _halved(result):
    return type(result)(result[0] / 2, *result[1:]) if isinstance(result, tuple) else result / 2


def _halve(*methods: str):
    def plant(patch):
        for method in methods:
            original = getattr(Entry, method)
            patch.setattr(Entry, method, lambda self, *args, original=original: _halved(original(self, *args)))

    return plant


def _leave(kept: slice):
    def plant(patch):
        original = Record._entries
        patch.setattr(Record, "_entries", lambda self: dict([*original(self).items()][kept]))

    return plant


FAULTS = {
    "no passes": lambda patch: patch.setattr(Record, "passes", []),
    "empty record": _leave(slice(0)),
    "every second layer missing": _leave(slice(0, None, 2)),
    "every weight halved": _halve("to_dense", "received", "pool", "top"),
    **{f"{method} halved": _halve(method) for method in ("to_dense", "received", "entropy", "pool", "top")},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model_type", ["bert", "llama", "t5"])
def test_a_wrong_record_is_not_equal(model_type, fault, monkeypatch):
    FAULTS[fault](monkeypatch)
    assert verdict(model_type).forward.startswith("wrong")


def test_five_per_cent_of_scale_would_be_noticed(monkeypatch):
    original = AttentionCall.matrix
    larger = lambda self: original(replace(self, scale=1.05 * (self.scale or self.query.shape[-1] ** -0.5)))  # noqa: E731
    monkeypatch.setattr(AttentionCall, "matrix", larger)
    assert "differs" in verdict("bert").forward


def test_silence_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Record, "unseen", ())
    assert "silent about git.encoder.layer.*.attention.self" in verdict("git").forward
