"""What the README shows is what happens."""

import re
from pathlib import Path

import pytest

from regard.cli import demo
from regard.translation.translator import SHIPPED

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_its_code_runs(number, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})
    printed = capsys.readouterr().out
    for call, shown in (("print(regard.steps", 'z("dog") = '), ("print(model)", "2 × encoder layer")):
        assert shown in printed or call not in BLOCKS[number]
    said = re.search(r"print\(.*  # (.*?) *…", BLOCKS[number])
    assert said is None or said[1] in printed


TIME = re.compile(r"\d+\.\d\d s, \d+ cores?$")  # how long it took, where it ran


def test_its_first_screen_is_what_the_demo_prints(shipped):
    shown = README.split("```console\n")[1].split("```")[0]
    printed = [TIME.sub("TIME", line) for line in demo.lines(shipped)]
    lines = [line.rstrip() for line in shown.splitlines() if line.strip() and not line.startswith(("$", "…"))]
    assert len(lines) == 11
    assert sum(bool(TIME.search(line)) for line in lines) == 1
    lines = [TIME.sub("TIME", line) for line in lines]
    assert [line for line in lines if line not in printed] == []
    assert [line for line in printed if line in lines] == lines  # in the order of the demo


def test_its_links_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text()
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("http") or (ROOT / target).exists(), f"{name}: {target}"


def test_it_lists_every_file_of_the_library():
    files = {str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.py") if not p.name.startswith("__")}
    listed = set(re.findall(r"\]\((src/regard/[^)]+\.py)\)", README.split("## The library in")[1]))
    assert listed == files
    assert f"## The library in {len(files)} files" in README


@pytest.mark.parametrize(
    ("mark", "report", "least"),
    [
        ("figures", "attention-cpu", 6),
        ("pictures", "pictures", 4),
        ("watched", "watch-gpu", 5),
        ("sight", "sight-gpu", 6),
        ("million", "sight-gpu", 6),
        ("quality", "translation-quality", 5),
    ],
)
def test_its_figures_are_those_of_the_newest_report(mark, report, least):
    newest = max((ROOT / "benchmarks" / "reports").glob(f"*-{report}.md"))
    figures = README.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    lines = [line for line in figures.splitlines() if line.strip()]
    assert len(lines) >= least
    report = newest.read_text()
    assert all(line in report for line in lines)


def test_the_card_s_figures_are_those_of_the_newest_report():
    newest = max((ROOT / "benchmarks" / "reports").glob("*-translation-quality.md")).read_text()
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    lines = [
        line for line in card.split("<!-- quality -->")[1].split("<!-- /quality -->")[0].splitlines() if line.strip()
    ]
    assert len(lines) >= 8
    assert [line for line in lines if line not in newest] == []
