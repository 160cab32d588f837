"""What the pages gave, run once for the tests of the pages, the notebooks and the site."""

import pytest


@pytest.fixture(scope="session")
def cache(shared):
    """Where all workers of one run find what the pages gave."""
    return shared / "pages"


@pytest.fixture
def ran(cache, unchecked):
    """A page that has run."""
    from page import Page

    return lambda path: Page.read(path).run_cached(cache)
