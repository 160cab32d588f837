"""What it costs to rank all heads of a long text by attribution patching: a Llama shape, random weights, no network.

python benchmarks/estimates.py            32 layers and 32,768 tokens on a GPU, a small model on a CPU
python benchmarks/estimates.py --report   and keep the tables in benchmarks/reports/

`regard.effects(…, estimate=True, check=0)`: another run, a run with its graph, a backward pass, and one more attention
of each layer for its queries and for its keys. Beside it, hooks on a model with eager attention, which keeps weights
for the backward pass. On a small model in float32 the estimates of both are compared.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from measure import GPU, arguments, attempt, eager, llama, rounds, run, table, ways
from torch import Tensor

import regard

TOKENS, WIDTH, LAYERS = (32_768, 4096, 32) if GPU else (1_024, 512, 4)
SMALL = 512  # tokens, where estimates are compared
PARTS = ("head", "query", "key")


def ids_of(model: Any, tokens: int, seed: int) -> Tensor:
    """Random tokens."""
    torch.manual_seed(seed)
    return torch.randint(0, 32_000, (1, tokens), device=model.device)


def plain(model: Any, ids: Tensor) -> Tensor:
    """The logits after the last token."""
    with torch.no_grad():
        return model(ids, use_cache=False, logits_to_keep=1).logits


def another(model: Any, tokens: int) -> regard.Record:
    """The record of another text. Its attention is computed again when it is needed."""
    with torch.no_grad(), regard.watch(model, keep=1) as record:
        model(ids_of(model, tokens, 1), use_cache=False, logits_to_keep=1)
    return record


def ranked(model: Any, ids: Tensor, by: Any = PARTS, instead: Any = None) -> Any:
    """All heads, ranked."""
    inputs = {"input_ids": ids, "use_cache": False}
    return regard.effects(model, inputs, by, answer=7, instead=instead, estimate=True, check=0)


# Hooks on eager attention


def by_hooks(model: Any, ids: Tensor, other: Tensor | None = None) -> Tensor:
    """The gradient of the answer by each head's output × its change: (layers, heads). `other`: its queries are used."""
    calls: list[dict[str, Tensor]] = []
    attention = "transformers.models.llama.modeling_llama"
    module = __import__(attention, fromlist=["eager_attention_forward"])
    original = module.eager_attention_forward

    def forward(layer: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
        output, weights = original(layer, query, key, value, mask, **options)
        if not output.requires_grad and torch.is_grad_enabled():
            output = output.detach().requires_grad_()
        if output.requires_grad:
            output.retain_grad()
        calls.append({"query": query, "key": key, "value": value, "mask": mask, "output": output, "layer": layer})
        return output, weights

    model.requires_grad_(False)
    module.eager_attention_forward = forward
    try:
        with eager(model):
            queries = []
            if other is not None:
                plain(model, other)
                queries, calls = [call["query"] for call in calls], []
            logits = model(ids, use_cache=False, logits_to_keep=1).logits
            logits[0, -1].float().log_softmax(-1)[7].backward()
        estimates = []
        for n, call in enumerate(calls):
            with torch.no_grad():
                output, after = call["output"], torch.zeros(())
                if other is not None:
                    scale = call["query"].shape[-1] ** -0.5
                    after, _ = original(
                        call["layer"], queries[n], call["key"], call["value"], call["mask"], scaling=scale
                    )
                estimates.append(((after.to(output) - output) * output.grad).sum((0, 1, 3)))
        return torch.stack(estimates)
    finally:
        module.eager_attention_forward = original


# The tables


def costs() -> list[str]:
    """The time and memory of each ranking."""
    model = llama(WIDTH, LAYERS, generates=True)
    ids, record = ids_of(model, TOKENS, 0), another(model, TOKENS)
    calls: dict[str, Callable[[], Any]] = {
        "plain forward (SDPA)": partial(plain, model, ids),
        "all heads, set to 0": partial(ranked, model, ids, "head"),
        "all heads, from another run": partial(ranked, model, ids, "head", record),
        "the same, and all queries and keys": partial(ranked, model, ids, PARTS, record),
        "the same, and all values": partial(ranked, model, ids, (*PARTS, "value"), record),
    }
    return ways(f"ranking ({TOKENS:,} tokens)", calls, 1)


def lengths() -> list[str]:
    """Ours and hooks on eager attention, for texts up to half as long."""
    model, rows, fits = llama(WIDTH, LAYERS, generates=True), [], True
    for tokens in [TOKENS >> n for n in (5, 4, 3, 2, 1)]:
        ids, record = ids_of(model, tokens, 0), another(model, tokens)
        times = rounds({"ours": partial(ranked, model, ids, PARTS, record)}, 1, warm=0)["ours"]
        cells = [f"{tokens:,}", times.ms(), f"{times.peak:,.2f} GiB" if GPU else ""]
        if fits:
            call = partial(by_hooks, model, ids, ids_of(model, tokens, 1))
            result = attempt(f"eager, {tokens} tokens", lambda call=call: rounds({"eager": call}, 1, warm=0)["eager"])
            fits = not isinstance(result, str)
            cells += (
                [result, ""] if isinstance(result, str) else [result.ms(), f"{result.peak:,.2f} GiB" if GPU else ""]
            )
        rows.append(cells)
    return table(["tokens", "heads, queries and keys", "peak above the model", "eager, queries only", "peak"], rows)


def equal() -> list[str]:
    """How far the estimates are from those of hooks on eager attention."""
    model = llama(512, 4, generates=True).float()
    for parameter in model.parameters():
        parameter.data.mul_(4 if parameter.dim() > 1 else 1)  # so that heads have preferences
    ids, other = ids_of(model, SMALL, 0), ids_of(model, SMALL, 1)
    with torch.no_grad(), regard.watch(model, keep=1) as record:
        model(other, use_cache=False, logits_to_keep=1)
    rows = []
    for by, instead, theirs in (("head", None, None), ("query", record, other)):
        expected = by_hooks(model, ids, theirs)
        ours = torch.zeros_like(expected)
        for each in ranked(model, ids, by, instead):
            ours[each.layer, each.head] = each.estimate
        rows.append([by, f"{float((ours - expected).abs().max()):.0e}", f"{float(expected.abs().max()):.2g}"])
    return table([f"estimate ({SMALL} tokens, width 512, float32)", "from hooks", "the largest"], rows)


def lens() -> list[str]:
    """How far effects and estimates are from TransformerLens's, on a GPT-2 with random weights in float64."""
    try:
        from transformer_lens.model_bridge import TransformerBridge
    except ImportError:
        return ["transformer-lens is not installed here."]
    import tokenizers
    import transformers

    config = transformers.GPT2Config(vocab_size=99, n_embd=64, n_layer=4, n_head=4, bos_token_id=1, eos_token_id=2)
    model = transformers.GPT2LMHeadModel(config).double().eval()
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * (0.15 if parameter.dim() > 1 else 0.1))
    words = tokenizers.models.WordLevel({f"w{n}": n for n in range(99)}, unk_token="w0")
    with tempfile.TemporaryDirectory() as folder:  # the bridge reads its tokenizer from a folder
        special = {"bos_token": "w1", "eos_token": "w2", "pad_token": "w3", "unk_token": "w0"}
        kind = transformers.PreTrainedTokenizerFast
        kind(tokenizer_object=tokenizers.Tokenizer(words), **special).save_pretrained(folder)
        tokenizer, theirs = kind.from_pretrained(folder), copy.deepcopy(model)
        bridge = TransformerBridge.boot_transformers("gpt2", hf_model=theirs, dtype=torch.float64, tokenizer=tokenizer)
    bridge.enable_compatibility_mode(no_processing=True)
    bridge = bridge.double().eval()
    ids, other = (torch.randint(5, 99, (1, 20)) for _ in range(2))
    _, cache = bridge.run_with_cache(other)
    with torch.no_grad(), regard.watch(model) as record:
        model(other)

    def answer(hooks: Any) -> Tensor:
        return bridge.run_with_hooks(ids, fwd_hooks=hooks)[0, -1].log_softmax(-1)[7]

    def effect(name: str, head: int) -> float:
        def put(x: Tensor, hook: Any) -> Tensor:
            axis = 1 if name.endswith("pattern") else 2
            return x.index_copy(axis, torch.tensor([head]), cache[name].narrow(axis, head, 1))

        with torch.no_grad():
            return float(answer([(name, put)]) - answer([]))

    rows = []
    for by, hook in (("head", "z"), ("query", "q"), ("key", "k"), ("value", "v"), ("pattern", "pattern")):
        ours = regard.effects(model, {"input_ids": ids}, by, answer=7, instead=record, estimate=True, check=16)
        pairs = [(each.true, effect(f"blocks.{each.layer}.attn.hook_{hook}", each.head)) for each in ours]
        largest = max(abs(theirs) for _, theirs in pairs)
        rows.append([f"effect of each {by}", f"{max(abs(a - b) for a, b in pairs):.0e}", f"{largest:.2g}"])
    outputs: dict[str, Tensor] = {}
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(4)]

    def keep(x: Tensor, hook: Any) -> Tensor:
        x.retain_grad()
        outputs[hook.name] = x
        return x

    answer([(name, keep) for name in names]).backward()
    slopes = [((cache[name] - outputs[name]) * outputs[name].grad).sum((0, 1, 3)) for name in names]
    ours = regard.effects(model, {"input_ids": ids}, answer=7, instead=record, estimate=True, check=0)
    wrong = max(abs(each.estimate - float(slopes[each.layer][each.head])) for each in ours)
    largest = float(torch.stack(slopes).abs().max())
    rows.append(["attribution patching of each head", f"{wrong:.0e}", f"{largest:.2g}"])
    return table([f"transformer-lens {version('transformer-lens')}, float64", "differs by", "the largest"], rows)


def main() -> None:
    options = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    how = f"{LAYERS} layers, width {WIDTH}, {'bf16' if GPU else 'float32'}, random weights."
    sections = {"Equal to hooks on eager attention": equal, "Time and memory": costs, "Shorter texts": lengths}
    sections |= {"TransformerLens": lens}
    run("All heads ranked by one gradient", how, sections, "watching backends scores", options)


if __name__ == "__main__":
    main()
