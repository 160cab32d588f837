"""Small random models, served by vLLM in this process, and what transformers' eager attention says of the same text."""

import os
from typing import ClassVar

os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR"}
WINDOW = 24
SIZES = {
    "vocab_size": 200,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "head_dim": 32,
}


class Served:
    """A model, and the server of it."""

    alive: ClassVar[list] = []  # a server that is thrown away takes with it what all of them share

    def __init__(self, folder, config, **options):
        import torch
        import transformers
        from vllm import LLM

        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():  # random weights look at everything alike; these do not
                if "q_proj" in name or "k_proj" in name:
                    weight.mul_(8)
        model.save_pretrained(folder)
        self.eager = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        common = {"dtype": "float32", "enforce_eager": True, "max_model_len": 512, "block_size": 32}
        options = {"num_gpu_blocks_override": 80} | common | options
        self.llm = LLM(model=str(folder), skip_tokenizer_init=True, disable_log_stats=True, **options)
        self.alive.append(self)

    def ask(self, *prompts, keep=True, tokens=6, **parameters):
        """What the server writes after each prompt; with `keep=None`, without asking."""
        from vllm import SamplingParams

        extra = None if keep is None else {"regard": keep}
        wanted = SamplingParams(
            max_tokens=tokens, temperature=0, detokenize=False, ignore_eos=True, extra_args=extra, **parameters
        )
        return self.llm.generate([{"prompt_token_ids": list(prompt)} for prompt in prompts], wanted, use_tqdm=False)

    def text(self, output):
        """The tokens that have rows: all but the last."""
        return [*output.prompt_token_ids, *output.outputs[0].token_ids[:-1]]

    def dense(self, ids):
        """Every weight of each layer, by transformers, in float64."""
        import torch

        with torch.no_grad():
            return self.eager.double()(torch.tensor([ids]), output_attentions=True).attentions
