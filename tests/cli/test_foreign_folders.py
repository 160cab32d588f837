"""Folders that others made: their code does not run, and whatever is wrong with them is one line."""

import io
import json

import pytest
from support.disk import limited

import regard
from regard import cli

CODE = """
from pathlib import Path
from transformers import PretrainedConfig
Path({marker!r}).touch()
class EvilConfig(PretrainedConfig):
    model_type = "evil"
"""


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A folder with code of its own, and the file that exists once it has run."""
    marker, folder = tmp_path / "it_ran", tmp_path / "model"
    folder.mkdir()
    (folder / "evil.py").write_text(CODE.format(marker=str(marker)))
    (folder / "config.json").write_text(
        json.dumps({"model_type": "evil", "auto_map": {"AutoConfig": "evil.EvilConfig"}})
    )
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\ny\n"))  # the answer that lets it run, if asked
    return folder, marker


@pytest.mark.slow  # it imports transformers
def test_code_in_a_folder_runs_only_if_it_is_trusted(evil, capsys):
    folder, marker = evil
    assert cli.main(["see", "Hello", "--model", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "--trust-remote-code" in error
    assert error.count("\n") == 1
    assert not marker.exists()
    assert cli.main(["see", "Hello", "--model", str(folder), "--trust-remote-code"]) == 2  # it has no weights
    assert marker.exists()


@pytest.mark.parametrize(
    "config",
    ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, '{"positions": 1e999}', "null", "[]", "\ufeff{}", '{"format": []}'],
    ids=lambda text: text[:12],
)
@pytest.mark.parametrize("command", ["translate", "see"])
def test_a_config_that_is_none_is_one_line(command, config, tmp_path, capsys):
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    assert cli.main([command, "Hello", "--model", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert str(tmp_path) in error
    assert error.count("\n") == 1


def test_json_without_end_is_refused_by_its_size(tmp_path, capsys):
    with open(tmp_path / "config.json", "wb") as file:
        file.truncate(2**28)  # a hole, which takes no space
    assert cli.main(["translate", "Hello", "--model", str(tmp_path)]) == 2
    assert "larger than 134,217,728 bytes" in capsys.readouterr().err


def test_a_model_that_cannot_be_written_is_named(tiny_translator, tmp_path):
    (tmp_path / "file").touch()
    for save in (tiny_translator.save, tiny_translator.to_marian):
        with pytest.raises(regard.FileError, match="file cannot be made"):
            save(tmp_path / "file")
    tiny_translator.save(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    with limited(1000), pytest.raises(regard.FileError, match=r"model\.safetensors cannot be written"):
        tiny_translator.save(tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
