"""A confidence is a probability that grows with the model's own, is saved beside it, and foreign text is noticed."""

import bz2
import json
import math

import pytest
from support.translation import tiny

import regard
from recipes import confidence
from regard.translation import Translator
from regard.translation.result import Calibration, Curve
from regard.translation.text.languages import looks_english

pytestmark = pytest.mark.usefixtures("unchecked")
SURE, UNSURE = "The dog sees the apple.", "zqx the the hat wjk ghf"
CURVES = Calibration(Curve(2.0, 4.0), Curve(1.0, 3.0))


def test_it_is_surer_of_what_it_has_learned(tiny_translator):
    sure, unsure = tiny_translator.translate([SURE, UNSURE])
    assert 1 >= sure.confidence > 0.9 > unsure.confidence >= 0
    assert len(sure.word_confidence) == len(sure.words)
    assert sure.confidence == pytest.approx(math.exp(sure.score), abs=0.02)  # scores are int8's
    assert tiny_translator.translate("42").confidence == 1.0
    assert tiny_translator.translate("").word_confidence == []


def test_a_curve_recovers_the_one_that_made_the_data():
    logs = [-n / 500 for n in range(2000)]
    right = [((n * 7919) % 1000) / 1000 < Curve(2.0, 3.0)(log) for n, log in enumerate(logs)]
    offset, slope = confidence.fit(logs, right)
    assert (offset, slope) == (pytest.approx(2.0, abs=0.3), pytest.approx(3.0, abs=0.4))
    assert confidence.fit([-1.0, -0.5], [True, False]).slope == 0.0
    curve = confidence.fit([-3.0, -2.0, -1.0, -0.5, -0.2, -0.1], [False, False, True, False, True, True])
    assert curve(-0.1) > 0.7 > 0.3 > curve(-3.0)


def test_languages_curves_and_the_note_are_saved_with_the_model(tiny_translator, tmp_path):
    about = {"languages": "en-fr", "calibration": CURVES, "note": "One head is from an earlier training."}
    Translator(tiny_translator.model, tiny_translator.words, **about).save(tmp_path)
    again = Translator.load(tmp_path)
    assert {name: getattr(again, name) for name in about} == about
    assert again.translate(SURE).confidence == pytest.approx(
        CURVES.of_sentence(again.translate(SURE)._segments[0].logs)
    )
    for wrong in ([], {"languages": 3}, {"note": 3}, {"confidence": {"sentence": [1]}}, {"confidence": 3}):
        (tmp_path / "translation.json").write_text(json.dumps(wrong))
        with pytest.raises(regard.FileError, match=r"confidence|languages|note"):
            Translator.load(tmp_path)
    (tmp_path / "translation.json").unlink()
    assert Translator.load(tmp_path).calibration == Calibration()


def test_what_counts_as_right():
    assert [
        confidence.is_right(text, "Il ne l'a jamais vue.") for text in ("Elle ne l'a jamais vue.", "Il pleut.")
    ] == [True, False]
    assert confidence.right_words(["«", "CHIEN", "l'a", "vue,", "jamais"], "Le chien « ne l'a pas vue ».") == [
        True, True, True, True, False,
    ]  # fmt: skip
    sure, right = [0.05, 0.95] * 50, [False, True] * 50
    assert confidence.calibration_error(sure, right) == pytest.approx(0.05)
    assert confidence.calibration_error(sure, right[::-1]) == pytest.approx(0.95)  # though on the whole both are 0.5
    # Least confident half: 0.2 and never right; the other half: 0.9 and right in 7 of 10.
    assert confidence.calibration_error(
        [0.2] * 50 + [0.9] * 50, [False] * 50 + ([True] * 7 + [False] * 3) * 5
    ) == pytest.approx((0.2 + 0.2) / 2)


def test_the_recipe_fits_both_curves_and_keeps_what_else_is_known(tiny_translator, tmp_path, monkeypatch, capsys):
    lines = [f"{source}\t{target}\n" for source, target in tiny.pairs(24, seed=9)]
    (tmp_path / "plain.tsv").write_text("".join(lines[:12]), encoding="utf-8")
    (tmp_path / "packed.tsv.bz2").write_bytes(
        bz2.compress("".join(lines[12:] + ["zqx hat.\tLe chien.\n"] * 6).encode())
    )
    monkeypatch.setattr(confidence, "KINDS", {"one": ["plain.tsv"], "other": ["packed.tsv.bz2"]})
    tiny_translator.save(tmp_path / "model")
    (tmp_path / "model" / "translation.json").write_text('{"note": "one head"}')
    monkeypatch.setattr("sys.argv", ["confidence.py", str(tmp_path / "model"), str(tmp_path), "--lines", "20"])
    confidence.main()
    fitted = Translator.load(tmp_path / "model")
    assert fitted.note == "one head"
    assert fitted.calibration.sentence(-0.01) > 0.8 > 0.5 > fitted.calibration.sentence(-1.5)
    printed = capsys.readouterr().out
    assert "one: 12 lines\nother: 18 lines\nsentence: offset " in printed
    assert printed.count("left out") == 4


@pytest.mark.parametrize(
    "text",
    ["Hello", "OK", "Tom Jackson", "I am hungry.", "New York", "Dogs bark.", "Red wine, white bread, cheese", "42", "",
     "Café", "Stop!", "Visit https://example.com", "Ana María Gómez", "THE DOG IS HERE."],
)  # fmt: skip
def test_english(text):
    assert looks_english(text)


@pytest.mark.parametrize(
    "text",
    ["Le chien est là.", "Bonjour", "Je ne sais pas ce que tu veux dire.", "Der Hund ist nicht hier.", "Ich bin müde.",
     "El perro está en la casa.", "No sé qué hacer con esto.", "你好，世界", "Привет, мир", "$x = $y->z();",
     "for (int i = 0; i < n; i++) { x[i] = y; }", "xkqj wvbnm zzzt qqpf"],
)  # fmt: skip
def test_not_english(text):
    assert not looks_english(text)
