# %% [markdown]
# # Which word painted what
#
# A model that paints an image reads its prompt in every block and every step. `record.over("dog")` draws where the
# word had its say: the mean over all steps, blocks and heads, or over some of them. The model keeps its fused kernels,
# and no weights are stored.
#
# This page takes `diffusers`: `pip install 'regard[sciences]'`. Its model is a tiny Qwen-Image with random weights. The
# picture means nothing, but words and patches lie where they belong.

# %%
import diffusers
import torch
from torch.nn import functional

import regard

torch.manual_seed(1)
rows, columns = 8, 12  # patches of the image
model = diffusers.QwenImageTransformer2DModel(
    patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=3,
    joint_attention_dim=32, axes_dims_rope=(8, 4, 4),
).eval()  # fmt: skip
with torch.no_grad():
    for weights in model.parameters():
        weights.mul_(3 if weights.dim() == 2 else 1)  # so that heads have preferences
words = ["a", "red", "dog", "and", "a", "blue", "ball"]
prompt = torch.randn(1, len(words), 32)  # what the text encoder makes of them


def sample(after_each_step=lambda: None):
    """Paint an image in four steps, as a pipeline does."""
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler()
    scheduler.set_timesteps(4)
    latents = torch.randn(1, rows * columns, 16, generator=torch.manual_seed(2))
    for step in scheduler.timesteps:
        velocity = model(
            hidden_states=latents, timestep=step[None] / 1000, encoder_hidden_states=prompt,
            encoder_hidden_states_mask=torch.ones(1, len(words)).long(), img_shapes=[[(1, rows, columns)]],
        ).sample  # fmt: skip
        latents = scheduler.step(velocity, step, latents).prev_sample
        after_each_step()
    return latents


# %% [markdown]
# ## Watch the denoiser
#
# Watch the part of the pipeline that denoises: `pipe.transformer`, or `pipe.unet`. `tokens` are the words as its text
# encoder had them, here one for each. Of a pipeline they are
# `pipe.tokenizer.convert_ids_to_tokens(pipe.tokenizer(prompt).input_ids)`, padded as the pipeline pads them. With
# several text encoders in a row (Stable Diffusion 3 has CLIP's tokens, then T5's), add up their lists.

# %%
with torch.no_grad(), regard.watch(model, tokens=words) as record:
    sample()
print(len(record.passes), "steps;", "not seen:", len(record.unseen))
record

# %% [markdown]
# Qwen-Image has text and image in one sequence: the record knows which tokens are words and which are patches.

# %%
print(record.looks("dog", layer=1, head=0))
shares = record.spans({"prompt": (0, 7), "image": (7, 103)}, layer=1)
shares

# %% [markdown]
# ## Over the image
#
# In a joint sequence both look: the word at the image, and each patch at the word. `looked_at=True` is the second,
# which other tools draw. With cross-attention (Stable Diffusion 1 and XL, PixArt, Sana) there is nothing else. Give
# your picture as the second argument; here there is none.

# %%
record.over("dog", looked_at=True, title="Random weights: where, not what")

# %%
record.over("dog", looked_at=True, each="step")

# %% [markdown]
# `steps=slice(0, 2)` chooses steps; `layer`, `head` and `module` choose blocks and heads. Blocks of a UNet see the
# image at several scales; a coarse patch counts for all fine ones that it covers.
#
# It is what eager attention gives. Here all weights of all steps are computed and kept, and the word's column is
# averaged:

# %%
dense = []


def eager(query, key, value, **_):
    dense.append(torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1))
    return dense[-1] @ value


fused, functional.scaled_dot_product_attention = functional.scaled_dot_product_attention, eager
with torch.no_grad():
    sample()
functional.scaled_dot_product_attention = fused
column = torch.cat([weights[0, :, 7:, words.index("dog")] for weights in dense]).mean(0).view(rows, columns)
ours = torch.from_numpy(record.over("dog", looked_at=True).numbers["weights"])
print("the same:", torch.allclose(ours.float(), column, atol=1e-5))

# %% [markdown]
# ## Memory
#
# A record keeps the queries and keys of every block and step. For an image of 4,096 patches and 512 tokens of text,
# with 24 heads of 128 in bf16, that is 57 MB a block and a step, where the weights would be 1.02 GB.

# %%
tokens, heads, width = 4096 + 512, 24, 128
print(f"{2 * tokens * heads * width * 2 / 1e6:.0f} MB, {heads * tokens**2 * 2 / 1e9:.2f} GB")

# %% [markdown]
# Over many steps that is much, too. `record.forget()` frees the steps so far, so that a running mean takes no more than
# one step does. In a pipeline, call it in `callback_on_step_end`:

# %%
maps = []


def after_each_step():
    maps.append(record.over("dog", looked_at=True).numbers["weights"])
    record.forget()


with torch.no_grad(), regard.watch(model, tokens=words) as record:
    sample(after_each_step)
print("the same:", torch.allclose(torch.from_numpy(sum(maps) / len(maps)), ours))

# %% [markdown]
# Measured on one H200, beside eager attention that keeps its weights:
#
# <!-- report images-gpu -->
#
# In that report, `record.over` takes longer than eager attention: the tokens were named anew for every block and step,
# in Python. Since then they are named once, and one fused forward for each block is what is left. The difference of the
# two maps is that of eager attention in bf16: its scores are rounded before the softmax. The script
# now says how far each of them is from float64.
#
# ## Guidance
#
# Classifier-free guidance runs the model on an empty or negative prompt as well. Where both are one batch, as in Stable
# Diffusion, give `tokens` for both, in their order, and ask with `sequence=1`. Where they are runs of their own, choose
# every second with `steps=slice(0, None, 2)`.
#
# ## Which models
#
# Tests hold these classes of diffusers to eager attention: `UNet2DConditionModel` (Stable Diffusion 1, 2 and XL),
# `SD3Transformer2DModel`, `FluxTransformer2DModel`, `Flux2Transformer2DModel`, `ChromaTransformer2DModel`,
# `CogView4Transformer2DModel`, `QwenImageTransformer2DModel`, `PixArtTransformer2DModel`, and the cross-attention of
# `SanaTransformer2DModel`, whose other attention is linear and has no weights. Every other model that calls torch's
# function is recorded as well; [say where its patches are](which_part_of_the_image.py) with
# `images=[(rows, columns, first)]`. Blocks whose attention cannot be seen are named in `record.unseen`: those with a
# processor that multiplies by hand, or with a kernel of another library. Choose the backend "native" for them:
# `model.set_attention_backend("native")`.
