"""Settings of all tests."""

from hypothesis import settings

# how long an example takes says how busy the machine is
settings.register_profile("tokfmt", deadline=None)
settings.load_profile("tokfmt")
