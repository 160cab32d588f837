"""When each word was spoken: the times of transformers, from fused kernels and in bounded memory."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.watching import whisper
from transformers.models.whisper.generation_whisper import _dynamic_time_warping

import regard
from regard import cli
from regard.watching.questions.speech import warp


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return whisper.saved(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="module")
def parts(folder):
    import transformers

    model, tokenizer = regard.watching.load(folder)
    return model, tokenizer, transformers.AutoFeatureExtractor.from_pretrained(folder)


def _theirs(features, frames, **options):
    """The ids and times of transformers, which needs eager attention for them."""
    model = whisper.made()
    padding = (torch.arange(features.shape[-1])[None] < torch.tensor(frames)[:, None]).long()
    with torch.no_grad():
        return model.generate(
            features, attention_mask=padding, return_token_timestamps=True, return_dict_in_generate=True, **options
        )


@pytest.mark.parametrize("frames", [3000, 1777, 301])
def test_the_times_are_those_of_transformers(parts, frames):
    model, tokenizer, extractor = parts
    features = extractor(whisper.sound(frames / 100), sampling_rate=16_000, return_tensors="pt").input_features
    expected = _theirs(features, [frames], max_new_tokens=30)
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        ids = model.generate(features, max_new_tokens=30)
    assert model.config._attn_implementation == "sdpa"
    assert record.unseen == ()
    assert expected["sequences"][0, -ids.shape[1] :].equal(ids[0])
    speech, times = record.spoken(frames), expected["token_timestamps"][0]
    assert len(set(times.tolist())) > 3
    torch.testing.assert_close(speech.times, times[:-1])  # the last token was written, and never read
    prompt = len(times) - ids.shape[1]
    tokens = record["model.decoder.layers.0.encoder_attn"].tokens[0]
    for spoken in speech:
        (place,) = [word for word in tokens.words if times[word.start] == spoken.start and word.text == spoken.word][:1]
        assert place.start >= prompt
        assert spoken.end == pytest.approx(float(times[place.stop]))
    assert "".join(s.word for s in speech) == "".join(
        w.text for w in tokens.words if w.start >= prompt and w.text[:2] != "<|"
    )


def test_texts_of_a_batch_and_a_text_that_was_written_before(parts):
    model, tokenizer, extractor = parts
    sounds = [whisper.sound(30, 1), whisper.sound(12, 2)]
    features = extractor(sounds, sampling_rate=16_000, return_tensors="pt").input_features
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        ids = model.generate(features, max_new_tokens=20)
    for n, frames in enumerate((3000, 1200)):
        alone = _theirs(features[n : n + 1], [frames], max_new_tokens=20)
        torch.testing.assert_close(record.spoken(frames, sequence=n).times, alone["token_timestamps"][0][:-1])
    text = torch.cat([torch.tensor([[61, 62, 63, 65]] * 2), ids], 1)
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as again:
        model(input_features=features, decoder_input_ids=text[:, :-1])
    torch.testing.assert_close(again.spoken(3000, prompt=4).times, record.spoken(3000).times)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 50), (40, 33)])
def test_the_path_is_that_of_transformers(shape):
    draw = np.random.default_rng(0)
    for costs in (
        draw.normal(size=shape),
        np.zeros(shape),
        draw.integers(0, 3, shape).astype(float),
        np.full(shape, np.nan),
    ):
        for ours, theirs in zip(warp(costs), _dynamic_time_warping(costs), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_long_sound_is_written_down_in_parts(parts):
    model, tokenizer, extractor = parts
    long = whisper.sound(70)
    speech = regard.watching.listen(model, tokenizer, extractor, long, max_new_tokens=20)
    second = regard.watching.listen(model, tokenizer, extractor, long[30 * 16_000 : 60 * 16_000], max_new_tokens=20)
    middle = [spoken for spoken in speech if 30 <= spoken.start < 60]
    assert [spoken.word for spoken in middle] == [spoken.word for spoken in second]
    assert [s.start for s in middle] == pytest.approx([s.start + 30 for s in second])
    assert speech.loudness.shape == (16, 7000)
    assert max(spoken.end for spoken in speech) > 60
    assert len(speech.picture().words) == len(speech)


PROBE = """
import json, sys, torch, transformers
sys.path[:0] = [{benchmarks!r}, {tests!r}]
from measure import peak_extra
from support.watching import whisper
import regard
torch.set_num_threads(1)
model = whisper.made()
from regard.watching import load, listen
model, tokenizer = load({folder!r})
extractor = transformers.AutoFeatureExtractor.from_pretrained({folder!r})
one = whisper.sound(30)
def heard(parts): return listen(model, tokenizer, extractor, (one for _ in range(parts)), max_new_tokens=5)
heard(2)
print(json.dumps([peak_extra(lambda: heard(n)) for n in (2, 10)]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's high-water mark")
def test_memory_does_not_grow_with_the_length_of_a_sound(folder):
    from pathlib import Path

    tests = Path(__file__).parents[1]
    code = PROBE.format(benchmarks=str(tests.parent / "benchmarks"), tests=str(tests), folder=str(folder))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    few, many = json.loads(done.stdout.splitlines()[-1])
    print(few, many)
    assert many < few + 10  # MB: 8 more parts keep 3 MB of queries and keys each, if they are kept


def test_what_it_needs_is_said(parts, llama):
    model, tokenizer, extractor = parts
    with pytest.raises(regard.InputError, match=r"spoken needs heads that follow the sound: .*Got None"):
        llama.spoken()
    with torch.no_grad(), regard.watch(model) as record:
        model.generate(torch.randn(1, 16, 3000), max_new_tokens=5)
    with pytest.raises(regard.InputError, match=r"Got \[\(9, 0\)\]"):
        record.spoken(heads=[(9, 0)])
    with pytest.raises(regard.InputError, match="input_features"):
        record.spoken().picture()
    with pytest.raises(regard.InputError, match="no samples"):
        regard.watching.listen(model, tokenizer, extractor, iter(()))


def test_the_command_reads_a_sound(folder, tmp_path, capsys):
    def see(*arguments):
        code = cli.main(["see", *map(str, arguments), "--model", str(folder)])
        return code, *capsys.readouterr()

    path = whisper.write(tmp_path / "speech.wav", whisper.sound(8))
    code, printed, _ = see(path)
    assert code == 0
    assert " – " in printed.splitlines()[0]
    words = json.loads(see("-f", path, "--json")[1])
    assert list(words[0]) == ["word", "start", "end"]
    assert see(path, "-o", tmp_path / "speech.svg")[0] == 0
    assert f">{words[0]['word']}" in (tmp_path / "speech.svg").read_text()
    assert "16,000 samples" in see(whisper.write(tmp_path / "slow.wav", whisper.sound(1), 8000))[2]
    assert "cannot be read as a WAV file" in see(folder / "config.json")[2]
    assert "one WAV file" in see()[2]
