"""What the README shows is what happens."""

import re
from pathlib import Path

import pytest

import regard
from regard import textbook

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_its_code_runs(number, capsys):
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})
    if "print(" in BLOCKS[number]:
        assert 'z("dog") = ' in capsys.readouterr().out


def test_its_first_screen_is_what_the_demo_prints():
    shown = README.split("```console\n")[1].split("```")[0]
    printed = {line.rstrip() for line in str(regard.steps(*textbook.i_am_good())).splitlines()}
    lines = [line.rstrip() for line in shown.splitlines() if line.strip() and not line.startswith(("$", "…"))]
    assert len(lines) == 8
    assert [line for line in lines if line not in printed] == []


def test_its_links_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text()
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("http") or (ROOT / target).exists(), f"{name}: {target}"


def test_it_lists_every_file_of_the_library():
    files = {str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.py") if not p.name.startswith("__")}
    listed = set(re.findall(r"\]\((src/regard/[^)]+\.py)\)", README.split("## The library in")[1]))
    assert listed == files
    assert len(files) == 40


def test_its_figures_are_those_of_the_newest_report():
    newest = max((ROOT / "benchmarks" / "reports").glob("*-attention-cpu.md"))
    figures = README.split("<!-- figures -->")[1].split("<!-- /figures -->")[0]
    lines = [line for line in figures.splitlines() if line.strip()]
    assert len(lines) >= 6
    report = newest.read_text()
    assert all(line in report for line in lines)
