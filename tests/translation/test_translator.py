"""Translating text: what goes in comes out, whatever it is; folders ours and Marian's; the guard; the alignment."""

import json

import pytest
import torch
from support.translation import tiny

import regard
from regard.translation import Translator, search
from regard.translation.text.segments import Placeholders, Segment, split_segments
from regard.translation.text.structure import split_sentences
from regard.translation.translator import _Settings

PAIRS = tiny.pairs(60, seed=7)
pytestmark = pytest.mark.usefixtures("unchecked")  # their checks take longer than the translations
SENTENCE, ANSWER = "The dog sees the apple.", "Le chien voit la pomme."


def test_it_has_learned_to_translate(tiny_translator):
    found = tiny_translator.translate([source for source, _ in PAIRS])
    assert [t.source for t in found] == [source for source, _ in PAIRS]
    assert sum(t.text == target for t, (_, target) in zip(found, PAIRS, strict=True)) >= 55


def test_alone_and_in_a_batch_it_is_the_same(tiny_translator):
    sources = [source for source, _ in PAIRS[:6]]
    together = tiny_translator.translate([*sources, " ".join(sources[:3])])
    for source, found in zip(sources, together, strict=False):
        alone = tiny_translator.translate(source)
        assert alone.text == found.text
        assert alone.score == pytest.approx(found.score, abs=1e-4)


def test_a_translation_holds_what_it_is_made_of(tiny_translator):
    found = tiny_translator.translate(SENTENCE, alternatives=3)
    assert str(found) == found.text == ANSWER
    assert "".join(found.tokens).replace("▁", " ").strip() == ANSWER
    assert "".join(found.source_tokens).replace("▁", " ").strip() == SENTENCE
    assert found.words == ANSWER.split()
    assert found.source_words == SENTENCE.split()
    assert found.alternatives[0] == (ANSWER, found.score)
    scores = [other.score for other in found.alternatives]
    assert len({other.text for other in found.alternatives}) == len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_the_alignment_follows_the_words(tiny_translator):
    hits = 0
    for found in tiny_translator.translate([source for source, _ in PAIRS[:20]]):
        assert found.alignment.shape == (len(found.words), len(found.source_words))
        torch.testing.assert_close(found.alignment.sum(-1), torch.ones(len(found.words)))
        place = next(n for n, w in enumerate(found.words) if w in {fr for _, fr in tiny.VERBS})
        hits += found.source_words[int(found.alignment[place].argmax())] in {en for en, _ in tiny.VERBS}
    assert hits >= 15


def test_looking_leaves_the_model_as_it_was(tiny_translator):
    crosses = [layer.cross for layer in tiny_translator.model.decoder.layers]
    tiny_translator.translate(SENTENCE).alignment.sum()
    assert all(cross.attend is regard.attention for cross in crosses)


# Whatever comes in


@pytest.mark.parametrize("blank", ["", " ", "\n", " \t\n "])
def test_blank_in_blank_out(tiny_translator, blank):
    found = tiny_translator.translate(blank)
    assert found.text == blank
    assert found.tokens == found.source_tokens == found.words == []
    assert found.alignment.shape == (0, 0)


@pytest.mark.parametrize(
    "text", ["42", "3.14 + 1 = 4.14", "?!", "...", "你好，世界", "😀😀", "Привет", "\u200b", "\x00"]
)
def test_what_has_no_known_letter_is_copied(tiny_translator, text):
    found = tiny_translator.translate(text)
    assert found.text == text.strip() or found.text == text
    assert found.alignment.shape == (len(found.words), len(found.source_words))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dog sees the apple. 😀", "Le chien voit la pomme. 😀"),
        ("😀 The dog sees the apple.", "😀 Le chien voit la pomme."),
        ("Thē dog sees the apple.", ANSWER),
        ("  The  dog sees\u00a0the apple.  ", f"  {ANSWER}  "),
    ],
)
def test_what_it_cannot_read_finds_its_place(tiny_translator, text, expected):
    assert tiny_translator.translate(text).text == expected


def test_what_it_cannot_read_amid_a_sentence_stays_there(tiny_translator):
    words = tiny_translator.translate("The dog 你好 sees the apple.").text.split()
    assert 0 < words.index("你好") < len(words) - 1
    assert " ".join(word for word in words if word != "你好") == ANSWER


def test_capitals_are_answered_in_capitals(tiny_translator):
    assert tiny_translator.translate("THE DOG SEES THE APPLE.").text == ANSWER.upper()


@pytest.mark.parametrize(
    ("text", "capitals"),
    [("THE DOG", True), ("I RAN!", True), ("I ❤️ 🍣!", False), ('"I" 2', False), ("NASA", False), ("NASA 🍣", False)],
)
def test_a_text_in_capitals_has_several_words_that_need_not_be(tiny_translator, text, capitals):
    assert Segment.read(text, "", tiny_translator.words).capitals is capitals


