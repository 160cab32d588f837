"""The commands that load a model: translate, see, demo; and score."""

import io
import json
import re

import pytest
import torch
from support.process import LINE, run

import regard
from regard import cli
from regard.translation import Translator
from regard.translation.result import Calibration, Curve
from regard.watching.see import Question, draw

FOOD = "A dog ate the food because it was hungry."


@pytest.fixture(scope="session")
def model(tiny_translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_translator.save(folder, int8=True)
    return str(folder)


ENGLISH, FRENCH = "The dog sees the apple.", "Le chien voit la pomme."


def test_translate_shows_the_words_it_looked_at(model, capsys):
    assert cli.main(["translate", "--model", model, "--alternatives", "2", ENGLISH]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ENGLISH
    assert lines[1].startswith(f"→ {FRENCH}   ")
    assert lines[1].endswith((" core", " cores"))
    assert len(lines) == 4 + len(FRENCH.split())
    assert any("voit ━━" in line and " sees " in line for line in lines)


def test_translate_takes_words_without_quotes_as_one_sentence(model, capsys, tmp_path):
    path = tmp_path / "it.svg"
    assert cli.main(["translate", "--model", model, *ENGLISH.split(), "-o", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ENGLISH
    assert lines[1].startswith(f"→ {FRENCH}   ")
    assert all(word in path.read_text() for word in FRENCH.split())
    assert cli.main(["translate", "--model", model, "--json", *ENGLISH.split()]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == ENGLISH
    with pytest.raises(SystemExit):
        cli.main(["translate", "--help"])
    assert "several arguments are one text, joined by spaces" in " ".join(capsys.readouterr().out.split())


def test_translate_draws(model, capsys, tmp_path):
    path = tmp_path / "it.svg"
    assert cli.main(["translate", "--model", model, ENGLISH, "-o", str(path)]) == 0
    assert capsys.readouterr().err.startswith(f"{path}: ")
    drawn = path.read_text()
    assert all(word in drawn for word in [*ENGLISH.split(), *FRENCH.split()])


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_translate_without_a_word_is_one_line(model, blank, capsys, tmp_path):
    """It printed an arrow and the time."""
    for drawing in ([], ["-o", str(tmp_path / "it.svg")]):
        assert cli.main(["translate", "--model", model, blank, *drawing]) == 2
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == (
            "",
            f"regard: no words: the TEXT must have at least one. Got {blank!r}.\n",
        )
    assert cli.main(["translate", "--model", model, blank, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"].strip() == ""


def test_translate_says_that_it_waits_for_somebody_who_types(model, capsys, monkeypatch):
    typed(monkeypatch, ENGLISH.encode() + b"\n")
    assert cli.main(["translate", "--model", model]) == 0
    assert "type" not in capsys.readouterr().err
    typed(monkeypatch, ENGLISH.encode() + b"\n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert cli.main(["translate", "--model", model]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("regard: type a text, then Enter; Ctrl-")
    assert printed.out == f"{FRENCH}\n"


def test_translate_prints_a_picture(model, capsys, tmp_path):
    assert cli.main(["translate", "--model", model, ENGLISH, "--picture"]) == 0
    printed = capsys.readouterr().out
    assert "voit" in printed
    assert "←" in printed
    assert "━" not in printed  # it says the same as the bars
    assert cli.main(["translate", "--model", model, ENGLISH, "--picture", "-o", str(tmp_path / "it.svg")]) == 0
    assert "━" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "it.svg").read_text()
    assert cli.main(["translate", "--model", model, "--picture"]) == 2
    assert "a picture shows a TEXT of the command line. Got none." in capsys.readouterr().err


@pytest.fixture
def default(shipped, monkeypatch):
    """The model in the package, loaded once for all commands."""
    monkeypatch.setattr("regard.Translator.default", lambda: shipped)


@pytest.mark.slow
def test_translate_works_with_no_model_named(capsys):
    assert cli.main(["translate", "I am hungry."]) == 0
    assert "→ J'ai faim.   " in capsys.readouterr().out


DOG = "A dog ate the food because it was hungry."


@pytest.mark.slow
def test_see_works_with_no_model_named(default, capsys):
    assert cli.main(["see", DOG, "--from", "it", "--to", "dog"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "→ Un chien a mangé la nourriture parce qu'il avait faim."
    assert lines[1:3] == ["Transformer, encoder, all 48 heads of 8 layers", "it → dog"]
    assert cli.main(["see", DOG, "--from", "chien"]) == 0  # a word of the translation only
    asked = capsys.readouterr().out
    assert "Transformer, cross, all 18 heads of 3 layers" in asked
    share = re.search(r"rests on </s>; of the rest: ━━━━━━━━━━━ dog (\d+(?:\.\d)?) %", asked)
    assert share
    assert cli.main(["translate", DOG]) == 0
    assert f"chien ━━━━━━━━━━━ dog {float(share[1]):.0f} %" in capsys.readouterr().out  # the same row and share
    assert cli.main(["see", DOG, "--from", "chien", "--kind", "decoder", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["text"], found["translation"]) == (DOG, lines[0][2:])
    assert {look["word"] for look in found["answers"][0]["looks"]} == {"Un", "chien"}
    assert found["answers"][0]["aside"][0]["name"] == "<start>"
    for kind in ("encoder", "decoder", "cross"):
        for sinks in ([], ["--sinks"]):
            assert cli.main(["see", DOG, "--kind", kind, *sinks]) == 0
            rows = capsys.readouterr().out.splitlines()[2:]
            assert [row for row in rows if row.startswith(("<pad>", "<start>"))] == []
            assert all(("rests on" in row) == (not sinks) for row in rows)
            assert len(rows) == (11 if kind == "encoder" else 13)
    assert cli.main(["see", DOG, "--from", "cat"]) == 2
    assert "is not in the text" in capsys.readouterr().err
    assert cli.main(["see", "42"]) == 2
    assert "nothing to watch" in capsys.readouterr().err


@pytest.mark.slow
def test_see_without_a_link(default, capsys):
    assert cli.main(["see", DOG, "--without", "it->dog", "--without", "it → food"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "it → dog is cut: the other weights are normalised to 1 again"
    assert [line.split(":")[0] for line in lines[2:]] == ["before", "after"]
    assert cli.main(["see", DOG, "--without", "it->dog", "--layer", "1", "--from", "it"]) == 0
    out = capsys.readouterr().out
    assert "Changed: it → dog (layer 1) is cut" in out
    assert " dog " not in out.splitlines()[-1]  # it sees none
    for bad, said in ((["--without", "it dog"], "an arrow"), (["--without", "it->cat"], '"cat" is not in the text'),
                      (["--without", "it->dog", "--json"], "--json prints the answers")):  # fmt: skip
        assert cli.main(["see", DOG, *bad]) == 2
        assert said in capsys.readouterr().err


def test_see_takes_a_model_of_ours(model, capsys, tmp_path):
    assert cli.main(["see", ENGLISH, "--model", model]) == 0
    printed = capsys.readouterr().out
    assert f"→ {FRENCH}" in printed
    assert re.search(r"\ndog: \d.* % rests on </s>; of the rest: ━", printed)
    assert cli.main(["see", ENGLISH, "--model", model, "--from", "dog", "-o", str(tmp_path / "see.svg")]) == 0
    assert "<svg" in (tmp_path / "see.svg").read_text()


def typed(monkeypatch, data):
    """Standard input that holds these bytes."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_see_reads_a_file_and_standard_input(model, capsys, monkeypatch, tmp_path):
    asked = ["see", "--model", model, "--from", "dog", "--json"]
    assert cli.main([*asked, ENGLISH]) == 0
    expected = capsys.readouterr().out
    assert json.loads(expected)["text"] == ENGLISH
    path = tmp_path / "in.txt"
    path.write_text(f"{ENGLISH}\n", encoding="utf-8")
    assert cli.main([*asked, "-f", str(path)]) == 0
    assert capsys.readouterr().out == expected
    for arguments in ([], ["-"], ["-f", "-"]):
        typed(monkeypatch, f"{ENGLISH}\n".encode())
        assert cli.main([*asked, *arguments]) == 0
        assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("command", "name", "hint"),
    [
        ("translate", "letter.txt", "letter.txt is a file: to translate its content, use -f letter.txt"),
        ("see", "The dog", "The dog is a file: to look at its content, use -f 'The dog'"),
    ],
)
def test_the_name_of_a_file_as_text_is_a_text_and_gets_a_hint(
    command, name, hint, model, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    asked = [command, "--model", model, "--json", *name.split()]
    (tmp_path / name).mkdir()
    assert cli.main(asked) == 0
    plain = capsys.readouterr()
    assert "is a file" not in plain.err
    (tmp_path / name).rmdir()
    (tmp_path / name).write_text(ENGLISH)
    assert cli.main(asked) == 0
    hinted = capsys.readouterr()
    assert (hinted.out, hinted.err) == (plain.out, f"regard: {hint}\n{plain.err}")


def test_a_picture_of_a_file_has_its_lines_as_one_title(model, tmp_path):
    (tmp_path / "in.txt").write_text(ENGLISH.replace(" ", "\n", 1), encoding="utf-8")
    assert cli.main(["see", "--model", model, "-f", str(tmp_path / "in.txt"), "-o", str(tmp_path / "see.svg")]) == 0
    assert f">{ENGLISH}</text>" in (tmp_path / "see.svg").read_text(encoding="utf-8")


def test_a_picture_from_a_word_to_another_is_of_the_head_that_looks_most(model, capsys, tmp_path):
    """--to was ignored, and the picture was the mean of all heads."""
    asked = ["see", "--model", model, ENGLISH, "--from", "sees", "--to", "dog"]
    assert cli.main(asked) == 0
    layer, head, share = re.search(r"layer +(\d+) head +(\d+) +([\d.]+ %)", capsys.readouterr().out).groups()
    for drawing in (["--lines"], ["--matrix"], ["-o", str(tmp_path / "see.svg")]):
        assert cli.main([*asked, *drawing]) == 0
        drawn = (tmp_path / "see.svg").read_text(encoding="utf-8") if "-o" in drawing else capsys.readouterr().out
        assert f"encoder, layer {layer}, head {head}. Of " in " ".join(drawn.split())
        assert share in drawn
    for refused in ("--flow", "--grid", "--map"):
        assert cli.main([*asked, refused]) == 2
        assert f"it takes --from, and --lines or --matrix. Got {refused}." in capsys.readouterr().err
    assert cli.main(["see", "--model", model, ENGLISH, "--to", "dog", "--lines"]) == 2
    assert "Got --to alone." in capsys.readouterr().err


def test_lines_of_a_word_are_those_of_its_telling_head(default, shipped, capsys):
    """Of all heads, the weight on one word that is furthest above the mean of all heads, by brute force."""
    assert cli.main(["see", FOOD, "--from", "it", "--lines"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    record = shipped.translate(FOOD).watch().at(kind="encoder")
    rows = {(e.layer, head): e[0, head, 6] for e in record.values() for head in e.heads}
    words = [n for n, word in enumerate(FOOD.strip(".").split()) if len(word) > 2 and not 5 <= n <= 7]
    mean = sum(rows.values()) / len(rows)
    layer, head = max(rows, key=lambda place: max(float(rows[place][n] - mean[n]) for n in words))
    assert f'encoder, layer {layer}, head {head}. Of {len(rows)} heads, the one in which "it" looks at' in printed
    assert cli.main(["see", FOOD, "--from", "it", "--lines", "--layer", "1"]) == 0
    assert "encoder, layer 1, the mean of 6 heads." in capsys.readouterr().out  # as asked


def test_a_telling_head_is_not_one_that_looks_where_all_heads_look():
    class Layer(torch.nn.Module):
        def forward(self, weights):
            zeros = torch.zeros(*weights.shape[:3], 4)
            return regard.attention(zeros, zeros, zeros, mask=regard.bias(weights.log()))

    weights = torch.full((1, 2, 5, 5), 0.2)
    weights[0, 0, 0] = torch.tensor([0.02, 0.02, 0.01, 0.9, 0.05])
    weights[0, 1, 0] = torch.tensor([0.01, 0.01, 0.01, 0.57, 0.4])
    with regard.watch(Layer(), tokens=["it", "was", "so", "that", "hungry"]) as record:
        record.model(weights)
    drawn = draw(record, Question("it"), "lines", "")
    assert 'head 1. Of 2 heads, the one in which "it" looks at one word' in drawn.caption
    assert drawn.caption.endswith('furthest above the mean: at "hungry", 40 %.')


def test_a_terminal_gets_answers_in_lines_that_fit(model, terminal, capsys, monkeypatch):
    """In 80 columns they were wrapped anywhere; through a pipe each answer stays one line."""
    asked = ["see", "--model", model, ENGLISH]
    assert cli.main(asked) == 0
    whole = capsys.readouterr().out
    assert max(map(len, whole.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    seen = terminal(lambda: cli.main(asked)).replace("\r\n", "\n")
    lines = seen.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("    ━") for line in lines)
    assert seen.split() == whole.split()  # nothing is lost
    as_json = terminal(lambda: cli.main([*asked, "--json", "--from", "dog"]))
    assert json.loads(as_json)["text"] == ENGLISH


def test_see_without_a_text_it_can_read_is_one_line(capsys, monkeypatch, tmp_path):
    typed(monkeypatch, b"fine\n\xff\n")
    assert cli.main(["see"]) == 2
    assert capsys.readouterr().err.startswith("regard: standard input, line 2: not UTF-8")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert cli.main(["see"]) == 2  # it does not wait for somebody who does not know that it waits
    assert capsys.readouterr().err == "regard: there is no text. Give a TEXT, a file with -f, or - to type it here.\n"
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["see", "-"]) == 2
    assert "standard input is closed" in capsys.readouterr().err
    assert cli.main(["see", "-f", str(tmp_path / "nowhere.txt")]) == 2
    assert "nowhere.txt cannot be read" in capsys.readouterr().err


def test_see_counts_layers_from_the_end(model, tiny_translator, capsys):
    layers = len(tiny_translator.model.encoder.layers)
    assert layers > 1
    asked = ["see", ENGLISH, "--model", model, "--from", "dog", "--layer"]
    for layer in range(layers):
        assert cli.main([*asked, str(layer)]) == 0
        expected = capsys.readouterr().out
        assert f"layer {layer}" in expected
        assert cli.main([*asked, str(layer - layers)]) == 0
        assert capsys.readouterr().out == expected
    assert cli.main([*asked, str(-layers - 1)]) == 2
    said = f"nothing was seen of layer = {-layers - 1}, kind = encoder. There are encoder layers 0, 1. "
    assert said in capsys.readouterr().err


def test_see_joins_its_arguments(model, capsys):
    assert cli.main(["see", ENGLISH, "--model", model, "--from", "dog"]) == 0
    expected = capsys.readouterr().out
    assert cli.main(["see", *ENGLISH.split(), "--model", model, "--from", "dog"]) == 0
    assert capsys.readouterr().out == expected


def test_see_answers_for_all_occurrences_or_for_one(model, capsys):
    text = "The dog sees the dog."
    assert cli.main(["see", text, "--model", model, "--from", "dog"]) == 0
    assert "\ndog (2 occurrences) looks at: " in capsys.readouterr().out
    assert cli.main(["see", text, "--model", model, "--from", "the [dog].", "--json"]) == 0
    (second,) = json.loads(capsys.readouterr().out)["answers"]
    assert second["word"] == "the [dog]."
    assert cli.main(["see", text, "--model", model, "--from", "[dog] sees", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["looks"] != second["looks"]


def test_see_answers_sentence_by_sentence_where_a_text_is_too_long(model, capsys, tmp_path):
    cat, bird = "The cat likes the bread.", "The bird likes the book."
    text = " ".join([ENGLISH, *[cat] * 20, ENGLISH, bird])
    path = tmp_path / "in.txt"
    path.write_text(text.replace(". ", ".\n"), encoding="utf-8")
    assert cli.main(["see", "-f", str(path), "--model", model, "--from", "dog"]) == 0
    answers = capsys.readouterr().out.split("\n\n")
    assert len(answers) == 2  # those with a dog
    assert cli.main(["see", ENGLISH, "--model", model, "--from", "dog"]) == 0
    expected = f"{ENGLISH}\n{capsys.readouterr().out}"
    assert [answer.strip() for answer in answers] == 2 * [expected.strip()]
    assert cli.main(["see", text, "--model", model, "--from", "dog", "--json"]) == 0
    assert [found["text"] for found in json.loads(capsys.readouterr().out)] == [ENGLISH, ENGLISH]
    assert cli.main(["see", text, "--model", model, "--from", "bird", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == bird
    assert cli.main(["see", text, "--model", model, "--from", "horse"]) == 2
    assert capsys.readouterr().err == 'regard: none of the 23 sentences has "horse".\n'
    picture = tmp_path / "see.svg"
    assert cli.main(["see", text, "--model", model, "--from", "dog", "-o", str(picture)]) == 2
    said = 'a picture shows one sentence. Got 2 with "dog". Choose one by its words, with the WORD in brackets'
    assert said in capsys.readouterr().err
    assert cli.main(["see", text, "--model", model, "--from", "bird", "-o", str(picture)]) == 0
    assert f">{bird}</text>" in picture.read_text(encoding="utf-8")


def test_demo(default, shipped, capsys):
    assert cli.main(["demo"]) == 0
    said = capsys.readouterr().out.splitlines()
    (hungry, delicious), steps = (said[:3], said[3:6]), said[6:]
    assert (hungry[0], delicious[0]) == (DOG, "A dog ate the food because it was delicious.")
    assert hungry[1].startswith("→ Un chien a mangé la nourriture parce qu'il avait faim.  ")
    assert delicious[1].startswith("→ Un chien a mangé la nourriture parce qu'elle était délicieuse.  ")
    for (_, answer, looks), noun in ((hungry, "dog"), (delicious, "food")):
        assert answer.endswith((" core", " cores"))
        assert looks.startswith("it ━")
        assert f" {noun} " in looks.split("%")[0]
    assert shipped.note
    assert " ".join(steps[: steps.index("")]) == shipped.note
    assert LINE in steps
    assert steps[-1].endswith("regard serve --open")


def test_translate_gives_json(model, capsys):
    assert cli.main(["translate", "--model", model, "--json", ENGLISH]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["source"], first["text"], first["words"]) == (ENGLISH, FRENCH, FRENCH.split())
    assert len(first["alignment"]) == len(first["words"])
    assert abs(sum(first["alignment"][0]) - 1) < 0.01
    assert first["alternatives"][0]["text"] == FRENCH
    assert cli.main(["translate", "--model", model, "--json", ""]) == 0
    blank = json.loads(capsys.readouterr().out)
    assert (blank["text"], blank["tokens"], blank["alignment"]) == ("", [], [])


def test_low_confidence_is_reported(tiny_translator, capsys, tmp_path, monkeypatch):
    """Nonsense was printed at a confidence of 0.001 without a word about it."""
    nonsense, path, curve = "zqx the the hat wjk ghf", tmp_path / "in.txt", Curve(3.0, 60.0)
    steep = Translator(tiny_translator.model, tiny_translator.words, calibration=Calibration(curve, curve))
    steep.save(tmp_path / "model")
    path.write_text(f"{ENGLISH}\n{nonsense}\n{ENGLISH}\n", encoding="utf-8")

    def reported(*arguments):
        assert cli.main(["translate", "--model", str(tmp_path / "model"), *arguments]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if "confidence" in line]

    (said,) = reported(nonsense)
    assert re.fullmatch(r"regard: low confidence, [\d.]+ %: this translation is more likely wrong than right\.", said)
    assert reported(nonsense, "--json") == [said]
    assert reported(ENGLISH) == reported(ENGLISH, "--json") == reported("-f", str(path)) == []
    (said,) = reported("-f", str(path), "--json")
    assert said == "regard: low confidence in 1 of 3 lines: below 0.5, more likely wrong than right."
    typed(monkeypatch, path.read_bytes())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert len(reported()) == 1


def test_translate_a_file_line_by_line(model, capsys, tmp_path):
    (tmp_path / "in.txt").write_text(f"{ENGLISH}\n\n{ENGLISH}\n", encoding="utf-8")
    assert cli.main(["translate", "--model", model, "-f", str(tmp_path / "in.txt")]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{FRENCH}\n\n{FRENCH}\n"
    assert printed.err.startswith("3 lines in ")


@pytest.mark.slow
def test_translate_from_a_pipe(model):
    done = run(
        "translate",
        "--model",
        model,
        "--paragraphs",
        PYTHONIOENCODING="utf-8",
        stdin=f"{ENGLISH} {ENGLISH}\n\n{ENGLISH}",
    )
    assert done.stdout.decode() == f"{FRENCH} {FRENCH}\n\n{FRENCH}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--model", "nowhere", "Hi."], "nowhere is not a folder"),
        (["translate", "--model", "any", "-f", "nowhere.txt", "Hi."], "a TEXT or a file, not both"),
        (["see", "-f", "nowhere.txt", "Hi."], "a TEXT or a file, not both"),
        (["score", "nowhere", "nowhere"], "nowhere cannot be read"),
        (["score", "a", "b", "--train", "c"], "need both --source and --train"),
        (["see", DOG, "--grid", "--json"], "Got both --json and --grid. Leave one out."),
        (["see", DOG, "--json", "-o", "it.svg"], "Got both --json and -o it.svg. Leave one out."),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments, message, capsys):
    assert cli.main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_file_that_is_not_text_is_named(model, capsys, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"fine\n\xff\xfe\n")
    assert cli.main(["translate", "--model", model, "-f", str(tmp_path / "in.txt")]) == 2
    assert "in.txt, line 2: not UTF-8" in capsys.readouterr().err


def test_score(capsys, tmp_path):
    for name, text in (("h", "Le chien voit la pomme.\n"), ("s", "The dog.\n"), ("t", "The dog.\tLe chien.\n")):
        (tmp_path / name).write_text(text)
    h, s, t = (str(tmp_path / name) for name in "hst")
    assert cli.main(["score", h, h, "--source", s, "--train", t]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == ["BLEU 100.0  chrF2 100.0  1 line", "far from the training: no line"]
    assert out[2].startswith("BLEU   nrefs:1|")


@pytest.mark.parametrize("command", ["translate", "score", "see"])
def test_help_shows_examples(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    help_text = capsys.readouterr().out
    assert f"  regard {command} " in help_text
    assert "In Python:  regard." in help_text
