"""Texts that nobody writes: every command answers or refuses them in one line, and draws and prints them as text."""

import json
import os
import random
import unicodedata
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from support.process import is_shown

import regard
from regard import cli, drawing

TEXTS = int(os.environ.get("REGARD_TEXTS", 100))  # a long run once in a while: REGARD_TEXTS=1000
PIECES = [
    *("The dog", "sees", "the", "apple.", "apple", "The", "dog", "!", "THE DOG", "Mr.", "...", "…", "1,000", "42", "é"),
    *("\x1b[2J", "\x1b]0;X\a", "\x9b31m", "\x00", "\x7f", "\r", "\b" * 9, "\u202e", "\u2066", "\u200f", "\u2028", "\x85"),
    *("\ufffe", "\uffff", "\ufeff", "\ufdd0", "\U0010ffff", "\ue000", "\u00ad", "\u200b", "\u200d", "\u0301" * 40, "\u0315\u0300" * 20),
    *("😀", "👩\u200d🔬", "🏴\U000e0067\U000e007f", "你好", "שלום", "مرحبا", "ﷺ", "ß", "ŉ", "ǆ", "İ", "ı", "ﬃ", "①", "½", "ǎ"),
    *("</script>", "<!--", "]]>", '"><img src=x onerror=alert(1)>', "&lt;", "[bold red]", "[/]", ":smile:", "%s", "{0}", "\\x1b"),
    *(">>fr<<", "</s>", "<pad>", "<unk>", "\u2581", "\u2581a", "<0x0A>", "--from", "$(id)", "`id`", "../" * 9, "x" * 300),
    *("\n", "\n\n", "\t", " " * 50, "\u00a0", "\u3000", ". " * 20, "(" * 30, "a." * 20, "\ud800", "\udcff"),
]  # fmt: skip


def hostile(seed):
    choose = random.Random(seed)
    return "".join(choose.choice(PIECES) + choose.choice(["", " "]) for _ in range(choose.randrange(1, 12)))


def run(arguments):
    """Run a command; its exit status, whether it is returned or raised, is then `run.code`."""
    try:
        run.code = cli.main(arguments)
    except SystemExit as stop:
        run.code = stop.code


@pytest.mark.parametrize("part", range(4))
def test_every_command_answers_or_refuses(part, tiny_translator, monkeypatch, terminal, tmp_path, unchecked):
    monkeypatch.setattr("regard.Translator.default", lambda: tiny_translator)
    monkeypatch.setattr("regard.cli.learning._LAYER", 1)
    monkeypatch.setattr("regard.cli.learning._HEAD", 3)  # the tiny model has two layers of four heads
    done = 0
    for seed in range(part, TEXTS, 4):
        text = hostile(seed)
        page, svg = tmp_path / "page.html", tmp_path / "picture.svg"
        commands = [
            ["translate", "--", text],
            ["translate", "--json", "--", text],
            ["translate", "--paragraphs", "--alternatives", "2", f"-o{svg}", "--", text],
            ["see", "--", text],
            ["see", "--from", text, f"-o{page}", "--", text],
            ["steps", "--", text],
            ["steps", f"-o{page}", "--", text],
            ["steps", f"-o{svg}", f"--title={text}", "--", text],
        ]
        for arguments in commands if TEXTS > 100 else [commands[seed // 4 % 8]]:
            page.unlink(missing_ok=True)
            svg.unlink(missing_ok=True)
            seen = terminal(lambda arguments=arguments: run(arguments))
            code = run.code
            assert code in (0, 2), (seed, arguments)
            assert is_shown(seen), (seed, arguments)
            assert "Traceback" not in seen, (seed, arguments)
            assert code == 0 or seen.splitlines()[-1].startswith("regard"), (seed, arguments)
            done += code == 0
            if svg.exists():
                ET.parse(svg)
            if page.exists():
                assert page.read_text(encoding="utf-8").count("<script") == 1
    assert done > TEXTS // 16


@pytest.mark.parametrize("part", range(2))
def test_a_translation_loses_nothing(part, tiny_translator, unchecked):
    for seed in range(part, TEXTS, 2):
        text = hostile(seed)
        if any(unicodedata.category(letter) == "Cs" for letter in text):
            with pytest.raises(regard.InputError, match="half of a surrogate pair"):
                tiny_translator.translate(text)
            continue
        found = tiny_translator.translate(text, split=bool(seed % 3))
        assert found.source == text
        for copied in "😀你ש\x1b\u202e\ufffe":
            assert found.text.count(copied) == text.count(copied), seed
        assert found.alignment.shape == (len(found.words), len(found.source_words))
        assert [word for word, _ in found.looks(1)] == found.words
        json.dumps(found.text)


def test_any_words_are_drawn(unchecked):
    for seed in range(TEXTS):
        words = [hostile(seed), hostile(seed + 10_000)]
        picture = drawing.lines(np.array([[0.25, 0.75], [0.5, 0.5]]), words, title=words[0])
        ET.fromstring(picture.to_svg())
        assert picture.to_html().count("<script") == 1
        assert is_shown(str(picture).replace("\n", ""))
