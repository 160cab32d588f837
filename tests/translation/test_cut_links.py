"""A translator without some links, through its beam search: equal to dense attention with an edited mask."""

import pytest
import torch
from support.eager import Edit, attend

import regard
from regard import Link

pytestmark = pytest.mark.usefixtures("unchecked")
SENTENCE = "A dog ate the food because it was hungry."


def _eager(translator, edits, text):
    """What is translated with every attention written out; edits by kind."""
    layers = [module for module in translator.model.modules() if isinstance(module, regard.MultiHeadAttention)]

    def dense(kind):
        def eager(query, key, value, mask=None, **_):
            queries, keys = query.shape[-2], key.shape[-2]
            scores = query @ key.mT * query.shape[-1] ** -0.5
            if kind == "decoder":
                scores = scores.masked_fill(~torch.ones(queries, keys).tril(keys - queries).bool(), -torch.inf)
            mine = [edit for edit in edits if edit.kind == kind]
            return attend(scores, value, mine, keys - queries if kind == "decoder" else 0)[0]

        return eager

    for layer in layers:
        layer.attend = dense(layer.kind)
    try:
        return translator.translate(text, beam=3)
    finally:
        for layer in layers:
            layer.attend = regard.attention


def test_a_translator_without_links_is_dense_attention_with_an_edited_mask(shipped):
    translator = shipped
    plain = translator.translate(SENTENCE, beam=3)
    source = next(iter(plain.watch().at(kind="encoder").values())).tokens[0]
    dog = source.find("dog")
    links = [Link(None, "dog", kind="cross"), Link(None, "dog", kind="encoder")]
    edits = [Edit(range(2**40), dog, kind=kind) for kind in ("cross", "encoder")]
    with regard.watch(translator.model, tokenizer=translator.tokenizer, keep=(), without=links):
        found = translator.translate(SENTENCE, beam=3)
    expected = _eager(translator, edits, SENTENCE)
    assert found.text == expected.text
    assert found.score == pytest.approx(expected.score, abs=1e-4)
    assert "chien" in plain.text
    assert "chien" not in found.text  # nobody saw the dog
    record = plain.watch(without=links)
    assert record.looked_at("dog", kind="encoder").note == "the mask hides it: nothing looks at it."
    assert len(record.changes) == 2
    assert plain.watch().changes == ()
    ids = torch.tensor([[*translator.words.encode(SENTENCE), translator.words.end]])
    target = torch.tensor([[translator.model.config.start, *translator.words.encode(plain.text)]])
    effect = regard.effect(translator.model, (ids, target), without=links, tokenizer=translator.tokenizer)
    assert effect.divergence.max() > 0.1
