import pytest

DAMAGE = "test_damage_never_crashes"
"""The law of `FormatContract` that cuts and flips a file at every place."""


def pytest_collection_modifyitems(items):
    for item in items:
        if getattr(item, "originalname", "") == DAMAGE:
            item.add_marker(pytest.mark.slow)
