"""A bucket of the protocol of S3 keeps the laws of places."""

import pytest

from tokfmt.plugin import place_of
from tokfmt.testing import StoreContract


class TestBucket(StoreContract):
    @pytest.fixture(autouse=True)
    def _served(self, fresh):
        """Every s3:// address is on the server with faults."""

    def home(self, tmp_path):
        return place_of("s3://bkt/home")
