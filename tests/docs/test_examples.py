"""The examples, at a reduced size: each still shows what it says it shows."""

import pytest

from examples import attention_against_lstm, sets_dna, sets_graph, tiny_gpt


@pytest.mark.slow
def test_attention_recalls_at_a_distance_where_an_lstm_of_its_size_does_not(capsys):
    results = attention_against_lstm.main(quick=True)
    attention, _, lstm, gentle = results.values()
    far = max(attention.accuracy)
    assert abs(attention.parameters / lstm.parameters - 1) < 0.01
    assert attention.accuracy[far] > 0.9
    assert lstm.accuracy[far] < 0.5
    assert lstm.accuracy[8] > 0.5  # it learns, where it is near
    assert gentle.accuracy[far] > 0.5  # and can remember, once it knows what
    assert "steps ago" in capsys.readouterr().out


@pytest.mark.slow
def test_the_tiny_gpt_learns_to_write_and_looks_back_from_it_to_the_animal(capsys):
    found = tiny_gpt.main(quick=True)
    assert found["last"] < found["first"] / 5
    assert found["right"] > 0.9
    assert found["animal"] > 0.5
    assert "it → bee" in capsys.readouterr().out


def test_the_tiny_gpt_is_asked_only_what_its_text_does_not_hold():
    questions = tiny_gpt.unwritten()
    assert len(questions) == 48
    for line, _ in questions:
        animal, thing = line.split()[1], line.split(",")[0].split()[-1]
        assert not [
            written for written in tiny_gpt.TEXT.splitlines() if f" {animal} " in written and f" {thing}," in written
        ]


@pytest.mark.slow
def test_the_motif_receives_the_attention_and_order_does_not_matter(capsys):
    found = sets_dna.main(quick=True)
    assert found["right"] > 0.8
    assert found["times"] > 2
    assert found["moved"] < 1e-4
    assert "█" in capsys.readouterr().out


@pytest.mark.slow
def test_a_graph_is_a_mask_and_what_it_hides_does_not_matter(capsys):
    found = sets_graph.main(quick=True)
    assert found["the graph"] > found["everyone"] + 0.05
    assert found["1 links"] > 0.1
    assert found["2 links"] > 0.1
    assert found["3 links"] == found["4 links"] == 0
    assert "exactly 0" in capsys.readouterr().out
