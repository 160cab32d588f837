"""What a served model looked at, against transformers' eager attention: run by `make test-vllm`, where vLLM is."""

import pytest

pytest.importorskip("vllm", reason="make test-vllm runs these")

import torch

from regard import serving
from regard.errors import WatchError

LONG = [(7 * n) % 190 + 5 for n in range(150)]  # three chunks of 64 tokens, five blocks of 32
SHORT = [(11 * n) % 180 + 9 for n in range(20)]


def agrees(served, output, record, start=0):
    """Every reduction of every layer equals that of the dense weights, of the rows from `start` on."""
    ids = served.text(output)
    for entry, dense in zip(record.values(), served.dense(ids), strict=True):
        weights = dense[:, :, start:]
        assert entry.shape == (1, 4, len(ids) - start, len(ids))
        assert entry.ids.tolist() == [ids[start:]]
        assert entry.key_ids.tolist() == [ids]
        assert torch.allclose(entry.received().double(), weights.sum(2), atol=2e-4)
        entropy = -(weights * weights.clamp_min(1e-300).log()).sum(-1)
        assert torch.allclose(entry.entropy().double(), entropy, atol=2e-4)
        top = entry.top(8)
        assert torch.allclose(top.weights.double(), weights.topk(8, -1).values, atol=2e-5)
        looked = weights.gather(-1, top.keys.clamp_min(0))
        assert torch.allclose(looked.where(top.keys >= 0, 0), top.weights.double(), atol=2e-5)
        if entry.keeps == ("matrix",):
            assert torch.allclose(entry.to_dense().double(), weights, atol=2e-5)
    assert entropy.std() > 0.1  # these weights are not all alike


@pytest.mark.parametrize("keep", [True, "matrix"])
@pytest.mark.parametrize("model", ["llama", "gemma"])
def test_the_record_of_a_request_is_what_eager_attention_says(model, keep, request):
    """Chunked prefill, grouped heads; of gemma, a window that is passed in the prompt, a cap and a scale."""
    served = request.getfixturevalue(model)
    (output,) = served.ask(LONG, keep=keep, skip_reading_prefix_cache=True)
    agrees(served, output, serving.record(served.llm, output.request_id))


@pytest.mark.parametrize("model", ["llama", "gemma"])
def test_each_generated_token_has_its_row(model, request):
    """More of them than are reduced at once, and more than the window is long, so that the server frees its blocks."""
    served = request.getfixturevalue(model)
    for keep in (True, "matrix"):
        (output,) = served.ask(SHORT, keep=keep, tokens=100, skip_reading_prefix_cache=True)
        agrees(served, output, serving.record(served.llm, output.request_id))


@pytest.mark.parametrize("model", ["llama", "gemma"])
def test_requests_of_one_batch_are_told_apart(model, request):
    served = request.getfixturevalue(model)
    prompts = [SHORT, LONG[:90], SHORT[::-1], LONG[5:40], LONG[::-1]]
    outputs = served.ask(*prompts, tokens=12, skip_reading_prefix_cache=True)
    for output in outputs:
        agrees(served, output, serving.record(served.llm, output.request_id))


@pytest.mark.parametrize("model", ["llama", "gemma"])
def test_rows_from_the_prefix_cache_are_not_invented(model, request):
    served = request.getfixturevalue(model)
    prompt = [n + 1 for n in LONG]
    first, second = (served.ask(prompt, keep="matrix")[0] for _ in range(2))
    assert second.num_cached_tokens >= 32
    agrees(served, first, serving.record(served.llm, first.request_id))
    record = serving.record(served.llm, second.request_id)
    agrees(served, second, record, start=second.num_cached_tokens)
    said = f"the rows of tokens 0 to {second.num_cached_tokens - 1}, which came from the prefix cache"
    assert record.unseen == (said,)
    assert said in repr(record)


def test_a_request_among_others_that_did_not_ask(llama):
    from vllm import SamplingParams

    wanted = [
        SamplingParams(
            max_tokens=8, temperature=0, ignore_eos=True, detokenize=False, skip_reading_prefix_cache=True,
            extra_args={"regard": True} if ask else None,
        )
        for ask in (False, True, False)
    ]  # fmt: skip
    prompts = [{"prompt_token_ids": ids} for ids in (LONG, SHORT, SHORT[::-1])]
    outputs = llama.llm.generate(prompts, wanted, use_tqdm=False)
    agrees(llama, outputs[1], serving.record(llama.llm, outputs[1].request_id))
    for other in (outputs[0], outputs[2]):
        with pytest.raises(WatchError, match=f"no record of request '{other.request_id}'"):
            serving.record(llama.llm, other.request_id)


def test_rows_while_a_request_runs(llama):
    """The engine is stepped by hand: after each step the record has the rows so far, and any exact row can be read."""
    from vllm import SamplingParams

    wanted = SamplingParams(
        max_tokens=5, temperature=0, ignore_eos=True, detokenize=False, extra_args={"regard": "matrix"},
        skip_reading_prefix_cache=True,
    )  # fmt: skip
    llama.llm.llm_engine.add_request("mine", {"prompt_token_ids": LONG}, wanted)
    rows, seen, output = [], None, None
    while llama.llm.llm_engine.has_unfinished_requests():
        finished = llama.llm.llm_engine.step()
        output = finished[-1] if finished else output
        seen = serving.record(llama.llm, "mine")["model.layers.1.self_attn.attn"]
        rows.append(seen.shape[2])
    assert rows == [64, 128, 150, 151, 152, 153, 154]
    dense = llama.dense(llama.text(output))[1]
    assert torch.allclose(seen[0, 2, 100].double(), dense[0, 2, 100], atol=2e-5)
    assert torch.allclose(seen[0, :, -1].double(), dense[0, :, -1], atol=2e-5)


def test_words_and_questions(llama):
    class Letters:
        all_special_tokens = ()

        def convert_ids_to_tokens(self, ids):
            return [f"▁w{n}" for n in ids]

        def convert_tokens_to_string(self, pieces):
            return "".join(piece.replace("▁", " ") for piece in pieces)

    (output,) = llama.ask(SHORT, keep="matrix", skip_reading_prefix_cache=True)
    record = serving.record(llama.llm, output.request_id, tokenizer=Letters())
    looks = record.looks(f"w{SHORT[12]}", layer=1, head=0)
    best = llama.dense(llama.text(output))[1][0, 0, 12].argmax()
    assert looks[0][0] == f"w{SHORT[best]}"
    assert record.check(4).difference < 1e-5
