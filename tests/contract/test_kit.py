"""What the contract kit is for: each of these plug-ins is wrong in one way, and one law of the kit shows it."""

import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tokfmt_strata
from made_plugins import tokfmt_reel, tokfmt_tape

from tokfmt.core.format import Target
from tokfmt.core.ragged import Ragged
from tokfmt.core.records import RecordBatch
from tokfmt.errors import ConversionError, FormatError, UnsupportedError
from tokfmt.plugin import Confidence
from tokfmt.testing import FormatContract


def kit(format_, **facts):
    """The laws for a format that is like reels, or like tapes."""
    tape = isinstance(format_, tokfmt_tape.Format)
    told = {"filename": "x.tape", "eos_id": 50256} if tape else {"filename": "x.reel", "accounted": True}
    told |= {"max_id": 2**32 - 1, "format": format_, "write_variants": [{}, {"shard_size": 16}][: 1 if tape else 2]}
    told |= {"sparse_tokens": 1 << 23, "peak_bytes": 24 << 20}
    return type("Kit", (FormatContract,), {**told, **facts})()


def broken(law, format_, match, **facts):
    """A law fails, and says why."""
    with tempfile.TemporaryDirectory() as home, pytest.raises(AssertionError, match=match):
        getattr(kit(format_, **facts), f"test_{law}")(Path(home))


class Reel(tokfmt_reel.Format):
    """Reels that another reader reads, and another writer writes."""

    def __init__(self, reader=tokfmt_reel.Reader, writer=tokfmt_reel.Writer):
        self.Reader, self.Writer = reader, writer


class Unchecked(tokfmt_tape.Format):
    """Finds nothing, whatever the reader refuses."""

    def inspect(self, paths, options, hints):
        inspection = super().inspect(paths, options, hints)
        inspection.findings = lambda how: iter(())
        return inspection


def test_a_checksum_that_is_ignored():
    """A tape has none: what is flipped in its ids is read as other IDs."""
    broken("damage_never_crashes", tokfmt_tape.FORMAT, "is read as other IDs", checksummed=True)


def test_a_checker_that_never_finds_anything():
    broken("damage_never_crashes", Unchecked(), r"is refused \(.*\), and check finds nothing")


def test_a_deep_check_that_does_not_read():
    class Shallow(Reel):
        def inspect(self, paths, options, hints):
            inspection = super().inspect(paths, options, hints)
            inspection.look = lambda how: iter(())
            return inspection

    broken("damage_never_crashes", Shallow(), "is refused when it is read .*, and a deep check finds nothing")


def test_a_missing_shard_that_is_accepted():
    class Lax(tokfmt_reel.Reader):
        def __init__(self, paths, options, hints):
            with contextlib.suppress(FormatError):
                super().__init__(paths, options, hints)
                return
            index = paths[0] / tokfmt_reel.INDEX
            kept = index.read_text()
            counts = json.loads(kept)["records"]
            listed = [one for k, one in enumerate(counts) if (paths[0] / f"{k:05d}.reel.gz").is_file()]
            index.write_text(json.dumps({"version": 1, "records": listed}))
            try:
                super().__init__(paths, options, hints)
            finally:
                index.write_text(kept)

        def records(self, path):
            with contextlib.suppress(FormatError):
                yield from super().records(path)

    broken("a_missing_file_never_crashes", Reel(Lax), r"without 0000\d.reel.gz it is read as other IDs")


class Hoarder(tokfmt_reel.Reader):
    """Holds a shard."""

    def ids(self, block):
        held = [ids for batch in super().ids(block) for ids in batch.ragged]
        yield RecordBatch(ragged=Ragged.of(held))


class Greedy(tokfmt_tape.Writer):
    """Holds a region."""

    def write(self, region, source):
        held = source.tokens(0, source.info.tokens).astype(np.uint32)
        receipt = super().write(region, source)
        return receipt if len(held) else None


class Greed(tokfmt_tape.Format):
    Writer = Greedy


@pytest.mark.parametrize(("format_", "doing"), [(Reel(Hoarder), "reading"), (Greed(), "writing")])
def test_kit_detects_a_reader_that_loads_everything(format_, doing):
    broken("large_datasets_in_little_memory", format_, f"^{doing}: .* bytes of memory")


class Careless(tokfmt_reel.Writer):
    """Leaves its drafts where it builds."""

    @property
    def drafts(self):
        return self.path

    @drafts.setter
    def drafts(self, path):
        pass

    def commit(self, source, receipts):
        self.target = Target(keep_parts=True)
        super().commit(source, receipts)


class Direct(tokfmt_reel.Writer):
    """Writes a file under its name, which a second one finds there."""

    def write(self, region, source):
        (self.path / f"{region.index:05d}.reel.gz").open("x").close()
        return super().write(region, source)


