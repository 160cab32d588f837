"""The rooms and their direction, and that what is exposed is what `__all__` says."""

import ast
import importlib
import importlib.metadata
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
# In the order data flows; a room imports only from rooms above it. Within a room, files may know each other.
ROOMS = [
    "errors", "io", "support", "drawing", "scores", "backends", "matrix", "maps", "learn", "nn", "watching", "serving", "distributed",
    "translation", "page", "cli",
]  # fmt: skip
FRAMES = ["__init__", "__main__", "_interrupts"]


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
            found |= {name.split(".")[1] for name in names} - {"__version__", "_interrupts"}
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


@pytest.mark.slow
def test_what_is_exposed_is_all():
    assert sorted(regard.__all__) == list(regard.__all__)
    for name in regard.__all__:
        assert getattr(regard, name).__doc__, f"{name} has no docstring"
    code = "import regard; [getattr(regard, n) for n in dir(regard)]; print(*(n for n in dir(regard) if n[0] != '_'))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    modules = {_room(path) for path in ROOT.rglob("*.py")} | {"TYPE_CHECKING", "Any", "import_module"}
    assert set(shown) - modules - {"textbook"} == set(regard.__all__)  # the README sends people to regard.textbook
    assert {"attention", "steps", "watch", "textbook", "backends", "drawing"} <= set(shown)


def test_a_name_is_what_a_type_checker_takes_it_for():
    """`import regard` imports a name when it is first used, and the type checker reads a list of imports."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    imports = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("regard.")
    ]
    listed = {alias.name: importlib.import_module(node.module) for node in imports for alias in node.names}
    assert set(listed) == {*regard.__all__, "textbook"}
    for name, room in listed.items():
        assert getattr(regard, name) is getattr(room, name)
    with pytest.raises(AttributeError, match="'regard' has no attribute 'nonsense'"):
        regard.nonsense  # noqa: B018


def _packages() -> list[Path]:
    return [path.parent for path in ROOT.rglob("__init__.py")]


@pytest.mark.parametrize("folder", _packages(), ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_nothing_is_both_a_module_and_something_else(folder):
    """`regard.watch` was: then nothing in that module can be reached."""
    name = ".".join(folder.relative_to(ROOT.parent).parts)
    package = importlib.import_module(name)
    below = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    for child in below - {"__init__", "__main__"}:
        assert isinstance(getattr(package, child, package), types.ModuleType), f"{name}.{child} is a module and more"


@pytest.mark.parametrize("room", [room for room in ROOMS if (ROOT / room).is_dir()])
def test_a_room_says_what_it_exports(room):
    package = importlib.import_module(f"regard.{room}")
    assert package.__doc__
    assert sorted(set(package.__all__)) == sorted(package.__all__)
    for name in package.__all__:
        assert hasattr(package, name), f"regard.{room} has no {name}"


@pytest.mark.slow
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
    code = f"import sys, torch; before = set(sys.modules); from regard import *; print(*((set(sys.modules) - before) & set({heavy})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"jaxtyping"}  # there only where the tests' tools are installed


def test_the_version_is_said_once():
    """In the package; its metadata is read from there."""
    assert 'dynamic = ["version"]' in (ROOT.parents[1] / "pyproject.toml").read_text()
    assert importlib.metadata.version("regard") == regard.__version__


# What the package measures today. `test_the_size_stays` allows 3 % more: whoever adds, deletes first, or argues for a
# higher number in the changelog. Whoever deletes lowers the number to the one that the test prints.
SIZES = {
    "files of Python": 146,
    "lines of Python": 40_337,
    "lines of Python in the largest room": 12_092,
    "lines of JavaScript and CSS": 6_667,
    "bytes of the README": 6_984,
}


def _lines(*suffixes: str) -> Counter[str]:
    """Lines of the files with these suffixes, by room."""
    lines: Counter[str] = Counter()
    for path in ROOT.rglob("*"):
        if path.suffix in suffixes:
            lines[_room(path)] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def test_the_size_stays():
    python = _lines(".py")
    sizes = {
        "files of Python": len(list(ROOT.rglob("*.py"))),
        "lines of Python": python.total(),
        "lines of Python in the largest room": max(python.values()),
        "lines of JavaScript and CSS": _lines(".js", ".css").total(),
        "bytes of the README": (ROOT.parents[1] / "README.md").stat().st_size,
    }
    print(sizes)
    assert sizes.keys() == SIZES.keys()
    larger = [
        f"{name}: {sizes[name]:,} instead of {SIZES[name]:,}" for name in SIZES if sizes[name] > 1.03 * SIZES[name]
    ]
    assert not larger, f"larger than the cap allows, {', '.join(larger)}: delete first"
