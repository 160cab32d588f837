"""One word from its input to its output."""

from support.samples import texts

import regard
from regard import drawing, textbook


def test_one_word_all_the_way():
    done = regard.steps(*textbook.i_am_good())
    parts = {"x": done.x, "queries": done.queries, "keys": done.keys, "values": done.values, "words": done.words}
    shown = texts(drawing.schematic(**parts, word="I"))
    assert {"q · k = 89.6", "÷ 8 = 11.2", "90 %", "7 %", "3 %"} <= set(shown)
    assert not {"90 %", "7 %"} & set(texts(drawing.schematic(**parts, until="scores")))
    assert (
        sum(
            text.startswith("W") for text in texts(drawing.schematic(**parts, matrices=["values"], until="projections"))
        )
        == 3
    )
