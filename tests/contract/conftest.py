import itertools

import pytest
from amount import FUZZ_ONLY, NIGHTLY

from tokfmt.formats.flat import FlatFormat
from tokfmt.formats.record_files import RecordFilesFormat
from tokfmt.testing import FormatContract

DAMAGE = "test_damage_never_crashes"
"""The law of `FormatContract` that cuts and flips a file at every place."""
if not NIGHTLY:
    FormatContract.many = 240  # enough to see work for each pair of files

ONCE = (
    DAMAGE,
    "test_processes",
    "test_large_datasets_in_little_memory",
    "test_axis",
    "test_schedule",
    "test_a_cut_file_gives_sequences_of_the_original",
    "test_sequence_longer_than_window_and_region",
    "test_work_follows_the_number_of_files",
)
"""Laws of one variant of each format, as all variants share a reader and a writer; `make fuzz` tries the others."""
BY_FAMILY = (
    "test_processes",
    "test_large_datasets_in_little_memory",
    "test_schedule",
    "test_sequence_longer_than_window_and_region",
    "test_work_follows_the_number_of_files",
)
"""Those among them that the reader and the writer of a family keep, for one format of the family."""
FAMILIES = RecordFilesFormat, FlatFormat


@pytest.fixture(autouse=True)
def _damages(request, monkeypatch):
    """Every third damage, beginning at the first byte: tracing the allocations of each takes 4 times as long as reading."""
    if request.node.originalname == DAMAGE and not NIGHTLY and issubclass(request.cls, FormatContract):
        damages = request.cls._damages
        monkeypatch.setattr(
            request.cls, "_damages", lambda self, content: itertools.islice(damages(self, content), 0, None, 3)
        )


@pytest.fixture(autouse=True)
def _workers(request):
    """Worker processes are started once, not for each class."""
    if request.node.originalname == "test_processes":
        request.getfixturevalue("kept_workers")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    seen = {}
    for item in items:
        name = getattr(item, "originalname", "")
        if name in ONCE:
            item.add_marker(pytest.mark.slow)
        if name in ONCE and issubclass(item.cls or object, FormatContract):
            family = next((kind for kind in FAMILIES if isinstance(item.cls.format, kind)), None)
            shared = family if name in BY_FAMILY and family else item.cls.format.name
            first = seen.setdefault((name, shared), item.cls)
            if item.cls is not first:
                item.add_marker(FUZZ_ONLY)
