"""The format of the example plug-in is installed."""

from importlib.metadata import EntryPoint

import made_plugins  # noqa: F401 - tokfmt_tape can be imported
import pytest

from tokfmt import registry


@pytest.fixture(scope="module", autouse=True)
def _tape():
    """The format of the example plug-in is installed."""
    tape = EntryPoint("tape", "tokfmt_tape:FORMAT", registry.GROUP)
    found = {**registry._points(), "tape": tape}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_points", lambda: found)
        registry.get.cache_clear()
        registry._usable.cache_clear()
        yield
    registry.get.cache_clear()
    registry._usable.cache_clear()
