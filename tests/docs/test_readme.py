"""What the README, the tour and the benchmarks page show is what happens."""

import os
import re
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from figures import PAGES as PAGES_WITH_TABLES
from figures import copied
from measure import signed

from regard.cli import learning
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
    assert len(README.encode()) <= 7000


def test_whoever_follows_it_has_the_command():
    """After `make demo`, `regard` was not found: nothing said that the environment has to be activated."""
    blocks = re.findall(r"```console\n(.*?)```", README.split("## Install")[1], flags=re.DOTALL)
    assert ". .venv/bin/activate" in blocks[0]


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
    printed = [TIME.sub("TIME", line) for line in learning.lines(shipped)]
    lines = [line.rstrip() for line in shown.splitlines() if line.strip() and not line.startswith(("$", "…"))]
    assert len(lines) == 16
    assert sum(bool(TIME.search(line)) for line in lines) == 2
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


@pytest.mark.parametrize("page", PAGES_WITH_TABLES, ids=lambda page: page.name)
def test_its_tables_are_those_of_the_reports(page):
    text = page.read_text()
    assert "<!-- table " in text
    assert copied(text) == text, "run: python docs/tools/figures.py"


def test_rows_that_begin_alike_are_told_apart(tmp_path):
    """The page showed the row of CTranslate2 twice, and that of regard not at all."""
    rows = ["| 1 sentence | regard | 380 |", "| 1 sentence | CTranslate2 | 325 |"]
    (tmp_path / "x-cpu.md").write_text("\n".join(["| | engine | speed |", "| --- | --- | --- |", *rows]) + "\n")
    table = "<!-- table x-cpu -->\n| | engine | speed |\n{}<!-- /table -->"
    page = table.format("| 1 sentence | regard | 1 |\n| 1 sentence | CTranslate2 | 1 |\n")
    assert copied(page, tmp_path) == table.format("\n".join([*rows, ""]))
    with pytest.raises(ValueError, match="must have one row"):
        copied(table.format("| 1 sentence |\n"), tmp_path)


# Reports: what a script wrote, with what it was written on

REPORTS = sorted((ROOT / "benchmarks" / "reports").glob("*.md"))
# The kernels changed 70 times in one day, and a report was out of date after that; 20 is an afternoon's work on a room.
COMMITS = 20


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_is_what_its_script_wrote(path):
    text, _, _ = path.read_text().rpartition(", sha256 ")
    assert signed(text) == path.read_text(), "edited by hand: comments belong in docs/benchmarks.md"
    script = re.fullmatch(r"Made by `python (\S+) --report`", text.splitlines()[-1])[1]
    stem = path.stem.removesuffix("-cpu").removesuffix("-gpu").replace("-", "_")
    assert script == f"benchmarks/{stem}.py"
    assert (ROOT / script).exists()
    head = text.split("\n\n")[1]
    for part in (
        r"^20\d\d-\d\d-\d\d, ",
        r"torch \d",
        r"Commit \w{12} of \S+, (clean|with)",
        r"Load average \d",
        "Measures `",
    ):
        assert re.search(part, head), part


def newer_commits(report, page, root=ROOT):
    """How many commits changed what a report measures since it was made, or since the page's last word on it."""
    head = report.read_text().split("\n\n")[1]
    since = datetime.fromisoformat(re.search(r"Commit \w+ of ([^,]+),", head)[1])
    for day in re.findall(rf"^- `{report.stem}`, (\d{{4}}-\d\d-\d\d): .", page, flags=re.MULTILINE):
        since = max(since, datetime.fromisoformat(f"{day}T23:59:59+00:00"))
    paths = re.findall(r"`([^`]+)`", head.rpartition("Measures ")[2])
    # When they were written: a rebase gives commits new hashes and new dates, and keeps this one.
    command = ["git", "log", "--format=%at", "--", *paths]
    written = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split()
    return sum(int(time) > since.timestamp() for time in written)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="counts commits; there is no repository here")
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_no_report_is_older_than_what_it_measures(path):
    """Measure again (`make reports`), or say in docs/benchmarks.md why the figures still hold."""
    assert newer_commits(path, (ROOT / "docs" / "benchmarks.md").read_text()) <= COMMITS


def test_an_old_report_is_found(tmp_path):
    """Also after a rebase, which gives the commits other hashes."""

    def git(*words, at=None):
        dates = {} if at is None else {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": "2026-03-01T00:00:00+0000"}
        name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True, env=os.environ | dates)

    report = tmp_path / "trains-cpu.md"
    report.write_text(
        "# Trains\n\nCommit 0123456789ab of 2026-01-02T12:00:00+00:00, clean. Measures `a`, `b`.\n\nText."
    )
    git("init", "-q")
    for number, (name, day) in enumerate([("a", 1), ("a", 2), ("b", 3), ("c", 4), ("b", 5)]):
        (tmp_path / name).write_text(str(number))
        git("add", name)
        git("commit", "-qm", name, at=f"2026-01-0{day}T09:00:00+0000")
    assert newer_commits(report, "", tmp_path) == 2
    assert newer_commits(report, "- `trains-cpu`, 2026-01-03: b is not called.", tmp_path) == 1
    assert newer_commits(report, "- `trains-cpu`, 2026-01-03:\n- `other-cpu`, 2026-01-05: …", tmp_path) == 2


def test_the_card_s_figures_are_those_of_the_report():
    report = (ROOT / "benchmarks" / "reports" / "translation-quality.md").read_text()
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    lines = [
        line for line in card.split("<!-- quality -->")[1].split("<!-- /quality -->")[0].splitlines() if line.strip()
    ]
    assert len(lines) >= 8
    assert [line for line in lines if line not in report] == []


def test_the_confidence_is_calibrated_on_every_kind_of_text():
    report = (ROOT / "benchmarks" / "reports" / "translation-quality.md").read_text()
    (lines,) = re.findall(r"\| test \|.*calibration error.*\n\|.*\n((?:\|.*\n)+)", report)
    cells = [line.split("|")[1:-1] for line in lines.splitlines()]
    errors = {row[0].strip(): [float(row[4]), float(row[8])] for row in cells}
    assert len(errors) == 4
    assert all(error <= 0.08 for both in errors.values() for error in both), errors
