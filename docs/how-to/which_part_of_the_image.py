# %% [markdown]
# # Which part of the image
#
# What did a word look at in the picture? `record.over(word, image)` draws a word's attention over the picture itself.
# The record knows which tokens are patches of which image and where they lie, in the vision tower and in the language
# model.
#
# There is no small model with real weights that could come along with this page. So it begins with one whose weights
# are written by hand, of which we know what each head does; then the same calls on a model of transformers with random
# weights, which shows how it works and nothing else.

# %%
import numpy as np
import torch
from torch import nn
from torch.nn import functional

import regard

rows, columns, patch = 8, 12, 16
y, x = np.mgrid[0 : rows * patch, 0 : columns * patch]
picture = np.stack([120 + y / 2, 150 + y / 3, 230 - y / 2], -1)  # a sky
picture[y > 88] = [90, 150, 70]  # a meadow
picture[(y - 80) ** 2 + (x - 130) ** 2 < 26**2] = [205, 40, 35]  # a red ball
picture[(y - 30) ** 2 + (x - 40) ** 2 < 16**2] = [250, 215, 90]  # the sun
picture = picture.astype(np.uint8)

# %% [markdown]
# ## A model that we know
#
# It reads three words and the patches of a picture, a patch as the mean of its colours. Its first head looks from "red"
# to what is red, and its second looks everywhere alike. Only the second passes on what it sees. One patch, in the
# corner, has a key that every query of the first head likes: an attention sink, as many vision models have them.

# %%
WORDS = ["a", "red", "ball"]


class Reader(nn.Module):
    def forward(self, pixels):
        means = pixels.reshape(rows, patch, columns, patch, 3).mean((1, 3)).reshape(-1, 3) / 255
        nothing = torch.zeros(len(WORDS), 3)
        colours = torch.cat([nothing, means])  # words have no colour, patches have their own
        corner = torch.zeros(len(colours), 1)
        corner[len(WORDS)] = 1
        asks = torch.zeros(len(colours), 3)
        asks[WORDS.index("red")] = torch.tensor([6.0, -6.0, -6.0])
        by_colour = torch.cat([asks, torch.full_like(corner, 8.5)], -1), torch.cat([colours, corner], -1)
        alike = torch.zeros(len(colours), 4), torch.zeros(len(colours), 4)
        query, key = (torch.stack(pair)[None] for pair in zip(by_colour, alike, strict=True))
        value = torch.stack([torch.zeros_like(colours), colours])[None]  # the first head passes nothing on
        return functional.scaled_dot_product_attention(query, key, value, scale=1.0).sum(1)


model, pixels = Reader(), torch.from_numpy(picture).float()
with regard.watch(model, tokens=WORDS + [""] * rows * columns, images=[(rows, columns, len(WORDS))]) as record:
    model(pixels)

# %%
record.over("red", picture, head=0, title="What “red” looks at, in the first head")

# %% [markdown]
# Nothing is hidden: the corner is drawn with all the rest. But it is marked, since most tokens look at it, whatever
# they are, and it does not set the scale. The caption says how much of the attention falls on the image at all.
#
# ## Attention is not cause
#
# The first head looks at the ball. Does the model know of the ball because of it? Looking is not using. Take the head
# away, and see what changes:

# %%
for head in (0, 1):
    print(f"without head {head}:", regard.effect(model, pixels, without={"": [head]}))

# %% [markdown]
# Without the head of the beautiful picture nothing changes at all, for it passes nothing on. Without the one that looks
# everywhere alike, all is gone. A picture of attention shows where a head looked. Whether that mattered, only a change
# shows: of a head, as here, of a single link, or of the picture. Paint the ball over, and compare the outputs.
#
# ## A model of transformers
#
# Pass the processor's outputs to the model as always. This one is a tiny Qwen2-VL with random weights. Its picture
# means nothing, but the patches lie where they belong: Qwen merges 2 × 2 patches into each token of its language model.

# %%
import transformers

transformers.logging.set_verbosity_error()
torch.manual_seed(0)
config = transformers.Qwen2VLConfig(
    vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 8},
    text_config={
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 100,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
    },
    image_token_id=3, vision_start_token_id=4, vision_end_token_id=5, video_token_id=6,
)  # fmt: skip
qwen = transformers.Qwen2VLForConditionalGeneration(config).eval()
with torch.no_grad():
    for weights in qwen.parameters():
        weights.mul_(5 if weights.dim() > 1 else 1)  # so that heads have preferences
processor = transformers.Qwen2VLImageProcessor(patch_size=8, size={"shortest_edge": 1024, "longest_edge": 2**20})

seen = processor(picture, return_tensors="pt", input_data_format="channels_last")
count = int(seen["image_grid_thw"].prod()) // 4
words = ["<start>", *["<image>"] * count, "<end>", "where", "is", "the", "ball", "?"]
ids = torch.tensor([[4, *[3] * count, 5, *range(10, 15)]])
with torch.no_grad(), regard.watch(qwen, tokens=words) as record:  # or tokenizer=processor
    qwen(input_ids=ids, mm_token_type_ids=(ids == 3).long(), **seen)

