"""CTranslate2 on a CPU: the targets of our own search, which answers wherever CTranslate2 cannot."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import ctranslate2
import pytest
import torch
from support.translation import tiny
from support.translation.random_models import SOURCES, STACKS, random_model, tokens
from test_pronouns import DOCUMENTS, ROWS

import regard
from regard.translation import search, searching
from regard.translation.searching import Hypothesis, definition, engine, search_all
from regard.translation.searching.engine import Engine

pytestmark = pytest.mark.usefixtures("unchecked")


def own(model, sources, **settings):
    return [search(model, torch.tensor([source]), **settings)[0] for source in sources]


@pytest.fixture
def exact(monkeypatch):
    """Engines compute in float32, as on a CPU that is no faster in int8."""
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda device: {"float32"})


@pytest.mark.parametrize("changes", STACKS)
@pytest.mark.parametrize(("beam", "length_penalty"), [(1, 1.0), (4, 1.0), (3, 0.6)])
def test_in_float32_it_finds_the_targets_and_scores_of_our_own_search(changes, beam, length_penalty, exact):
    model = random_model(**changes)
    sources = [[token for token in source if token != model.config.pad] for source in SOURCES]
    assert Engine.of(model) is not None
    found = search_all(model, sources, beam=beam, length_penalty=length_penalty)
    expected = own(model, sources, beam=beam, length_penalty=length_penalty)
    assert tokens(found) == tokens(expected)
    for best, other in zip(found, expected, strict=True):
        assert [h.score for h in best] == pytest.approx([h.score for h in other], abs=1e-4)


def test_a_trained_model_says_the_same_in_int8(tiny_translator):
    texts = [source for source, _ in tiny.pairs(8, seed=7)]
    sources = [[*tiny_translator.words.encode(text), 0] for text in texts]
    found = search_all(tiny_translator.model, sources)
    assert Engine.of(tiny_translator.model) is not None
    assert [best[0] for best in tokens(found)] == [best[0] for best in tokens(own(tiny_translator.model, sources))]


def test_the_shipped_model_says_the_same(shipped):
    texts = [*DOCUMENTS, *(row[0] for row in ROWS[::8])]
    sources = [[*shipped.words.encode(text), 0] for text in texts]
    found = [best[0].tokens for best in search_all(shipped.model, sources)]
    expected = [best[0].tokens for best in own(shipped.model, sources)]
    assert found[: len(DOCUMENTS)] == expected[: len(DOCUMENTS)]
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    assert same >= 0.8 * len(texts)  # int8: of 500 lines of Tatoeba, 445


def test_the_shipped_model_says_the_same_in_float32(shipped):
    sources = [[*shipped.words.encode(row[0]), 0] for row in ROWS[::8]]
    (found,) = Engine(shipped.model, int8=False).search([sources], beam=4, length_penalty=1.0)
    assert [best[0].tokens for best in found] == [best[0].tokens for best in own(shipped.model, sources)]


# Where our own search answers


def test_a_loop_is_searched_again(exact):
    model = random_model()
    with torch.no_grad():
        model.output_bias[13] += 12  # it says nothing else, if nobody stops it
    (free,) = Engine.of(model).search([SOURCES], beam=2, length_penalty=1.0)
    assert any(definition._run(target.tokens, 1) > 2 for best in free for target in best)
    found = search_all(model, SOURCES, beam=2)
    assert tokens(found) == tokens(own(model, SOURCES, beam=2))
    assert all(definition._run(tokens, 1) <= 2 for best in found for tokens in [h.tokens for h in best])


class Scripted:
    """An engine that says what it is told to."""

    workers, config = 1, regard.TransformerConfig.tiny(40)

    def __init__(self, *targets):
        self.targets = [Hypothesis(tokens, -float(n), ended) for n, (tokens, ended) in enumerate(targets)]

    def search(self, batches, **_):
        return [[self.targets for _ in batch] for batch in batches]


FINE, SHORT, LOOP, CUT = ([5, 6, 7], True), ([5], True), ([9, 8, 8, 8, 8, 7], True), ([5, 6], False)
LONG, LONGER = (list(range(5, 26)), True), (list(range(5, 27)), True)  # of a source of 3: 2 × 3 + 16 with the end


@pytest.mark.parametrize(
    ("targets", "needed", "kept"),
    [
        ((FINE, SHORT), 2, [FINE, SHORT]),
        ((FINE, LOOP, SHORT, CUT), 2, [FINE, SHORT]),  # what nobody needs is left out
        ((FINE, LOOP, SHORT, CUT), 3, None),  # our own search is asked
        ((LOOP, CUT, FINE), 1, [FINE]),
        ((LOOP, CUT), 1, None),
        ((LONGER, LONG, FINE), 2, [LONG, FINE]),
        ((LONGER,), 1, None),
    ],
)
def test_only_for_what_is_needed_our_own_search_is_asked(targets, needed, kept):
    found = searching.search_by_engine(Scripted(*targets), [[4, 5, 0]], beam=4, length_penalty=1.0, needed=needed)
    assert {n: [(h.tokens, h.ended) for h in best] for n, best in found.items()} == ({0: kept} if kept else {})


@pytest.mark.parametrize("engine", [True, False])
def test_a_source_that_comes_twice_is_searched_once(engine, monkeypatch):
    model, given, done = random_model(), [], []
    if engine:
        made = Engine.of(model)
        original = made.search
        monkeypatch.setattr(made, "search", lambda all, **k: original([given.extend(b) or b for b in all], **k))
    else:
        monkeypatch.setattr(Engine, "of", lambda _: None)
        original = searching.search
        monkeypatch.setattr(searching, "search", lambda m, all, **k: given.extend(all) or original(m, all, **k))
    once = tokens(search_all(model, SOURCES))
    given.clear()
    found = search_all(model, [*SOURCES, *SOURCES[::-1]], advance=done.append)
    assert tokens(found) == once + once[::-1]
    assert len(given) == len(SOURCES)
    assert sum(done) == 2 * sum(map(len, SOURCES))
    found[0].clear()
    assert found[-1]  # a list of its own


def test_what_the_source_repeats_may_be_repeated():
    assert definition.loops([4, 5, 6, 0], [7, 7, 7, 7])
    assert not definition.loops([4, 5, 6, 0], [7, 7, 7])
    assert not definition.loops([5, 5, 5, 5, 0], [7, 7, 7, 7])
    assert definition.loops([4, 0], [1, 2] * 4)
    assert not definition.loops([4, 0], [1, 2] * 3)


def test_targets_without_an_end_are_cut_off_where_our_own_search_does(exact):
    model = random_model()
    with torch.no_grad():
        model.output_bias[model.config.end] = -50
    found = search_all(model, SOURCES, beam=2)
    assert tokens(found) == tokens(own(model, SOURCES, beam=2))
    assert [len(best[0].tokens) for best in found] == [2 * len(source) + 16 for source in SOURCES]
    assert not any(hypothesis.ended for best in found for hypothesis in best)


def test_it_stops_at_the_maximum_length_of_the_longest_source():
    model = random_model(positions=400)
    with torch.no_grad():
        model.output_bias[model.config.end] = -50
    source = [*range(5, 39)] * 4 + [0]
    ((best, *_),) = next(Engine.of(model).search([[source]], beam=2, length_penalty=1.0))
    assert (len(best.tokens), best.ended) == (2 * len(source) + 16, False)


@pytest.mark.parametrize("settings", [{"beam": 30}, {"length_penalty": 0.0}])
def test_settings_of_our_own(settings):
    model = random_model()
    assert tokens(search_all(model, SOURCES, **settings)) == tokens(own(model, SOURCES, **settings))


class Louder(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_it_is_used_only_where_nobody_would_notice(side):
    def layer(model):
        return getattr(model, side).layers[-1].feed_forward

    model = random_model()
    assert Engine.supports(model)
    with regard.watch(model):
        assert not Engine.supports(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert not Engine.supports(model)
    for register in (
        layer(model).register_forward_hook, layer(model).up.register_forward_pre_hook, model.register_forward_hook,
    ):  # fmt: skip
        hook = register(lambda *_: None)
        assert not Engine.supports(model)
        hook.remove()
    assert Engine.supports(model)
    assert not Engine.supports(model.double())
    assert not Engine.supports(model.float().train())
    assert Engine.supports(model.eval())
    kept, layer(model).up = layer(model).up, Louder(32, 48)
    assert not Engine.supports(model)
    layer(model).up = kept
    look = getattr(model, side).layers[0].attention
    look.attend = lambda *args, **options: regard.attention(*args, **options)
    assert not Engine.supports(model)
    look.attend = regard.attention
    for method in ("encode", "decode", "states", "logits"):
        setattr(model, method, getattr(model, method).__call__)
        assert not Engine.supports(model)
        delattr(model, method)
    assert Engine.supports(model)
    assert not Engine.supports(random_model(key_heads=2))


def test_without_a_folder_for_temporary_files_our_own_search_answers(monkeypatch, exact):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine.tempfile, "TemporaryDirectory", full)
    model = random_model()
    assert Engine.of(model) is None
    assert tokens(search_all(model, SOURCES)) == tokens(own(model, SOURCES))


def test_without_ctranslate2_our_own_search_answers(monkeypatch):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    assert Engine.of(random_model()) is None


# Its life


def test_it_follows_the_model_and_leaves_with_it():
    model = random_model()
    first = Engine.of(model)
    assert Engine.of(model) is first
    for tensor in (model.embedding.weight, model.output_bias, model.decoder.layers[0].cross.projection.bias):
        with torch.no_grad():
            tensor.mul_(1.5)
        assert Engine.of(model) is not first
        first = Engine.of(model)
    gone = weakref.ref(model)
    engines = weakref.ref(first)
    del model, first
    gc.collect()
    assert gone() is None
    assert engines() is None


@pytest.mark.parametrize("workers", [1, 3])
def test_sources_of_all_lengths_come_back_in_order(workers, monkeypatch, exact):
    before = torch.get_num_threads()
    torch.set_num_threads(workers)
    try:
        model = random_model()
        torch.manual_seed(1)
        sources = [[*torch.randint(4, 39, (n % 23 + 1,)).tolist(), 0] for n in range(50)]
        monkeypatch.setattr(searching, "_MOST_TOKENS", 60)
        steps = []
        found = search_all(model, sources, beam=2, sentences=8, advance=steps.append)
    finally:
        torch.set_num_threads(before)
    assert tokens(found) == tokens(own(model, sources, beam=2))
    assert sum(steps) == sum(map(len, sources))


def test_no_more_batches_run_at_a_time_than_torch_has_threads(monkeypatch):
    made = Engine(random_model())
    made.workers = 5
    alive, most = [], []

    class Result:
        def done(self):
            return True

        def result(self):
            alive.pop()
            return type("Found", (), {"hypotheses": [["5", "0"]], "scores": [0.0]})

    class Translator:
        def translate_batch(self, batch, **_):
            alive.append(batch)
            most.append(len(alive))
            return [Result()]

    made._translator = Translator()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert len(list(made.search([[[5, 0]]] * 9, beam=1, length_penalty=1.0))) == 9
    assert max(most) == 3
    most.clear()
    made.workers = 2
    assert len(list(made.search([[[5, 0]]] * 9, beam=1, length_penalty=1.0))) == 9
    assert max(most) == 4  # two run, and two wait


def test_several_threads_share_one_engine():
    model, found = random_model(), []
    expected = tokens(search_all(model, SOURCES))
    other = random_model()
    threads = [threading.Thread(target=lambda: found.append(tokens(search_all(other, SOURCES)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


FORK = """
import os, sys, torch, regard
from regard.translation.searching import Hypothesis, search_all
torch.manual_seed(0)
model = regard.Transformer(regard.TransformerConfig.tiny(40)).eval()
def answer():
    return [best[0].tokens for best in search_all(model, [[5, 6, 0], [7, 0]])]
