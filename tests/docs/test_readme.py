"""What the README, the tour and the benchmarks page show is what happens."""

import re
from pathlib import Path

import pytest

from regard.cli import demo
from regard.translation.translator import SHIPPED

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = {"README.md": README, "docs/tour.md": (ROOT / "docs" / "tour.md").read_text()}
BLOCKS = {
    f"{name}, block {number}": block
    for name, text in PAGES.items()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
}


def test_it_is_short():
    assert len(README.encode()) <= 9500


def test_whoever_follows_it_has_the_command():
    """After `make demo`, `regard` was not found: nothing said that the environment has to be activated."""
    blocks = re.findall(r"```console\n(.*?)```", README.split("## Install")[1], flags=re.DOTALL)
    assert [". .venv/bin/activate" in way for way in blocks[:2]] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_its_code_runs(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[name], name, "exec"), {})
    printed = capsys.readouterr().out
    for call, shown in (("print(regard.steps", 'z("dog") = '), ("print(model)", "2 × encoder layer")):
        assert shown in printed or call not in BLOCKS[name]
    said = re.search(r"print\(.*  # (.*?) *…", BLOCKS[name])
    assert said is None or said[1] in printed


TIME = re.compile(r"\d+\.\d\d s, \d+ cores?$")  # how long it took, where it ran


def test_its_first_screen_is_what_the_demo_prints(shipped):
    shown = README.split("```console\n")[1].split("```")[0]
    printed = [TIME.sub("TIME", line) for line in demo.lines(shipped)]
    lines = [line.rstrip() for line in shown.splitlines() if line.strip() and not line.startswith(("$", "…"))]
    assert len(lines) == 13
    assert sum(bool(TIME.search(line)) for line in lines) == 1
    lines = [TIME.sub("TIME", line) for line in lines]
    assert [line for line in lines if line not in printed] == []
    assert [line for line in printed if line in lines] == lines  # in the order of the demo


LINKING = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/index.md",
    "docs/tour.md",
    "docs/benchmarks.md",
    "docs/design.md",
]


@pytest.mark.parametrize("name", LINKING)
def test_its_links_lead_somewhere(name):
    path = ROOT / name
    for target, anchor in re.findall(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)", path.read_text()):
        if target.startswith("http"):
            continue
        file = path.parent / target
        assert file.exists(), f"{name}: {target}"
        headings = re.findall(r"^#+ (.+)$", file.read_text(), flags=re.MULTILINE) if anchor else []
        assert not anchor or anchor in [heading.lower().replace(" ", "-") for heading in headings], f"{name}: {anchor}"
        if file.parent.name == "reports":
            assert file.name == _newest(file.stem[11:]).name, f"{name}: there is a newer report than {target}"


def _newest(report):
    return max((ROOT / "benchmarks" / "reports").glob(f"2???-??-??-{report}.md"))


@pytest.mark.parametrize(
    ("name", "mark", "report", "least"),
    [
        ("README.md", "figures", "attention-cpu", 5),
        ("README.md", "sight", "sight-gpu", 6),
        ("README.md", "wild", "wild-gpu", 4),
        ("docs/benchmarks.md", "figures", "attention-cpu", 6),
        ("docs/benchmarks.md", "pictures", "pictures", 4),
        ("docs/benchmarks.md", "watched", "watch-gpu", 5),
        ("docs/benchmarks.md", "sight", "sight-gpu", 6),
        ("docs/benchmarks.md", "million", "sight-gpu", 6),
        ("docs/benchmarks.md", "wild", "wild-gpu", 9),
        ("docs/benchmarks.md", "wild-cpu", "wild-cpu", 9),
        ("docs/benchmarks.md", "short-cpu", "wild-cpu", 6),
        ("docs/benchmarks.md", "quality", "translation-quality", 5),
    ],
)
def test_its_figures_are_those_of_the_newest_report(name, mark, report, least):
    figures = (ROOT / name).read_text().split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    lines = [line for line in figures.splitlines() if line.strip()]
    assert len(lines) >= least
    text = _newest(report).read_text()
    assert all(line in text for line in lines)


def test_the_card_s_figures_are_those_of_the_newest_report():
    newest = _newest("translation-quality").read_text()
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    lines = [
        line for line in card.split("<!-- quality -->")[1].split("<!-- /quality -->")[0].splitlines() if line.strip()
    ]
    assert len(lines) >= 8
    assert [line for line in lines if line not in newest] == []
