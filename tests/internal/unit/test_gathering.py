"""Parts are put together while other regions are being written, in order of region, to the same bytes."""

import io
import pickle

import numpy as np
import pytest

from tokfmt.core.format import Receipt, Region, Target
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.formats.hdf5 import FORMAT, writer
from tokfmt.formats.hdf5.options import WriteOptions
from tokfmt.formats.hdf5.packing import Packer
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import NullJournal, Plan, Workers, run

SOURCE = MemoryReader(Ragged.of([np.arange(1, n, dtype=np.uint32) for n in range(2, 120)]))


class Recorder:
    """A writer that only notes what is asked of it, and when."""

    def __init__(self):
        self.calls = []

    def create(self, source):
        self.calls.append("create")

    def join_parts(self, source, receipt):
        self.calls.append(("gather", receipt.region))

    def commit(self, source, receipts):
        self.calls.append(("commit", [receipt.region for receipt in receipts]))


class Keeping(NullJournal):
    """As a journal does whose commits may be cut off."""

    keeps = True


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Runs a plan of four regions that are finished in another order; what was gathered when each was."""

    def record(journal):
        writer = Recorder()
        plan = Plan(writer, SOURCE, [Region(index, range(0), range(0)) for index in range(4)])
        finished = [Receipt(index, 0, 0) for index in (1, 0, 3, 2)]
        monkeypatch.setattr("tokfmt.run.plan.run_tasks", lambda *_: iter(finished))
        when = []
        for _ in run(plan, Workers(SerialExecutor(), 1, tmp_path, journal)):
            when.append([call[1] for call in writer.calls[1:]])
        assert writer.calls[-1] == ("commit", [0, 1, 2, 3])
        return when

    return record


def test_a_region_is_gathered_when_all_before_it_are_written(recorded):
    assert recorded(NullJournal()) == [[], [0, 1], [0, 1], [0, 1, 2, 3]]


def test_nothing_is_gathered_before_the_end_when_the_run_may_be_continued(recorded):
    assert recorded(Keeping()) == [[], [], [], []]


@pytest.mark.parametrize("name", ["x.h5", "x"])
@pytest.mark.parametrize("keep", [False, True])
def test_hdf5_files_do_not_depend_on_what_was_gathered_before_the_commit(tmp_path, name, keep):
    options, written = WriteOptions(seq_len=16, shard_size=1120), []
    for gathered in (0, 1, 9, None):
        path = tmp_path / f"{gathered}" / name
        path.parent.mkdir()
        writer = FORMAT.writer(path, options, Target(0, keep_parts=keep))
        regions = writer.regions(SOURCE, 300)
        assert len(regions) > 20
        writer.create(SOURCE)
        receipts = [writer.write(region, SOURCE) for region in regions]
        for receipt in receipts[:gathered]:
            writer.join_parts(SOURCE, receipt)
        assert pickle.loads(pickle.dumps(writer)).path == path  # though a file is open
        writer.commit(SOURCE, receipts)
        assert writer.parts.exists() is keep
        files = [path] if path.is_file() else sorted(path.iterdir())
        assert len(files) == (1 if name == "x.h5" else 7)
        written.append([file.read_bytes() for file in files])
    assert all(content == written[0] for content in written)


def test_a_part_is_written_with_one_call_and_read_by_the_megabyte(tmp_path, monkeypatch):
    """A call for each sample holds the interpreter's lock when other jobs would go on."""
    rng, calls = np.random.default_rng(3), []

    class Counted(io.FileIO):
        def write(self, data):
            calls.append("write")
            return super().write(data)

        def read(self, size=-1):
            calls.append("read")
            return super().read(size)

    monkeypatch.setattr(writer, "open", lambda path, mode: Counted(path, mode), raising=False)
    samples = rng.integers(0, 50_000, (400, 3, 512), np.int32)
    samples[::2] = rng.integers(-(2**31), 2**31, (200, 3, 512), np.int64)  # which compressing does not make fewer
    packer, full = Packer(512, shuffle=False), np.zeros(400, np.bool_)
    with Counted(tmp_path / "part", "wb") as out:
        out.write(np.array(writer.write_chunks(out, packer, samples, full), np.uint32).data)
    assert calls == ["write"] * 2
    expected = [packer.pack(sample, full=False) for sample in samples]
    assert {raw for _, raw in expected} == {True, False}
    assert [(bytes(data), raw) for data, raw in writer.read_part(tmp_path / "part", 400)] == expected
    assert calls.count("read") == 2 + sum(len(data) for data, _ in expected) // (1 << 20)
