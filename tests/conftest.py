"""Settings of all tests."""

import pytest
from hypothesis import settings

# how long an example takes says how busy the machine is
settings.register_profile("tokfmt", deadline=None)
settings.load_profile("tokfmt")


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory):
    """What the browser remembers of whoever runs the tests is neither seen nor changed by them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
