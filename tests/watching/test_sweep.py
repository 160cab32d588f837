"""No architecture of transformers is shown wrongly: docs/architectures.md says what each of them gives.

REGARD_SWEEP=all tests every architecture, else those that went wrong once and a random sample.
`python tests/watching/test_sweep.py --write` makes the page anew, or only the lines of the model types named after it.
"""

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from architectures import model_types
from sweep import verdict
from sweep_page import PAGE, page, row, rows_of

from regard.watching.calls import AttentionCall
from regard.watching.record import Record

RISKY = [
    "vit + trocr", "bert + rembert", "roformer + bert", "wavlm + bert", "clip_vision_model + falcon",
    "clip_vision_model + bloom", "git", "bigbird_pegasus", "sam", "longt5", "pegasus_x", "maskformer", "mask2former",
    "siglip", "aimv2", "paligemma", "gemma3", "aya_vision", "moshi", "doge", "informer", "bert", "llama", "t5", "whisper",
    "gpt_oss", "deepseek_v3", "qwen2_vl", "clip", "vit", "falcon", "mamba",
    "deepseek_v32", "minimax_m3_vl_text", "bridgetower", "nemotron_asr_streaming", "t5gemma2", "sam_vision_model", "rt_detr",
    "recurrent_gemma", "granite_speech", "muse_glimmer_assistant", "inkling2_text",
]  # fmt: skip
SAMPLE = 25


def _holds(model_type: str) -> None:
    transformers.logging.set_verbosity_error()
    found = verdict(model_type)
    assert not found.forward.startswith(("wrong", "refused after")), f"{model_type}: {found.forward}"
    assert not found.generation.startswith("wrong"), f"{model_type}: {found.generation}"
    if f"transformers {transformers.__version__}" in PAGE.read_text():  # the page is of one version
        assert row(found) in PAGE.read_text().splitlines(), f"{model_type}: docs/architectures.md says otherwise"


@pytest.mark.parametrize("model_type", model_types() if os.environ.get("REGARD_SWEEP") == "all" else RISKY)
def test_an_architecture_is_equal_or_refused_or_names_what_it_does_not_see(model_type):
    _holds(model_type)


@pytest.mark.slow
def test_so_are_others_drawn_at_random():
    seed = int(os.environ.get("REGARD_SWEEP_SEED", random.randrange(10**6)))
    print(f"REGARD_SWEEP_SEED={seed}")
    for model_type in random.Random(seed).sample([t for t in model_types() if t not in RISKY], SAMPLE):
        _holds(model_type)


def test_five_per_cent_of_scale_would_be_noticed(monkeypatch):
    original = AttentionCall.matrix
    larger = lambda self: original(replace(self, scale=1.05 * (self.scale or self.query.shape[-1] ** -0.5)))  # noqa: E731
    monkeypatch.setattr(AttentionCall, "matrix", larger)
    assert "differs" in verdict("bert").forward


def test_silence_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Record, "unseen", ())
    assert "silent about git.encoder.layer.*.attention.self" in verdict("git").forward


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    named = [name for name in sys.argv[1:] if name != "--write"]
    rows = rows_of(PAGE.read_text()) if named else {}
    for model_type in named or model_types():
        rows[model_type] = row(verdict(model_type))
        print(rows[model_type], file=sys.stderr)
    text = page([rows[model_type] for model_type in model_types()])
    if "--write" in sys.argv:
        Path(PAGE).write_text(text)
    else:
        print(text)
