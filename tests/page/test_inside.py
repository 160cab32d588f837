"""Every number of one token: held to what the model itself computed, module by module."""

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from support.page_client import TEXT, read

import regard
from regard.errors import InputError
from regard.page import Page, TranslatorReader
from regard.page.inside import BOOK, kept_inputs, matrices, steps
from regard.page.readings import Reading
from regard.watching.questions.atlas import roles


def activations(model, *inputs, **watched):
    """What every module of a model gives on some inputs, and what it gets; and the record of the same pass."""
    given, got, undo = {}, {}, []
    for name, module in model.named_modules():

        def note(_, args, output, name=name):
            got[name] = args[0].clone() if args and isinstance(args[0], torch.Tensor) else None
            given[name] = output.clone() if isinstance(output, torch.Tensor) else output

        undo.append(module.register_forward_hook(note))
    with torch.no_grad(), regard.watch(model, **watched) as record:
        model(*inputs)
    for handle in undo:
        handle.remove()
    return given, got, record


CONFIGS = {
    "post-norm": {},
    "pre-norm": {"norm_first": True},
    "grouped, gelu": {"key_heads": 2, "activation": "gelu"},
    "no bias, silu": {"bias": False, "activation": "silu"},
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    "off", [{}, {"encoder.layers.1.attention": [1], "decoder.layers.1.attention": [0, 2]}], ids=["all", "off"]
)
def test_every_number_is_the_models(config, off):
    torch.manual_seed(1)
    model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50, **CONFIGS[config])).eval()
    for parameter in model.parameters():  # biases and norms that do something
        parameter.data += 0.05 * torch.randn_like(parameter)
    source, target = torch.tensor([[5, 6, 7, 8, 0]]), torch.tensor([[49, 9, 4, 3]])
    given, got, record = activations(model, source, target, without=off)
    with torch.no_grad(), kept_inputs(model, off) as inside, regard.watch(model, without=off):
        model(source, target)
    entries = list(record.values())
    width = model.config.width // model.config.heads
    for entry in entries:
        names = [str(n) for n in range(entry.shape[2])], [str(n) for n in range(entry.shape[3])]
        layer, stack = entry.name.rpartition(".")[0], entry.kind if entry.kind == "encoder" else "decoder"
        for token in (1, entry.shape[2] - 1):
            for head in (0, 2):
                found = steps(entry, head, token, 0, names, inside, entries)

                def same(name, real, found=found, entry=entry, token=token):
                    assert found[name] == pytest.approx(real.numpy(), rel=1e-4, abs=2e-5), (
                        f"{name} of {entry.name}, token {token}"
                    )

                ff = f"{layer}.feed_forward"
                norm = f"{entry.name}_norm"
                mine = slice(head * width, (head + 1) * width)
                same(
                    "x",
                    got[f"{entry.name}.projection"][0, token] if entry.kind != "cross" else got[entry.name][0, token],
                )
                same("q", entry.call.query[0, head, token])
                same("joined", got[f"{entry.name}.output"][0, token])
                same("output", got[f"{entry.name}.output"][0, token, mine])
                same("projected", given[f"{entry.name}.output"][0, token])
                after = {"encoder": "feed_forward", "decoder": "cross", "cross": "feed_forward"}[entry.kind]
                same("normed", got[f"{layer}.{after}"][0, token])
                post = not model.config.norm_first
                following = f"{layer}.{after}_norm"
                same("residual", got[norm if post else following][0, token])
                if entry.kind == "decoder":
                    assert found["hidden"] is found["fed"] is None
                    assert "cross" in found["missing"]
                    same("next", got[f"{layer}.cross"][0, token])
                else:
                    same("hidden", got[f"{ff}.down"][0, token])
                    same("fed", given[f"{ff}.down"][0, token])
                    same("next", given[layer][0, token])
                    assert found["missing"] == ""
                assert np.array_equal(np.float32(found["weights"]), entry.matrix[0, head, token].numpy())
                assert np.array_equal(np.float32(found["scores"]), entry.matrix.scores[0, head, token].numpy())
                assert np.array_equal(np.float32(found["scaled"]), entry.matrix.scaled[0, head, token].numpy())
                assert np.float32(found["scores"]) * np.float32(found["scale"]) == pytest.approx(
                    np.float32(found["scaled"])
                )
                assert np.float32(found["q"]) @ np.float32(found["k"]).T == pytest.approx(found["scores"], abs=1e-4)
                assert found["visible"] == [entry.kind != "decoder" or n <= token for n in range(entry.shape[3])]
                if head not in off.get(entry.name, ()):
                    assert np.float32(found["weights"]) @ np.float32(found["v"]) == pytest.approx(
                        found["output"], abs=1e-5
                    )
                if entry.layer == 0 and entry.kind != "cross":
                    vector, scale, position = (
                        np.float32(found["embedding"][k]) for k in ("vector", "scale", "position")
                    )
                    real = got[f"{stack}"][0, token]
                    assert vector * scale + position == pytest.approx(real.numpy(), abs=1e-5)
                else:
                    assert found["embedding"] is None


