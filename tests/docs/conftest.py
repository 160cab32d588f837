"""What the pages gave, run once for the tests of the pages, the notebooks and the site."""

import os

import pytest
from page import Page


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder that all workers of one run share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "pages"


@pytest.fixture
def ran(cache, unchecked):
    """A page that has run."""
    return lambda path: Page.read(path).run_cached(cache)
