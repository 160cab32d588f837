"""What is kept of texts that were read, and for how long."""

from dataclasses import replace

import pytest
import torch

import regard
from regard.errors import InputError
from regard.page.readings import Part, Reading, Readings, joined
from regard.watching.questions.atlas import roles


class Layer(torch.nn.Module):
    heads, kind, attend = 1, "encoder", staticmethod(regard.attention)

    def forward(self, x):
        return self.attend(x, x, x)


def reading(tokens=10):
    with regard.watch(Layer()) as record:
        record.model(torch.randn(1, 1, tokens, 8))
    entries = list(record.values())
    return Reading(entries, text="x", roles=roles(entries))


def part(tokens=10):
    found = reading(tokens)
    return Part(lambda: found, reading=found)


def test_names_are_long_and_different():
    names = {part().id for _ in range(50)}
    assert len(names) == 50
    assert min(map(len, names)) >= 16


def test_the_least_used_goes_first():
    kept, parts = Readings(most=3), [part() for _ in range(3)]
    for each in parts:
        kept.add([each])
    assert kept.get(parts[0].id) is parts[0]  # used again
    kept.add([part()])
    assert len(kept) == 3
    assert kept.get(parts[1].id) is None
    assert kept.get(parts[0].id) is parts[0]
    assert parts[1].reading is None  # and its numbers are gone


def test_bytes_are_bounded_too():
    large = part(1000)
    size = large.reading.size
    assert 32_000 <= size < 300_000  # queries and keys are one tensor here, and counted once
    kept = Readings(largest=2 * size + 100)
    kept.add([large])
    kept.add([part(1000)])
    assert len(kept) == 2
    kept.add([part(1000)])
    assert kept.get(large.id) is None
    kept.add([huge := part(9000)])
    assert len(kept) == 1
    assert kept.get(huge.id) is huge  # what is in use stays, whatever its size


def test_parts_that_are_not_open_take_no_room():
    kept = Readings(largest=1)
    closed = [Part(reading) for _ in range(20)]
    kept.add(closed)
    assert len(kept) == 20


def test_pinned_ones_stay():
    kept, first = Readings(most=2, largest=1), part()
    kept.add([first], pinned=True)
    for _ in range(5):
        kept.add([part()])
    assert kept.get(first.id) is first


def test_the_work_of_a_tile():
    """Deep tiles are counted, and too large ones refused; coarse ones come from levels, and cost nothing here."""
    found = reading(6000)
    one, whole = [(0, 0)], (0, 6000)
    assert found.work(one, (0, 256), (0, 300), (256, 256)) == 256 * 300 * 8
    found.entries = (replace(found.entries[0], attention=found.entries[0].call.matrix()),)  # no kernel ran
    assert found.work(one, (0, 256), (0, 300), (256, 256)) == 256 * 6000 * 8
    assert found.work(one, (0, 4096), (0, 4096), (128, 128)) == 0
    assert found.work(one, (0, 4096), (0, 4096), (129, 128)) == 4096 * 6000 * 8
    with pytest.raises(InputError, match="too large"):
        found._multiplied(0, heads=1 << 20, rows=6000, keys=6000)
    with pytest.raises(InputError, match="bins"):
        found.work(one, whole, whole, (600, 600))


def test_layers_of_several_lengths_have_sides_of_their_own():
    class Shrinks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer(), Layer()])

        def forward(self, x):
            return self.layers[1](self.layers[0](x)[:, :, ::2])

    with regard.watch(Shrinks(), tokens=list("abcdef")) as record:
        record.model(torch.randn(1, 1, 6, 8))
    entries = list(record.values())
    found = Reading(entries, text="abcdef", roles=roles(entries)).about()
    assert [(entry["rows"], entry["columns"]) for entry in found["entries"]] == [("source",) * 2, ("source+",) * 2]
    assert found["sides"]["source"]["count"] == 6
    assert found["sides"]["source+"] == {"count": 3, "tokens": [" 0", " 1", " 2"], "words": None, "special": []}


@pytest.mark.parametrize("text", ["The keys are on the table.", "I am good.", "My sister bought a red car.", "A dog."])
def test_the_most_telling_pair_of_words(text):
    """Held to a loop over all heads and pairs, in float64."""
    entries = list(regard.Translator.default().translate(text).watch().values())
    tokens = entries[0].tokens[0]
    words = [word for word in tokens.words if word.text.isalpha()]
    found = Reading(entries, text=text, roles=roles(entries)).about()["telling"]
    for least in ((2, 3), (0, 0)):  # letters of the word that looks, and of the other
        best = (0.0,)
        for n, entry in enumerate(entry for entry in entries if entry.kind == "encoder"):
            for head, weights in enumerate(entry.matrix[0].double().numpy()):
                table = [[weights[a.start : a.stop, b.start : b.stop].sum(1).mean() for b in words] for a in words]
                for i, a in enumerate(words):
                    for j, b in enumerate(words):
                        others = sum(table[k][j] for k in range(len(words)) if k != i) / max(len(words) - 1, 1)
                        if abs(i - j) > 1 and len(a.text) >= least[0] and len(b.text) >= least[1]:
                            above = table[i][j] - others
                            best = max(best, (above, n, head, a.start, b.start, table[i][j], others))
        if best[0]:
            break
    assert (found is None) == (best == (0.0,))
    if found is not None:
        assert [found[name] for name in ("entry", "head", "token", "to")] == list(best[1:5])
        assert (found["weight"], found["others"]) == pytest.approx(best[5:], abs=1e-6)


def test_a_whole_text_has_its_sentences_on_the_diagonal(tiny_translator):
    sentences = [
        tiny_translator.translate(text) for text in ("The dog sees the bread.", "The cat sees a bird.", "A dog.")
    ]
    parts = [list(each.watch().values()) for each in sentences]
    whole = joined(parts)
    for n, entry in enumerate(whole):
        blocks = [part[n].matrix[0] for part in parts]
        dense = torch.stack([torch.block_diag(*(block[head] for block in blocks)) for head in range(entry.shape[1])])
        assert torch.allclose(entry.matrix[0], dense, atol=1e-6), entry.name
        assert list(entry.tokens[0]) == [token for part in parts for token in part[n].tokens[0]]
        assert [word.text for word in entry.key_tokens[0].words] == [
            word.text for part in parts for word in part[n].key_tokens[0].words
        ]
