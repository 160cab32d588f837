"""A page of a small translator, and a client that talks to it without a network."""

from contextlib import closing

import pytest
from support.page_client import TEXT, read


@pytest.fixture(scope="module")
def page(tiny_translator):
    from regard.page import Page, TranslatorReader

    with closing(Page(TranslatorReader(tiny_translator, "small"))) as page:
        yield page


@pytest.fixture(scope="module")
def client(page):
    from starlette.testclient import TestClient

    with TestClient(page.app(), base_url="http://127.0.0.1:8765", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def reading(client):
    return read(client, text=TEXT)