@pytest.mark.parametrize("text", ["apple", "The dog sees the apple", "zzz qqq", "a" * 3000, "The " * 300])
def test_odd_texts_get_an_answer(tiny_translator, text):
    found = tiny_translator.translate(text)
    assert found.text.strip()
    assert len(found.text) <= 20 * len(text)


def test_a_line_of_2000_words(tiny_translator):
    pairs = tiny.pairs(400, seed=3)
    line = " ".join(source for source, _ in pairs)
    assert len(line.split()) >= 2000
    found = tiny_translator.translate(line, beam=1)
    assert sum(target in found.text for _, target in pairs) >= 360
    assert found.source_words == line.split()
    assert len(split_sentences(found.text)) == 400


def test_a_sentence_without_an_end_is_cut_where_it_must(tiny_translator):
    text = ", ".join(source.rstrip(".!") for source, _ in tiny.pairs(60, seed=4))
    parts = split_segments(text, tiny_translator.words, tiny_translator.longest, split=False)
    assert len(parts) > 3
    assert max(len(part.ids) for part in parts) <= tiny_translator.longest
    assert "".join(part.text + part.gap for part in parts) == text
    assert all(part.text.endswith(",") for part in parts[:-1])


def test_paragraphs_keep_their_shape(tiny_translator):
    (a, x), (b, y), (c, z) = PAIRS[:3]
    text = f"{a} {b}\n\n{c}\n"
    found = tiny_translator.translate(text, split=True)
    expected = [t.text for t in tiny_translator.translate([a, b, c])]
    assert found.text == "{} {}\n\n{}\n".format(*expected)
    assert expected == [x, y, z]


def test_placeholders_in_a_text_of_nothing_else():
    found = Placeholders.find(["😀 你好"], str.isascii)
    assert found.readable == ""
    assert found.put_back("", []) == "😀 你好"


# Repetition


def looping(period):
    """A model that says the same `period` tokens for ever: each token's successor has the greatest logit."""
    torch.manual_seed(0)
    model = regard.Transformer(regard.TransformerConfig.tiny(40, positions=128)).eval()
    order = list(range(10, 10 + period))

    def logits(states):
        out = torch.zeros(*states.shape[:-1], 40)
        for n, last in enumerate(model.last):
            where = order.index(last) if last in order else -1
            out[n, ..., order[(where + 1) % period]] = 30.0
            out[n, ..., 5] = 20.0
            out[n, ..., 0] = -20.0
        return out

    states = model.states

    def remember(target, memory, cache=None):
        model.last = target[:, -1].tolist()
        return states(target, memory, cache)

    model.states, model.logits = remember, logits
    return model


def most_in_a_row(tokens, size):
    best = 1
    for start in range(len(tokens)):
        times = 1
        while tokens[start : start + size] == tokens[start + times * size : start + (times + 1) * size]:
            times += 1
            if len(tokens[start : start + size]) < size:
                break
        best = max(best, times)
    return best


@pytest.mark.parametrize("period", [1, 2, 5, 8])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_that_loops_is_stopped(period, beam):
    source = torch.tensor([[4, 6, 7, 0], [4, 4, 4, 0]])
    free = search(looping(period), source, beam=beam, max_tokens=40, repeats=99)
    assert most_in_a_row(free[0][0].tokens, period) >= 40 // period - 1
    for best in search(looping(period), source, beam=beam, max_tokens=40):
        for found in best:
            assert max(most_in_a_row(found.tokens, size) for size in range(1, 9)) <= 3


def test_what_the_source_repeats_may_be_repeated():
    source = torch.tensor([[4, 6, 6, 6, 6, 6, 6, 0]])
    (found,) = search(looping(1), source, beam=1, max_tokens=30)
    assert most_in_a_row(found[0].tokens, 1) == 6


# Folders


def test_save_and_load(tiny_translator, tmp_path):
    tiny_translator.save(tmp_path / "whole")
    tiny_translator.save(tmp_path / "small", int8=True)
    assert Translator.load(tmp_path / "whole").translate(SENTENCE).text == ANSWER
    assert Translator.load(tmp_path / "small").translate(SENTENCE).text == ANSWER
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("small", "whole")]
    assert sizes[0] < 0.35 * sizes[1]


def test_int8_is_off_by_half_a_step_at_most(tmp_path):
    model = regard.Transformer(regard.TransformerConfig.tiny(40, width=32, hidden=48))
    model.save(tmp_path, int8=True)
    again = regard.Transformer.load(tmp_path).state_dict()
    for name, tensor in model.state_dict().items():
        bound = tensor.abs().amax(-1, keepdim=True) / 254 if tensor.dim() == 2 else 0 * tensor
        assert ((again[name] - tensor).abs() <= bound * 1.0001 + 1e-12).all(), name
        assert again[name].dtype == torch.float32
    assert again["embedding.weight"][model.config.pad].abs().max() == 0


