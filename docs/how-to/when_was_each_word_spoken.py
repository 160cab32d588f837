# %% [markdown]
# # When was each word spoken
#
# Whisper writes down what it hears, and some heads of its decoder follow the sound while they do. `record.spoken()`
# reads the time of each word from their rows. The numbers are those of `return_token_timestamps` in transformers, which
# turns off the fused kernels and stores the weights of all heads.
#
# The model on this page is tiny and has random weights, so its times mean nothing. In the terminal, a folder with
# Whisper's weights will do: `regard see speech.wav --model FOLDER -o speech.svg`.

# %%
import numpy as np
import torch
import transformers

import regard

transformers.logging.set_verbosity_error()
torch.manual_seed(3)
config = transformers.WhisperConfig(
    vocab_size=50, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=40, pad_token_id=0, bos_token_id=0, eos_token_id=0,
    decoder_start_token_id=1,
)  # fmt: skip
model = transformers.WhisperForConditionalGeneration(config).eval()
with torch.no_grad():
    for weights in model.parameters():
        weights.mul_(6 if weights.dim() > 1 else 1)  # so that heads have preferences
model.generation_config = transformers.GenerationConfig(
    alignment_heads=[[0, 1], [1, 0], [1, 3]], decoder_start_token_id=1, eos_token_id=0, pad_token_id=0, max_length=16,
    is_multilingual=False, no_timestamps_token_id=49, no_repeat_ngram_size=1, suppress_tokens=[0, 1, 49],
)  # fmt: skip

rate = 16_000
time = np.arange(6 * rate) / rate  # six seconds of tones that come and go
sound = sum(
    np.sin(2 * np.pi * pitch * time) * (np.sin(pace * time) > 0) for pitch, pace in [(300, 5), (900, 7), (2200, 3)]
)
extractor = transformers.WhisperFeatureExtractor(feature_size=40)
features = extractor(sound, sampling_rate=rate, return_tensors="pt").input_features
frames = 600  # of the spectrogram: 100 a second; the rest of the 30 seconds is padding

# %% [markdown]
# ## A text that is known
#
# Give the decoder the words, with what it begins with, and ask. `prompt` says how many first tokens are no words:

# %%
words = ["<|startoftranscript|>", "a", "dog", "ate", "the", "food"]
with torch.no_grad(), regard.watch(model, tokens=words) as record:
    model(input_features=features, decoder_input_ids=torch.tensor([[1, 11, 12, 13, 14, 15]]))
speech = record.spoken(frames, prompt=1)
print(speech)
speech.picture(features[0, :, :frames], title="Random weights: how, not when")

# %% [markdown]
# ## What it writes itself
#
# After `generate`, the record knows what was prompt and what was written. With `regard.watch(model, tokenizer=…)` the
# words have their names. The times are those of transformers:

# %%
with torch.no_grad(), regard.watch(model) as record:
    model.generate(features)
ours = record.spoken(frames).times

mask = (torch.arange(3000) < frames).long()[None]
with torch.no_grad():
    theirs = model.generate(
        features, attention_mask=mask, return_token_timestamps=True, return_dict_in_generate=True
    )["token_timestamps"][0]  # fmt: skip
print("the same:", torch.equal(ours, theirs[: len(ours)]), f"{ours[-1]:.2f} s")

# %% [markdown]
# The heads are `alignment_heads` of the checkpoint's `generation_config`. Of a model that has none, say them:
# `record.spoken(heads=[(layer, head), …])`. Which heads follow the sound, `record.picture("grid", kind="cross")` shows:
# those with a diagonal.
#
# ## How it works
#
# The rows of these heads are normalized over the tokens, smoothed over time by a median, and averaged. A path from the
# first token and moment to the last, always forward, collects as much of them as it can (dynamic time warping). A token
# begins where the path comes to it. Only the rows of the alignment heads are ever computed, and nothing else is stored.
#
# ## An hour
#
# `regard.watching.listen(model, tokenizer, extractor, sound)` writes down a sound of any length, 30 seconds at once,
# and forgets each part when it has its words. So memory does not grow with the length, but for the spectrogram: 58 MB
# an hour with 80 pitches. `sound` may be an iterator, of parts from a file or a microphone. A word at the end of a part
# may be cut in two.

# %%
print(f"{80 * 100 * 3600 * 2 / 1e6:.0f} MB")