before = answer()
child = os.fork()
if child == 0:
    sys.exit(0 if answer() == before else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert answer() == before
print("same")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_makes_its_own():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120)
    assert done.stdout == "same\n", done.stderr


def test_ctrl_c_does_not_wait_for_a_batch(monkeypatch):
    made = Engine(random_model())

    class Never:
        def done(self):
            signal.raise_signal(signal.SIGINT)
            return False

    class Translator:
        def translate_batch(self, *_, **__):
            return [Never()]

    made._translator = Translator()
    with pytest.raises(KeyboardInterrupt):
        list(made.search([[[5, 0]]], beam=1, length_penalty=1.0))


def test_weights_that_are_nan_are_named():
    model = random_model()
    with torch.no_grad():
        model.embedding.weight[7] = torch.nan
    assert Engine.of(model) is None
    with pytest.raises(regard.RegardError, match="NaN"):
        search_all(model, [[7, 0]])


def test_torch_keeps_its_threads(monkeypatch):
    """But a model is converted by one: on a busy machine, two take ten times as long for so many small steps."""
    describe, used = engine._specification, []
    monkeypatch.setattr(
        engine,
        "_specification",
        lambda *args, **options: used.append(torch.get_num_threads()) or describe(*args, **options),
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        made = Engine(regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval())
        assert (used, made.workers, torch.get_num_threads()) == ([1], 2, 2)
        list(made.search([[[5, 6, 0]], [[7, 0]]], beam=2, length_penalty=1.0))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_model_is_loaded_by_one_thread(monkeypatch):
    load, used = regard.Transformer.load, []
    monkeypatch.setattr(regard.Transformer, "load", lambda folder: used.append(torch.get_num_threads()) or load(folder))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        regard.Translator.default()
        assert (used, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)