for name in ("model.visual.blocks.0.attn", "model.language_model.layers.0.self_attn"):
    print(name, record[name].key_tokens[0].grids)

# %%
record.over("ball", picture, each="layer", title="Random weights: where, not what")

# %% [markdown]
# `each="head"` draws every head. A patch is a place as a word is: `regard.Patch(row, column)` asks what it looks at,
# and `looked_at=True` what looks at it. In the tower, which has no words, `[CLS]` and registers have these names.

# %%
ball = regard.Patch(4, 8)  # in the tokens of the language model, which are 8 × 12
print(record.looked_at(ball, kind="decoder"))
record.over(ball, picture, kind="decoder", looked_at=True, layer=1, title="Which patches look at the ball")

# %% [markdown]
# What would the model have said without that look? [Cut the link](attention_is_not_cause.py) from the word to the
# patch, and compare:

# %%
inputs = {"input_ids": ids, "mm_token_type_ids": (ids == 3).long(), **seen}
effect = regard.effect(qwen, inputs, without=regard.Link("ball", ball), tokens=words)
print("the largest change of a logit:", f"{effect.difference:.3g}")

# %% [markdown]
# ## Through all layers
#
# One layer shows one look. `rollout=True` follows a token through all layers down to the patches, half of each layer
# being what was there before. For the class token of a vision model it shows which patches its answer is made of. Take
# it as a guide, not as a proof: it knows nothing of values and feed-forward layers.

# %%
config = transformers.ViTConfig(
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=64,
    image_size=(128, 192),
    patch_size=16,
)
vit = transformers.ViTModel(config).eval()
with torch.no_grad():
    for weights in vit.parameters():
        weights.mul_(8 if weights.dim() > 1 else 1)
with torch.no_grad(), regard.watch(vit) as record:
    vit(pixel_values=torch.from_numpy(picture).permute(2, 0, 1)[None] / 127.5 - 1)
record.over("[CLS]", picture, rollout=True, title="Random weights: where, not what")

# %% [markdown]
# ## A video
#
# The frames of a video are one strip, and a patch of it a place like any other. Qwen makes one frame of two. Give the
# frames themselves, (frames, height, width, 3), and the picture finds out whether they are those that the model saw.

# %%
frames = np.stack([np.roll(picture, 16 * n, 1) for n in range(4)])  # the ball moves to the right
blocks = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255
blocks = blocks.view(2, 2, 3, 8, 2, 8, 12, 2, 8).permute(0, 3, 6, 4, 7, 2, 1, 5, 8)  # what its video processor does
tokens = ["<start>", *["<video>"] * 192, "<end>", "where", "is", "the", "ball", "?"]
text = torch.tensor([[4, *[6] * 192, 5, *range(10, 15)]])
video = {"pixel_values_videos": blocks.reshape(2 * 16 * 24, -1), "video_grid_thw": torch.tensor([[2, 16, 24]])}
with torch.no_grad(), regard.watch(qwen, tokens=tokens) as record:
    qwen(input_ids=text, mm_token_type_ids=2 * (text == 6).long(), **video)
record.over("ball", frames, layer=1, kind="decoder", title="Random weights: where, not what")

# %% [markdown]
# ## The right picture, or an error
#
# A processor may squash a picture, cut out its middle or pad it, and does not say which. The record has the brightness
# of each patch that the model read, finds out which way agrees with your picture, and says it in the caption. If none
# does, it is another picture:

# %%
try:
    record.over("ball", frames[:, :, ::-1], kind="decoder")
except regard.InputError as error:
    print(error)

# %% [markdown]
# Known are Qwen2-VL, Qwen2.5-VL, Qwen3-VL, GLM-4V, LLaVA, LLaVA-NeXT, LLaVA-OneVision, InternVL, Idefics3, SmolVLM,
# Aya Vision, Llama 4, Mllama, Mistral 3, PaliGemma and Gemma 3; the Q-Former of BLIP-2, whose queries look at patches;
# and ViT, DeiT, BEiT, CLIP, SigLIP, DINOv2, DINOv3 and Pixtral. Tests hold each of them: where a square of the picture
# is changed, the keys of the tokens at that place change, and no others. Of another model, `images` says it, as above:
# (rows, columns) of patches for each image of a text, and the first token where it cannot be found. If the numbers do
# not fit, the question ends in an error that says so.
#
# ## Large images
#
# A record keeps queries and keys of every layer. For an image of thousands of tokens, keep the rows of the last tokens
# only, those of your question and of all that is written after it:

# %%
with torch.no_grad(), regard.watch(qwen, tokens=words, keep=8) as record:
    qwen(input_ids=ids, mm_token_type_ids=(ids == 3).long(), **seen)
print(record)
print(record.over("ball", picture, layer=1))

# %% [markdown]
# What that costs beside the plain model, measured on one H200:
#
# <!-- report images-gpu -->
