"""A tiny Whisper with random weights, its tokenizer and its feature extractor."""

import json
import wave

import numpy as np
import torch
import transformers

HEADS = [[0, 1], [1, 3], [2, 0], [2, 2]]
RATE = 16_000
_SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|translate|>", "<|notimestamps|>"]


def made():
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=70, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=1500, max_target_positions=64,
        pad_token_id=60, bos_token_id=60, eos_token_id=60, decoder_start_token_id=61,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(6 if weights.dim() > 1 else 1)
        model.proj_out.weight.copy_(torch.randn(70, 32))  # so that it does not repeat a token for ever
    settings = {"alignment_heads": HEADS, "no_timestamps_token_id": 65, "lang_to_id": {"<|en|>": 62}, "is_multilingual": True,
                "task_to_id": {"transcribe": 63, "translate": 64}, "max_length": 40, "suppress_tokens": [*range(60, 70)], "no_repeat_ngram_size": 1,
                "return_timestamps": False, "language": "en", "task": "transcribe"}  # fmt: skip
    ids = {"pad_token_id": 60, "bos_token_id": 60, "eos_token_id": 60, "decoder_start_token_id": 61}
    model.generation_config = transformers.GenerationConfig(**settings, **ids)
    return model


def saved(folder):
    """A folder with the model, as `regard see` reads it."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["!", "?", *letters, *(f"Ġ{letter}" for letter in letters), "Ġ", ".", ",", "Ġdo", "Ġdog", "'"]
    vocabulary = {piece: n for n, piece in enumerate(pieces)} | {each: 60 + n for n, each in enumerate(_SPECIAL)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\nĠ d\nĠd o\nĠdo g\n")
    tokenizer = transformers.WhisperTokenizer(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"), additional_special_tokens=_SPECIAL[1:],
        unk_token=_SPECIAL[0], bos_token=_SPECIAL[0], eos_token=_SPECIAL[0],
    )  # fmt: skip
    extractor = transformers.WhisperFeatureExtractor(feature_size=16)
    for part in (made(), tokenizer, extractor):
        part.save_pretrained(folder)
    return folder


def sound(seconds, seed=0):
    """Tones that come and go."""
    draw, time = np.random.default_rng(seed), np.arange(round(seconds * RATE)) / RATE
    tones = sum(
        np.sin(2 * np.pi * f * time) * (np.sin(2 * np.pi * g * time) > 0)
        for f, g in draw.uniform([200, 0.3], [3000, 2], (5, 2))
    )
    return (tones / 6).astype(np.float32)


def write(path, samples, rate=RATE):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path
