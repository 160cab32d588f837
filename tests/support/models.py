"""A small random model of every family that `watch` supports, with inputs for it, and small models of our own."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional

import regard

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**SIZE, **SPECIAL, "num_key_value_heads": 2}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 99, "max_position_embeddings": 64, **SPECIAL,
    "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
TOKENS = 12
WORDS = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hun", "##gry", "dog", "."]


@dataclass(frozen=True)
class Family:
    """How to build a model, and what it takes: a text, two texts, an image or a sound."""

    make: Callable[[], nn.Module]
    feeds: str = "text"
    sides: tuple[str, ...] = ("left", "right")  # where padding may be

    def inputs(self, side: str | None) -> dict[str, Tensor]:
        """A batch of two; `side`: where the second text is padded."""
        torch.manual_seed(1)
        ids = torch.randint(5, 90, (2, TOKENS))
        real = torch.ones_like(ids)
        if side is not None:
            real[1, slice(0, 4) if side == "left" else slice(TOKENS - 4, TOKENS)] = 0
        if self.feeds == "text":
            return {"input_ids": ids, "attention_mask": real}
        if self.feeds == "texts":
            return {"input_ids": ids, "attention_mask": real, "decoder_input_ids": torch.randint(5, 90, (2, 7))}
        if self.feeds == "image":
            return {"pixel_values": torch.randn(2, 3, 32, 32)}
        if self.feeds == "sound":
            return {"input_features": torch.randn(2, 8, 24), "decoder_input_ids": torch.randint(5, 90, (2, 7))}
        return {"input_ids": ids, "attention_mask": real, "pixel_values": torch.randn(2, 3, 32, 32)}  # text and image


def _clip() -> nn.Module:
    text = {**SIZE, **SPECIAL, "max_position_embeddings": 64, "projection_dim": 16}
    return hf.CLIPModel(
        hf.CLIPConfig(text_config=text, vision_config={**VISION, "projection_dim": 16}, projection_dim=16)
    )


def _causal(name: str, **more: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(hf, f"{name}ForCausalLM")(getattr(hf, f"{name}Config")(**{**GROUPED, **more}))


def _bare(name: str, **more: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(hf, f"{name}Model")(getattr(hf, f"{name}Config")(**{**SIZE, **SPECIAL, **more}))


def _bart(name: str, **more: Any) -> Callable[[], nn.Module]:
    kind = f"{name}MTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    return lambda: getattr(hf, kind)(getattr(hf, f"{name}Config")(**{**BART, **more}))


EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
DEEPSEEK = {
    "moe_intermediate_size": 16, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
    "v_head_dim": 6, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
    "num_key_value_heads": 4,
}  # fmt: skip
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64, **SPECIAL}
GEMMA = {"head_dim": 16, "sliding_window": 5}
T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 99,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}

FAMILIES = {
    "BERT": Family(_bare("Bert")),
    "RoBERTa": Family(_bare("Roberta", max_position_embeddings=64)),
    "ALBERT": Family(_bare("Albert", embedding_size=16)),
    "DistilBERT": Family(lambda: hf.DistilBertModel(hf.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99))),
    "ModernBERT": Family(_bare("ModernBert", num_hidden_layers=3, local_attention=6, cls_token_id=3, sep_token_id=4)),
    "GPT-2": Family(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2))),
    "GPT-NeoX": Family(lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SIZE, **SPECIAL))),
    "OPT": Family(lambda: hf.OPTForCausalLM(hf.OPTConfig(**{**SIZE, **SPECIAL}, ffn_dim=64, word_embed_proj_dim=32))),
    "Llama": Family(_causal("Llama")),
    "Mistral": Family(_causal("Mistral", sliding_window=5)),
    "Mixtral": Family(_causal("Mixtral", sliding_window=5, **EXPERTS)),
    "Qwen 2": Family(_causal("Qwen2")),
    "Qwen 3": Family(_causal("Qwen3", head_dim=16)),
    "Gemma": Family(_causal("Gemma", head_dim=16)),
    "Gemma 2": Family(_causal("Gemma2", **GEMMA, attn_logit_softcapping=3.0)),
    "Gemma 3": Family(lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**GROUPED, **GEMMA, layer_types=["sliding_attention", "full_attention"]))),
    "Phi-3": Family(_causal("Phi3", sliding_window=5)),
    "GPT-OSS": Family(_causal("GptOss", head_dim=16, sliding_window=5, **EXPERTS)),
    "DeepSeek-V3": Family(_causal("DeepseekV3", **DEEPSEEK)),
    "T5": Family(lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)), "texts"),
    "BART": Family(_bart("Bart"), "texts"),
    "mBART": Family(_bart("MBart"), "texts"),
    "Marian": Family(_bart("Marian"), "texts"),
    "M2M100": Family(_bart("M2M100"), "texts"),
    "Pegasus": Family(_bart("Pegasus"), "texts"),
    "Whisper": Family(_bart("Whisper", num_mel_bins=8, max_source_positions=12, max_target_positions=32), "sound", ()),
    "ViT": Family(lambda: hf.ViTModel(hf.ViTConfig(**VISION)), "image", ()),
    "DINOv2": Family(lambda: hf.Dinov2Model(hf.Dinov2Config(**VISION, mlp_ratio=2)), "image", ()),
    "CLIP": Family(_clip, "text and image"),
}  # fmt: skip

UNROUTED = {
    "DeBERTa-v2": lambda: hf.DebertaV2Model(hf.DebertaV2Config(**SIZE)),
    "BLOOM": lambda: hf.BloomModel(hf.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=99)),
    "MPT": lambda: hf.MptModel(hf.MptConfig(d_model=32, n_layers=2, n_heads=4, vocab_size=99)),
    "XLNet": lambda: hf.XLNetModel(hf.XLNetConfig(d_model=32, n_layer=2, n_head=4, d_inner=64, vocab_size=99)),
    "LED": lambda: hf.LEDModel(hf.LEDConfig(**BART, attention_window=4, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64)),
    "Longformer": lambda: hf.LongformerModel(hf.LongformerConfig(**SIZE, attention_window=4)),
    "GPT-J": lambda: hf.GPTJModel(hf.GPTJConfig(n_embd=32, n_layer=2, n_head=4, vocab_size=99, rotary_dim=4)),
}  # fmt: skip


def made(name: str) -> nn.Module:
    """A model of this family, always the same, its weights scaled up so that attention is far from uniform."""
    model, random_state = _built(name)
    torch.set_rng_state(random_state)  # so that what a test draws afterwards is always the same too
    return copy.deepcopy(model)


@functools.cache
def _built(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    hf.logging.set_verbosity_error()
    model = (FAMILIES[name].make if name in FAMILIES else UNROUTED[name])().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model, torch.get_rng_state()


class Layer(nn.Module):
    """The smallest module that counts as one of our layers."""

    def __init__(self, heads=2, kind="encoder"):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.project = nn.Linear(8 * heads, 3 * 8 * heads)
        self.attend = regard.attention

    def forward(self, x, mask=None):
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, 8)).movedim(-3, 0).transpose(-3, -2).unbind(0)
        return x + self.attend(q, k, v, mask=mask, dropout=0.0).transpose(-3, -2).flatten(-2)


class Layers(nn.Module):
    """Three of them."""

    def __init__(self, kind="encoder"):
        super().__init__()
        self.layers = nn.ModuleList(Layer(kind=kind) for _ in range(3))

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Direct(nn.Module):
    """Calls torch's function as nanoGPT does."""

    def __init__(self, heads=2, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, x, mask=None):
        query = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(query, query, query, mask, is_causal=self.causal)
        return mixed.transpose(1, 2).flatten(2)
