"""A served model whose engine and two workers are processes of their own, the heads shared between these; run by a test."""

import os
import sys

from support.serving.served import SIZES, Served

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"


def main(folder):
    """Print how far the records are from eager attention, at most."""
    import transformers

    from regard import serving

    served = Served(folder, transformers.LlamaConfig(**SIZES), max_num_batched_tokens=64, tensor_parallel_size=2)
    for keep in (True, "matrix"):
        outputs = served.ask(range(5, 105), range(50, 80), keep=keep, skip_reading_prefix_cache=True)
        for output in outputs:
            record = serving.record(served.llm, output.request_id)
            for entry, dense in zip(record.values(), served.dense(served.text(output)), strict=True):
                assert list(entry.heads) == list(range(SIZES["num_attention_heads"]))
                assert entry.shape == tuple(dense.shape)
                print("differs by", float((entry.received() - dense.sum(2)).abs().max()))
                if keep == "matrix":
                    print("differs by", float((entry.to_dense() - dense).abs().max()))
            assert not record.unseen
    assert len(serving.requests_seen(served.llm)) == 4


if __name__ == "__main__":
    main(sys.argv[1])
