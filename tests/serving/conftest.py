"""Two models that vLLM serves, for all tests of this folder."""

import pytest


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """Grouped heads; chunks of 64 tokens, blocks of 32, prefix caching."""
    pytest.importorskip("vllm")
    import transformers
    from support.serving.served import SIZES, Served

    return Served(
        tmp_path_factory.mktemp("llama"), transformers.LlamaConfig(**SIZES), max_num_batched_tokens=64, max_num_seqs=8
    )


@pytest.fixture(scope="session")
def gemma(tmp_path_factory):
    """A layer with a sliding window and one without, a cap on the scores, and a scale of its own."""
    pytest.importorskip("vllm")
    import transformers
    from support.serving.served import SIZES, WINDOW, Served

    config = transformers.Gemma2Config(
        **SIZES, sliding_window=WINDOW, attn_logit_softcapping=5.0, query_pre_attn_scalar=20
    )
    return Served(tmp_path_factory.mktemp("gemma"), config, max_num_batched_tokens=64, max_num_seqs=8)