def _change(edit):
    from safetensors.torch import load_file, save_file

    def spoil(path):
        tensors = load_file(path)
        edit(tensors)
        save_file(tensors, path)

    return spoil


NAME = "encoder.layers.0.attention.output.weight"
SPOIL = [
    (lambda path: path.write_bytes(path.read_bytes()[:-50]), "is damaged"),
    (_change(lambda t: t.pop(f"{NAME}.scale")), f"must hold {NAME} either whole or as"),
    (_change(lambda t: t.update({NAME: torch.zeros(32, 32)})), f"must hold {NAME} either whole or as"),
    (_change(lambda t: t.update({f"{NAME}.scale": torch.zeros(31)})), "with a scale for each row"),
    (_change(lambda t: t.update({f"{NAME}.int8": torch.zeros(32, 32)})), "must be a matrix of int8"),
    (_change(lambda t: [t.pop(f"{NAME}.{kind}") for kind in ("int8", "scale")]), f"{NAME} is missing"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOIL)
def test_a_truncated_or_mixed_int8_file_is_refused(tmp_path, spoil, message):
    regard.Transformer(regard.TransformerConfig.tiny(40, width=32, hidden=48)).save(tmp_path, int8=True)
    spoil(tmp_path / "model.safetensors")
    with pytest.raises(regard.FileError, match=message):
        regard.Transformer.load(tmp_path)


def test_marian_folders_both_ways(tiny_translator, tmp_path):
    transformers = pytest.importorskip("transformers")
    ctranslate2 = pytest.importorskip("ctranslate2")
    marian = tmp_path / "marian"
    tiny_translator.to_marian(marian)
    sources = [source for source, _ in PAIRS[:8]]
    ours = [t.text for t in tiny_translator.translate(sources)]

    tokenizer = transformers.MarianTokenizer.from_pretrained(marian)
    theirs = transformers.MarianMTModel.from_pretrained(marian).eval()
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    assert batch["input_ids"][0].tolist() == [*tiny_translator.words.encode(sources[0]), 0] + [
        tiny_translator.words.pad
    ] * (batch["input_ids"].shape[1] - len(tiny_translator.words.encode(sources[0])) - 1)
    said = theirs.generate(**batch, num_beams=4, max_length=60)
    assert tokenizer.batch_decode(said, skip_special_tokens=True) == ours

    ctranslate2.converters.TransformersConverter(str(marian)).convert(str(tmp_path / "ct2"))
    fast = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    pieces = [[*tiny_translator.words.pieces(tiny_translator.words.encode(source)), "</s>"] for source in sources]
    found = fast.translate_batch(pieces, beam_size=4)
    assert [t.tokens for t in tiny_translator.translate(sources)] == [f.hypotheses[0] for f in found]

    back = Translator.load(marian)
    assert [t.text for t in back.translate(sources)] == ours
    with pytest.raises(regard.InputError, match="use to_marian"):
        back.save(tmp_path / "no")
    back.to_marian(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "vocab.json").read_text()) == json.loads(
        (marian / "vocab.json").read_text()
    )
    (marian / "target.spm").unlink()
    with pytest.raises(regard.FileError, match=r"target.spm is missing"):
        Translator.load(marian)


def test_what_does_not_belong_together_is_refused(tiny_translator, tmp_path):
    other = regard.Transformer(regard.TransformerConfig.tiny(40))
    with pytest.raises(regard.InputError, match="Do they belong together"):
        Translator(other, tiny_translator.words)
    other.save(tmp_path)
    with pytest.raises(regard.FileError, match=r"vocabulary.spm is missing"):
        Translator.load(tmp_path)
    tiny_translator.words.save(tmp_path)
    with pytest.raises(regard.FileError, match="Do they belong together"):
        Translator.load(tmp_path)
    (tmp_path / "vocabulary.spm").write_bytes(b"no")
    with pytest.raises(regard.FileError, match="not a SentencePiece model"):
        Translator.load(tmp_path)


@pytest.mark.parametrize("settings", [{"beam": 0}, {"alternatives": 0}, {"beam": 1001}, {"alternatives": 100_000}])
def test_bad_settings_are_refused(tiny_translator, settings):
    with pytest.raises(regard.InputError, match=r"a beam and alternatives from 1 to 1,000\. Got beam="):
        tiny_translator.translate(SENTENCE, **settings)


def test_the_wider_the_beam_the_fewer_segments_are_searched_together():
    assert [_Settings(beam).of_search["sentences"] for beam in (1, 4, 32, 100, 1000)] == [32, 32, 32, 10, 1]
    assert _Settings(4, alternatives=1000).of_search["sentences"] == 1
