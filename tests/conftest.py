"""Shapes in signatures are checked while the tests run; tests of bad input or of torch.compile opt out."""

import os
import signal
import sys
import threading

import pytest
from filelock import FileLock

# Not Triton's kernels, which are read as source, nor the files of attention that torch.compile traces through: it cannot
# look through the checks. (The model is compiled in a process of its own.)
ROOMS = ("backends.chooser", "backends.contract", "backends.cuts", "backends.reference")
ROOMS += ("backends.tiles", "backends.torch_cpu", "backends.torch_cuda", "backends.triton.launch", "drawing", "learn")
ROOMS += ("matrix.attention_matrix", "matrix.axes", "matrix.lazy_matrix", "matrix.normalised", "matrix.picture")
ROOMS += (
    "distributed",
    "maps",
    "nn",
    "page",
    "scores.bound_mask",
    "scores.scores",
    "serving",
    "translation",
    "watching",
)
collect_ignore = ["mutants.py"]  # needs mutmut, which `make mutants` installs


def pytest_configure(config):
    """Prepare every process that runs tests; the one of pytest-xdist that only hands them out imports nothing heavy."""
    # Only what is imported after `checks.install` is checked, and pytest imports the conftest.py of each folder that is
    # named on the command line before it comes here. Told at once, or all tests of that run would check no signature.
    if "regard" in sys.modules:
        raise pytest.UsageError("a conftest.py imports regard too early: import it inside of the fixtures.")
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in its background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["OMP_NUM_THREADS"] = "1"  # in processes that tests start, too: pytest-xdist already uses every core

    import torch
    from hypothesis import HealthCheck, settings
    from support import checks

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: its kernels then run on the CPU
    checks.install([f"regard.{room}" for room in ROOMS])  # before regard is imported
    torch.set_num_threads(1)
    settings.register_profile(
        "regard",
        deadline=None,
        max_examples=60,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.load_profile("regard")


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(items):
    """The slow ones first, so that none is left to run alone at the end; the site last: by then its pages have run.

    What needs a browser or the shipped model is slow by that alone.
    """
    for item in items:
        if {"browser", "shipped"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
    items.sort(key=lambda item: 2 if "site" in item.fixturenames else item.get_closest_marker("slow") is None)


@pytest.fixture
def unchecked():
    """No shape checks: what the user sees is regard's own error."""
    from jaxtyping import config

    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that all workers of one run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def tiny_translator(shared):
    """A translator of a small grammar, trained once for all workers."""
    from jaxtyping import config

    import regard

    folder = shared / "tiny"
    with FileLock(shared / "tiny.lock"):
        if not folder.exists():
            config.update("jaxtyping_disable", True)  # some seconds less
            from support.translation import tiny

            tiny.train().save(folder)
            config.update("jaxtyping_disable", False)
    return regard.Translator.load(folder)


@pytest.fixture(scope="session")
def shipped():
    """The translator in the package."""
    import regard

    return regard.Translator.default()


@pytest.fixture
def terminal(monkeypatch):
    """Called with a function, it runs it with a terminal as output and error, and gives what arrived there."""
    monkeypatch.setenv("TERM", "dumb")  # no colours: then every escape is one of the text's
    monkeypatch.setenv("COLUMNS", "200")

    def run(function):
        import pty  # not on Windows

        inside, outside = pty.openpty()
        arrived = []

        def read():  # while the function runs, for a terminal takes a few kilobytes only
            try:
                while data := os.read(inside, 65536):
                    arrived.append(data)
            except OSError:  # the other end was closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        try:
            with (
                monkeypatch.context() as patch,
                os.fdopen(outside, "w", encoding="utf-8") as output,
                os.fdopen(os.dup(outside), "w", encoding="utf-8") as error,
            ):
                patch.setattr(sys, "stdout", output)
                patch.setattr(sys, "stderr", error)
                function()
        finally:
            reader.join()
            os.close(inside)
        return b"".join(arrived).decode().replace("\r\n", "\n")

    return run


@pytest.fixture(scope="module")
def browser():
    """Chromium, the same for all tests of a file."""
    from support.browser import launched

    with launched() as started:
        yield started
