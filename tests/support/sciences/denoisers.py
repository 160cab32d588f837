"""Tiny denoisers of diffusers with random weights, each with its inputs: an image of 8 × 12 patches and seven words."""

import torch

WORDS = ["a", "red", "dog", "and", "a", "blue", "ball"]
ROWS, COLUMNS = 8, 12
NAMES = ("sd15", "sdxl", "sd3", "flux", "flux2", "chroma", "cogview4", "qwen", "pixart", "sana")
JOINT = ("sd3", "flux", "flux2", "chroma", "cogview4", "qwen")
_UNET = {
    "sample_size": 16,
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "cross_attention_dim": 32,
    "norm_num_groups": 8,
}
_FLUX = {"patch_size": 1, "in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "joint_attention_dim": 32}  # fmt: skip
_DIT = {"sample_size": 16, "patch_size": 2, "in_channels": 4, "num_layers": 2, "attention_head_dim": 8}


def made(name):
    """A model and its inputs."""
    import diffusers

    torch.manual_seed(0)
    latents = {"hidden_states": torch.randn(1, 4, 16, 24), "timestep": torch.tensor([5])}
    packed = {"hidden_states": torch.randn(1, ROWS * COLUMNS, 4), "timestep": torch.tensor([0.5])}
    text = {"encoder_hidden_states": torch.randn(1, len(WORDS), 32)}
    ids = torch.cartesian_prod(torch.arange(1.0), torch.arange(float(ROWS)), torch.arange(float(COLUMNS)))
    places = {"img_ids": ids, "txt_ids": torch.zeros(len(WORDS), 3)}
    four = {key: torch.cat([each, torch.zeros(len(each), 1)], -1)[None] for key, each in places.items()}
    size, sample = (
        {"original_size": torch.tensor([[128.0, 192.0]])},
        {"sample": torch.randn(1, 4, 16, 24), "timestep": 5},
    )
    match name:
        case "sd15":
            blocks = {
                "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
            }
            model = diffusers.UNet2DConditionModel(**_UNET, **blocks, attention_head_dim=8)
            inputs = sample
        case "sdxl":
            blocks = {
                "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
                "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            }
            added = {
                "addition_embed_type": "text_time",
                "addition_time_embed_dim": 8,
                "projection_class_embeddings_input_dim": 80,
            }
            model = diffusers.UNet2DConditionModel(
                **_UNET,
                **blocks,
                **added,
                attention_head_dim=(2, 4),
                transformer_layers_per_block=(1, 2),
                use_linear_projection=True,
            )
            inputs = {**sample, "added_cond_kwargs": {"text_embeds": torch.randn(1, 32), "time_ids": torch.zeros(1, 6)}}
        case "sd3":
            model = diffusers.SD3Transformer2DModel(
                **_DIT, num_attention_heads=4, caption_projection_dim=32, joint_attention_dim=32, pooled_projection_dim=64,
                out_channels=4, pos_embed_max_size=32, dual_attention_layers=(0,), qk_norm="rms_norm",
            )  # fmt: skip
            inputs = {**latents, "pooled_projections": torch.randn(1, 64)}
        case "flux":
            model = diffusers.FluxTransformer2DModel(**_FLUX, pooled_projection_dim=32, axes_dims_rope=[4, 4, 8])
            inputs = {**packed, **places, "pooled_projections": torch.randn(1, 32)}
        case "flux2":
            model = diffusers.Flux2Transformer2DModel(
                **_FLUX, timestep_guidance_channels=8, axes_dims_rope=(4, 4, 4, 4)
            )
            inputs = {**packed, **four, "guidance": torch.tensor([1.0])}
        case "chroma":
            approximator = {"approximator_num_channels": 16, "approximator_hidden_dim": 16, "approximator_layers": 1}
            model = diffusers.ChromaTransformer2DModel(**_FLUX, **approximator, axes_dims_rope=(4, 4, 8))
            inputs = {**packed, **places}
        case "cogview4":
            options = {key: value for key, value in _DIT.items() if key != "sample_size"}
            model = diffusers.CogView4Transformer2DModel(
                **options, num_attention_heads=4, out_channels=4, text_embed_dim=32, time_embed_dim=8, condition_dim=4
            )
            inputs = {**latents, **size, "target_size": size["original_size"], "crop_coords": torch.zeros(1, 2)}
        case "qwen":
            model = diffusers.QwenImageTransformer2DModel(
                patch_size=2, in_channels=4, out_channels=1, num_layers=2, attention_head_dim=16, num_attention_heads=3,
                joint_attention_dim=32, axes_dims_rope=(8, 4, 4),
            )  # fmt: skip
            inputs = {
                **packed,
                "encoder_hidden_states_mask": torch.ones(1, len(WORDS)).long(),
                "img_shapes": [[(1, ROWS, COLUMNS)]],
            }
        case "pixart":
            model = diffusers.PixArtTransformer2DModel(
                **_DIT,
                num_attention_heads=2,
                out_channels=8,
                cross_attention_dim=16,
                caption_channels=32,
                use_additional_conditions=False,
            )
            inputs = {**latents, "added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}
        case "sana":
            model = diffusers.SanaTransformer2DModel(
                **_DIT, num_attention_heads=2, out_channels=4, num_cross_attention_heads=2, cross_attention_head_dim=8,
                cross_attention_dim=16, caption_channels=32,
            )  # fmt: skip
            inputs = latents
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3 if weights.dim() == 2 else 1)  # so that heads have preferences
    return model.eval(), {**inputs, **text}
