"""Shapes in signatures are checked while the tests run; whoever tests bad input or torch.compile opts out."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import config, install_import_hook

if os.environ.get("REGARD_SHAPES", "1") == "1":
    install_import_hook("regard", "beartype.beartype")

torch.set_num_threads(1)  # pytest-xdist already uses every core

settings.register_profile(
    "regard", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("regard")


@pytest.fixture
def unchecked():
    """No shape checks: what the user sees is regard's own error."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
from hypothesis import Phase
settings.register_profile("dev", settings.get_profile("regard"), phases=[Phase.explicit, Phase.generate])
if os.environ.get("DEV"): settings.load_profile("dev")
