"""The wheel, installed outside the repository, does the main job with what it carries."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
TRY = """
import sys, regard
assert regard.__file__.startswith(sys.argv[1]), regard.__file__
translation = regard.Translator.default().translate("I am hungry.")
print(translation.text, translation.picture().save("it.html"))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_it_translates_and_draws_outside_the_repository(wheel, tmp_path):
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(installed)
        names = file.namelist()
    assert f"regard-{regard.__version__}.dist-info/METADATA" in names
    assert {"regard/py.typed", "regard/translation/model/README.md"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", TRY, str(installed)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("J'ai faim.")
    assert (tmp_path / "it.html").stat().st_size > 1000
