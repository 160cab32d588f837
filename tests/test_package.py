"""The rooms and their direction, and that what is exposed is what `__all__` says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
# In the order data flows; a room imports only from rooms above it. Within a room, files may know each other.
ROOMS = [
    "errors", "arguments", "eager", "exact", "shapes", "memory", "drawing", "masks", "bound_mask", "scores", "backends", "indexing",
    "views", "sight", "operand", "matrix", "inline", "compiled", "attention", "steps", "textbook", "layers", "stacks",
    "exchange", "config", "folder", "loss", "marian", "transformer", "turned", "encoding", "decoding", "watch", "translation", "quiz",
    "commands", "cli",
]  # fmt: skip
FRAMES = ["__init__", "__main__"]


def _room(path: Path) -> str:
    inside = path.relative_to(ROOT)
    return inside.parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    """The rooms that a file imports when it runs (what only the type checker sees does not count)."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "regard":
            names = [node.module] if node.module != "regard" else [f"regard.{alias.name}" for alias in node.names]
            found |= {name.split(".")[1] for name in names} - {"__version__"}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("regard.")}
    return found


def test_every_file_belongs_to_a_room():
    rooms = {_room(path) for path in ROOT.rglob("*.py")}
    assert rooms - set(FRAMES) == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_above_it(room):
    above = set(ROOMS[: ROOMS.index(room) + 1])
    for path in ROOT.rglob("*.py"):
        if _room(path) == room:
            assert _imports(path) <= above, f"{path.relative_to(ROOT)} reaches down"


def test_what_is_exposed_is_all():
    assert sorted(regard.__all__) == list(regard.__all__)
    for name in regard.__all__:
        assert getattr(regard, name).__doc__, f"{name} has no docstring"
    code = "import regard, types; print(*sorted(n for n in vars(regard) if not n.startswith('_')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    modules = {_room(path) for path in ROOT.rglob("*.py")}
    assert set(shown) - modules == set(regard.__all__) - modules
    assert {"attention", "steps"} <= set(shown)  # functions, though files bear their names
    assert "textbook" in shown  # the README sends people there
    assert callable(regard.attention)
    assert callable(regard.steps)


def test_importing_regard_brings_nothing_heavy():
    heavy = [
        "rich.console",
        "vl_convert",
        "altair",
        "transformers",
        "sentencepiece",
        "onnx",
        "jaxtyping",
        "scipy",
        "matplotlib",
    ]
    code = f"import sys, torch; before = set(sys.modules); import regard; print(*((set(sys.modules) - before) & set({heavy})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"jaxtyping"}  # there only where the tests' tools are installed


def test_the_version_is_said_once():
    text = (ROOT.parents[1] / "pyproject.toml").read_text()
    assert f'version = "{regard.__version__}"' in text


def test_files_stay_small():
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 500, f"{path.name} holds more than one noun"
