"""Records that several tests ask questions of."""

import pytest


@pytest.fixture(scope="session")
def llama():
    import torch
    from support.models import FAMILIES, WORDS, made

    import regard

    model = made("Llama")
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**FAMILIES["Llama"].inputs("left"))
    return record


@pytest.fixture(scope="session")
def bart():
    import torch
    from support.models import FAMILIES, WORDS, made

    import regard

    model, inputs = made("BART"), FAMILIES["BART"].inputs(None)
    inputs["decoder_input_ids"] = inputs["decoder_input_ids"][:, :5]
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**inputs)
    return record