@pytest.mark.parametrize("config", CONFIGS)
def test_the_matrices_follow_from_one_another(config):
    torch.manual_seed(2)
    model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50, **CONFIGS[config])).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    source, target = torch.tensor([[5, 6, 7, 8, 0]]), torch.tensor([[49, 9, 4]])
    with torch.no_grad(), kept_inputs(model, {}) as inside, regard.watch(model) as record:
        model(source, target)
    entries = list(record.values())
    for entry in entries:
        names = [str(n) for n in range(entry.shape[2])], [str(n) for n in range(entry.shape[3])]
        for head in (0, 3):
            found = {
                name: np.array(value, float) for name, value in matrices(entry, head, names, inside, entries).items()
            }
            from_keys = found["memory" if entry.kind == "cross" else "x"]
            for name, inputs in (("q", found["x"]), ("k", from_keys), ("v", from_keys)):
                projected = inputs @ found[f"w_{name}"] + found.get(f"b_{name}", 0)
                assert projected == pytest.approx(found[name], abs=2e-5), f"{name} of {entry.name}, head {head}"
            assert (("b_q" in found), model.config.bias) in ((True, True), (False, False))
            assert found["q"] @ found["k"].T == pytest.approx(found["scores"], abs=2e-5)
            scaled = np.where(found["visible"], found["scores"] * found["scale"], -np.inf)
            shares = np.exp(scaled) / np.exp(scaled).sum(1, keepdims=True)
            assert shares == pytest.approx(found["weights"], abs=2e-6)
            assert found["weights"] @ found["v"] == pytest.approx(found["output"], abs=2e-5)
            steps_of = steps(entry, head, 2, 0, names, inside, entries)
            assert ("b_Q" in steps_of["formulas"]["q"]) == model.config.bias
    with torch.no_grad(), regard.watch(model) as record:
        model(torch.arange(1, 50)[None], target)
    with pytest.raises(InputError, match="at most 48 tokens"):
        matrices(record["encoder.layers.0.attention"], 0, ([""] * 49, [""] * 49), None, [])


def test_the_matrices_of_the_textbook(client, reading):
    found = client.get("/api/matrices", params={"reading": reading["id"], "book": "I am good"}).json()
    done = regard.steps(*regard.textbook.i_am_good())
    assert found["rows"] == ["I", "am", "good"]
    for name, real in {"x": done.x, "w_k": done.w_k, "q": done.queries, "scores": done.scores}.items():
        assert np.array(found[name]) == pytest.approx(real, rel=1e-6), name
    assert np.round(found["weights"][0], 4).tolist() == [0.9, 0.07, 0.03]
    refused = client.get("/api/matrices", params={"reading": reading["id"], "book": "I am bad"})
    assert refused.status_code == 400
    assert "I am good, I am hungry" in refused.json()["error"]
    assert all(regard.textbook.known(sentence) for sentence in BOOK)


def test_over_http(client, reading, tiny_translator):
    translation = tiny_translator.translate(TEXT)
    ids = torch.tensor([[*tiny_translator.words.encode(TEXT), tiny_translator.words.end]])
    target = torch.tensor([[tiny_translator.model.config.start, *tiny_translator.words.encode(translation.text)]])
    given, _, record = activations(tiny_translator.model, ids, target)
    for n, name in enumerate(record):
        if name.endswith("cross") or name.startswith("encoder"):
            ask = {"reading": reading["id"], "entry": n, "head": 1, "token": 3}
            found = client.get("/api/steps", params=ask).json()
            assert found["next"] == pytest.approx(given[name.rpartition(".")[0]][0, 3].numpy(), abs=1e-4)
            assert set(found["formulas"]) >= {"q", "k", "v", "scores", "weights", "output", "joined", "next"}


def test_the_steps_of_a_changed_model(tiny_translator):
    """A hidden token and a head that is off are so in every number."""
    page = Page(TranslatorReader(tiny_translator, "small"))
    with TestClient(page.app(), base_url="http://127.0.0.1") as client:
        reading = read(client, text=TEXT, hide=[2], off=[[0, 1]])
        found = client.get("/api/steps", params={"reading": reading["id"], "entry": 0, "head": 1, "token": 0}).json()
    page.close()
    width = len(found["q"])
    assert found["visible"][2] is False
    assert found["weights"][2] == 0
    assert found["output"] == [0.0] * width
    assert found["joined"][width : 2 * width] == [0.0] * width
    assert any(found["joined"][:width])


def test_of_another_model_there_is_what_its_record_holds():
    torch.manual_seed(0)

    class Layer(torch.nn.Module):
        heads, kind, attend = 2, "encoder", staticmethod(regard.attention)

        def forward(self, x):
            return self.attend(x, x, x)

    with regard.watch(Layer()) as record:
        record.model(torch.randn(1, 2, 700, 8))
    entries = list(record.values())
    found = Reading(entries, text="", roles=roles(entries)).steps(0, 1, 5)
    weights = entries[0].matrix[0, 1, 5]
    assert found["columns"] == sorted(weights.topk(256).indices.tolist())
    assert found["left_out"] == 700 - 256
    assert found["weights"] == pytest.approx(weights[found["columns"]].numpy())
    assert len(found["k"]) == len(found["names"]) == 256
    assert found["x"] is found["v"] is found["next"] is None
    assert "queries and keys" in found["missing"]


def test_a_soft_cap_is_shown():
    class Layer(torch.nn.Module):
        heads, kind, attend = 1, "encoder", staticmethod(regard.attention)

        def forward(self, x):
            return self.attend(x, x, x, softcap=2.0)

    with regard.watch(Layer()) as record:
        record.model(5 * torch.randn(1, 1, 6, 8))
    entries = list(record.values())
    found = Reading(entries, text="", roles=roles(entries)).steps(0, 0, 0)
    assert found["softcap"] == 2.0
    assert found["capped"] == pytest.approx(2 * np.tanh(np.float32(found["scaled"]) / 2), abs=1e-6)


def test_inputs_are_kept_only_while_asked(tiny_translator):
    model = tiny_translator.model
    with kept_inputs(model, {}) as inside:
        pass
    assert (inside.encoder, inside.decoder, inside.memory) == ([], [], [])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
