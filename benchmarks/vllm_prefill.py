"""What a request costs that asks a model served by vLLM what it looked at: prefill, and each token of an answer.

python benchmarks/vllm_prefill.py            print the table (in the environment of `make test-vllm`)
python benchmarks/vllm_prefill.py --report   and keep it in benchmarks/reports/

A Llama with random weights (8 layers, 8 query heads, 2 key heads of width 64, float32) served on one core, prompts in
chunks of 2,048 tokens, without prefix caching. Each row is a process of its own: without the plugin; with it, for
requests that do not ask; that ask for the summaries; that ask for the matrix. Prefill is a request for one token; a
token of an answer, the difference to a request for 257, by 256. Times are those that the core spent on it, the least of
several rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import arguments, finish, machine

LENGTHS = (2048, 4096)
ROUNDS, ANSWER = 3, 256  # after so many tokens, their rows are reduced
CASES = {
    "without the plugin": ("", None),
    "with it, not asked": ("regard", None),
    'asked for the summaries, `{"regard": True}`': ("regard", True),
    'asked for the matrix, `{"regard": "matrix"}`': ("regard", "matrix"),
}


def worker(folder: str, wanted: Any) -> list[tuple[float, float]]:
    """Seconds of a prompt and of a token after it, for each length."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=folder, skip_tokenizer_init=True, enforce_eager=True, dtype="float32",
        max_model_len=max(LENGTHS) + ANSWER + 8, max_num_batched_tokens=2048, enable_prefix_caching=False,
        disable_log_stats=True,
    )  # fmt: skip

    def seconds(length: int, tokens: int) -> float:
        asks = None if wanted is None else {"regard": wanted}
        parameters = SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False, extra_args=asks)
        start = time.process_time()
        llm.generate([{"prompt_token_ids": [n % 900 + 5 for n in range(length)]}], parameters, use_tqdm=False)
        return time.process_time() - start

    found = []
    for length in LENGTHS:
        seconds(length, 2)
        prompt = min(seconds(length, 1) for _ in range(ROUNDS))
        found.append((prompt, (min(seconds(length, ANSWER + 1) for _ in range(ROUNDS)) - prompt) / ANSWER))
    return found


def measured() -> dict[str, list[tuple[float, float]]]:
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        config = transformers.LlamaConfig(
            vocab_size=1000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
            num_key_value_heads=2, max_position_embeddings=16_384,
        )  # fmt: skip
        transformers.LlamaForCausalLM(config).save_pretrained(f"{folder}/model")
        found = {}
        for name, (plugins, wanted) in CASES.items():
            environment = {
                "VLLM_PLUGINS": plugins,
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_CPU_KVCACHE_SPACE": "1",
            }
            environment |= {
                "VLLM_LOGGING_LEVEL": "ERROR",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": "1",
            }
            command = [sys.executable, __file__, "--worker", f"{folder}/model", json.dumps(wanted), f"{folder}/times"]
            subprocess.run(command, check=True, env=os.environ | environment, stdout=subprocess.DEVNULL)
            found[name] = json.loads(Path(f"{folder}/times").read_text())
    return found


def report(found: dict[str, list[tuple[float, float]]], load: str) -> str:
    about = (__doc__ or "").split("\n\n")[-1].strip()
    text = f"# Served by vLLM, and asked\n\n{machine()}, {vllm()}{load}. {about}\n"
    for number, length in enumerate(LENGTHS):
        heads = ("", "prefill", "a token after it")
        lines = [f"\n## {length:,} tokens\n", "| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
        plain = found["without the plugin"][number]
        for name, times in found.items():
            shares = [f"{mine / other:.2f} ×" for mine, other in zip(times[number], plain, strict=True)]
            numbers = [f"{s:.2f} s" if s > 1 else f"{1000 * s:.1f} ms" for s in times[number]]
            cells = [f"{a} ({b})" for a, b in zip(numbers, shares, strict=True)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        text += "\n".join(lines) + "\n"
    return text


def vllm() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    raise SystemExit("vLLM is not installed here: `make test-vllm` sets it up, .venv-vllm/bin/python runs this.")


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = arguments(__doc__)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        folder, wanted, output = options.worker
        Path(output).write_text(json.dumps(worker(folder, json.loads(wanted))))
        return
    vllm()
    before = os.getloadavg()[0]
    text = report(measured(), f"; load average before {before:.1f}, after {os.getloadavg()[0]:.1f}")
    finish(options, "vllm-prefill", text)


if __name__ == "__main__":
    main()