def test_a_write_that_leaves_something_behind():
    broken("large_datasets_in_little_memory", Reel(writer=Careless), r"written and not listed: .*00000\.reel\.")


def test_a_region_that_cannot_be_written_twice():
    with tempfile.TemporaryDirectory() as home, pytest.raises(FileExistsError):
        kit(Reel(writer=Direct)).test_two_write_a_region_at_once(Path(home))


@pytest.mark.parametrize("what", ["random bytes", "JSON lines"])
def test_a_sniffer_that_is_certain_of_anything(what):
    class Certain(tokfmt_tape.Format):
        def recognize(self, probe):
            fits = probe.head.startswith(b"{") == (what == "JSON lines")
            return Confidence.CERTAIN if probe.path.suffix == ".tape" and fits else super().recognize(probe)

    broken("is_certain_of_nothing_else", Certain(), f"{what} called x.tape is taken for certain")


class OffByOne(tokfmt_reel.Reader):
    def record(self, index):
        return super().record(max(index - 1, 0))


class Miscounted(tokfmt_reel.Reader):
    def count(self):
        return super().count() + 1

    def blocks(self, size, first=0, last=None):
        return super().blocks(size, first, super().count() if last is None else last)


class Unbounded(tokfmt_reel.Reader):
    def blocks(self, size, first=0, last=None):
        return super().blocks(size, first, last) if last == first + 1 else super().blocks(size)


class Raw(tokfmt_reel.Reader):
    """Its records are not JSON lines, and it states that they are."""

    def __init__(self, paths, options, hints):
        super().__init__(paths, options, hints)
        self.info = dataclasses.replace(vars(self)["info"], json_lines=True)

    def lines(self, block):
        for batch in self.ids(block):
            yield RecordBatch(lines=[bytes(ids) for ids in batch.ragged.tolist()])


@pytest.mark.parametrize(
    ("reader", "says"),
    [
        (OffByOne, r"record\(\) gives"),
        (Miscounted, r"count\(\) is 9, and there are 8"),
        (Unbounded, r"blocks\(1, 1, 7\) hold"),
    ],
)
def test_kit_detects_inconsistent_record_readers(reader, says):
    broken("records_tell_the_same_in_every_way", Reel(reader), says)


def test_lines_that_are_not_json():
    with tempfile.TemporaryDirectory() as home, pytest.raises(ValueError, match="Expecting value"):
        kit(Reel(Raw)).test_records_tell_the_same_in_every_way(Path(home))
    with tempfile.TemporaryDirectory() as home, pytest.raises(ConversionError, match="a JSON line has a line feed"):
        kit(Reel(Raw)).test_to_jsonl_and_back(Path(home))


def test_a_companion_that_the_format_names():
    """A pair of files of one prefix keeps the law; one that is not named breaks it."""

    class Pair(tokfmt_tape.Format):
        suffixes = (".tape", ".off")

        class Writer(tokfmt_tape.Writer):
            def index(self, stored, dtype):
                yield self.path.with_suffix(".off"), 0, b"\1\0\0\0"

    class Unnamed(Pair):
        suffixes = ()

    with tempfile.TemporaryDirectory() as home:
        kit(Pair()).test_files_are_named(Path(home))
        assert sorted(file.name for file in (Path(home) / "0").glob("x.*[!h]")) == ["x.off", "x.tape"]
        kit(Pair()).test_schedule()
    broken("files_are_named", Unnamed(), r"written and not listed: .*x\.off")


class Short(tokfmt_strata.Strata):
    """Stores sequences of up to 1,000 tokens."""

    class Writer(tokfmt_strata.Writer):
        def create(self, source):
            lengths = np.diff(source.offsets(0, source.info.sequences))
            if lengths.max(initial=0) > 1000:
                raise UnsupportedError(self.path, "has a sequence of more than 1,000 tokens")
            super().create(source)


@pytest.mark.parametrize("law", ["sequence_longer_than_window_and_region", "large_datasets_in_little_memory"])
def test_a_format_states_its_longest_sequence(law, tmp_path):
    facts = {"filename": "x.strata", "eos_id": None, "max_id": 2**16 - 1, "accounted": False}
    getattr(kit(Short(), max_length=1000, write_variants=({},), **facts), f"test_{law}")(tmp_path)
    with pytest.raises(UnsupportedError, match="more than 1,000 tokens"):
        getattr(kit(Short(), write_variants=({},), **facts), f"test_{law}")(tmp_path)


def test_missing_packages_of_the_kit_are_listed():
    hidden = "import sys; sys.modules['hypothesis'] = None; import tokfmt.testing"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True)
    assert "tokfmt.testing needs the packages pytest, hypothesis: pip install pytest hypothesis" in done.stderr
