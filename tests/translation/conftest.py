"""What tests of trainings by several processes share."""

import pytest


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Called with a recipe's changes: the folder of its training by one process. All that it needs is imported then."""
    import torch.distributed.fsdp  # noqa: F401
    from support.translation import ranks

    from regard.translation import Recipe, train

    home, known = tmp_path_factory.mktemp("whole"), {}

    def trained(**changes):
        key = str(sorted(changes.items()))
        if key not in known:
            known[key] = home / f"{len(known)}"
            train(Recipe.read(ranks.recipe(home, **changes)), known[key], quiet=True)
        return known[key]

    return trained
