"""Datasets in a store that answers after 30 ms, against bare obstore that asks the same server for exactly what is needed.

The server is a process of its own (`benchmarks.store`). Each side is timed by itself, after it has imported what it needs: a
request to a store takes less time than an import. The index, the footer, the columns and the tokens that a peer asks for are
those that tokfmt cannot do without; what tokfmt asks for beyond them (names, manifest, checks) is in its time.
"""

import contextlib
import json
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.cases import case, convert
from benchmarks.data import EOS, HOME
from benchmarks.store import PART, asked, store

PLACE = HOME / "remote"
BUCKET = PLACE / "bkt"
BLOCK = HOME / "stage1_block_0000.bin"
COPIES = 3  # of 40 M tokens: a pair of 240 MB, for the rows that read all of it
LARGEST = 8 << 20
SAMPLES = 1000
OBJECTS = 10_000
WARM = BUCKET / "warm.pbin"  # opened as a local file before, so that no module is imported while the clock runs


@contextlib.contextmanager
def served():
    """The server, and a client of obstore; tokfmt uses it as s3://bkt."""
    from obstore.store import S3Store

    with store(PLACE) as address:
        os.environ |= {
            "AWS_ENDPOINT_URL": address, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }  # fmt: skip
        yield S3Store(
            "bkt", endpoint=address, region="us-east-1", skip_signature=True, virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )  # fmt: skip
        del os.environ["AWS_ENDPOINT_URL"]


def made(name, copies=1, **how):
    BUCKET.mkdir(parents=True, exist_ok=True)
    path = BUCKET / name
    if not path.exists():
        convert([BLOCK] * copies, path, eos=EOS, **how)
    return path


def get(client, key, start, stop):
    import obstore

    return memoryview(obstore.get(client, key, options={"range": (start, stop)}).bytes())


def show(name, number, *words):
    """Print a sequence as the command line does, in this process."""
    from click.testing import CliRunner

    from tokfmt.cli.main import cli

    done = CliRunner().invoke(cli, ["show", name, str(number), *words, "--ids", "--json", "-q"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["shown"][0]["ids"]


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


class Stats:
    name = "big_text_document"

    def prepare(self):
        made(f"{self.name}.bin", COPIES, to_format="megatron")
        made(WARM.name)

    def peer(self, out):
        size = (BUCKET / f"{self.name}.bin").stat().st_size
        with served() as client:

            def read(start):
                return len(get(client, f"{self.name}.bin", start, min(start + LARGEST, size)))

            get(client, f"{self.name}.bin", 0, 1)
            began = time.perf_counter()
            with ThreadPoolExecutor(8) as threads:
                assert sum(threads.map(read, range(0, size, LARGEST))) == size
            return size / (time.perf_counter() - began) / 1e6

    def tokfmt(self, out):
        import tokfmt

        size = (BUCKET / f"{self.name}.bin").stat().st_size
        tokfmt.stats(WARM, duplicates=False)
        with served():
            tokfmt.open("s3://bkt/warm.pbin")  # The connections, and the first list of the server.
            return size / timed(lambda: tokfmt.stats(f"s3://bkt/{self.name}", duplicates=False)) / 1e6


case("remote: stats of a pair of 240 MB (peer: gets of 8 MiB, 8 threads)", ">= 0.8", "MB", "rate")(Stats)


class Shown:
    """One document. A peer asks for what `exact` yields: in each round, ranges side by side."""

    name, number, words = "x_text_document", 12_345, ()

    def prepare(self):
        made(f"{self.name}.bin", to_format="megatron")
        made(WARM.name)

    def rounds(self):
        """Heads; the entries of the document in the columns of the index; its tokens."""
        idx, bin_ = f"{self.name}.idx", f"{self.name}.bin"
        head, _ = yield [(idx, 0, 34), (bin_, 0, 1)]
        count = struct.unpack_from("<Q", head, 18)[0]
        lengths, pointers = 34 + 4 * self.number, 34 + 4 * count + 8 * self.number
        length, pointer, _ = yield [
            (idx, lengths, lengths + 4), (idx, pointers, pointers + 8), (idx, 34 + 12 * count, 34 + 12 * count + 8)
        ]  # fmt: skip
        start = struct.unpack("<q", pointer)[0]
        yield [(bin_, start, start + 2 * struct.unpack("<i", length)[0])]

    def peer(self, out):
        with served() as client, ThreadPoolExecutor(8) as threads:
            get(client, "warm.pbin", 0, 1)
            rounds = self.rounds()
            rounds = rounds if isinstance(rounds, Iterator) else (wanted for wanted in rounds)

            def run():
                wanted = next(rounds)
                with contextlib.suppress(StopIteration):
                    while True:
                        wanted = rounds.send(list(threads.map(lambda one: get(client, *one), wanted)))

            return timed(run)

    def tokfmt(self, out):
        import tokfmt

        wanted = show(str(BUCKET / self.path), self.number, *self.words)
        tokfmt.open(WARM)[0]
        with served():
            show("s3://bkt/warm.pbin", 0)  # The connections, and the modules of stores.
            found = []
            seconds = timed(lambda: found.append(show(f"s3://bkt/{self.path}", self.number, *self.words)))
            assert found == [wanted]
            return seconds

    @property
    def path(self):
        return self.name


case("remote: show of a pair, cold (peer: exact ranges in 3 rounds)", ">= 0.4", "s", "seconds")(Shown)


class Parquet(Shown):
    path = "x.parquet"

    def prepare(self):
        made(self.path)
        made(WARM.name)

    def rounds(self):
        import pyarrow.parquet as pq

        meta = pq.read_metadata(BUCKET / self.path)
        size, first = (BUCKET / self.path).stat().st_size, 0
        footer = [(self.path, size - meta.serialized_size - 8, size)]
        for number in range(meta.num_row_groups):
            group = meta.row_group(number)
            if first <= self.number < first + group.num_rows:
                column = group.column(0)
                begin = column.dictionary_page_offset or column.data_page_offset
                return [footer, [(self.path, begin, begin + column.total_compressed_size)]]
            first += group.num_rows
        raise AssertionError(self.number)


case("remote: show of parquet, cold (peer: footer, then the column)", ">= 0.5", "s", "seconds")(Parquet)


class Hdf5(Shown):
    """A sample: documents of a stream are found by reading all before them, which a peer could not do otherwise."""

    path, number, words = "x.h5", 1234, ("--from-opt", "view=samples")

    def prepare(self):
        made(self.path, seq_len=2048)
        made(WARM.name)

    def rounds(self):
        import h5py

        with h5py.File(BUCKET / self.path) as file:
            found = []
            file.visititems(lambda _, one: found.append(one) if isinstance(one, h5py.Dataset) else None)
            data = max(found, key=lambda one: one.size)
            chunk = data.id.get_chunk_info_by_coord(
                (self.number // data.chunks[0] * data.chunks[0], *[0] * (data.ndim - 1))
            )
        return [[(self.path, 0, 1 << 16)], [(self.path, chunk.byte_offset, chunk.byte_offset + chunk.size)]]


case("remote: show of a sample of HDF5, cold (peer: head, then the chunk)", ">= 0.5", "s", "seconds")(Hdf5)


class Zarr(Shown):
    path = "x.zarr"

    def prepare(self):
        made(self.path)
        made(WARM.name)

    def rounds(self):
        import tokfmt

        (start,) = tokfmt.open(BUCKET / self.path).offsets(self.number, self.number)
        home = next((BUCKET / self.path).glob("*/encoded_tokens"))
        chunk = json.loads((home / ".zarray").read_text())["chunks"][0]
        key, size = home.relative_to(BUCKET), (home / str(int(start) // chunk)).stat().st_size
        starts = home.with_name("seq_starts") / "0"
        return [
            [(f"{key}/.zarray", 0, 4096), (str(starts.relative_to(BUCKET)), 0, starts.stat().st_size)],
            [(f"{key}/{int(start) // chunk}", 0, size)],
        ]


case("remote: show of flat-tokens, cold (peer: metadata, then the chunk)", ">= 0.5", "s", "seconds")(Zarr)


class Samples:
    """Random documents, as 16 threads of a loader read them."""

    name = "big_text_document"

    def prepare(self):
        made(f"{self.name}.bin", COPIES, to_format="megatron")

    def numbers(self, count):
        return np.random.default_rng(7).integers(0, count, SAMPLES).tolist()

    def peer(self, out):
        with open(BUCKET / f"{self.name}.idx", "rb") as file:
            count = struct.unpack_from("<Q", file.read(34), 18)[0]
            lengths = np.fromfile(file, "<i4", count)
            pointers = np.fromfile(file, "<i8", count)
        with served() as client, ThreadPoolExecutor(16) as threads:

            def read(number):
                return len(get(client, f"{self.name}.bin", pointers[number], pointers[number] + 2 * lengths[number]))

            list(threads.map(read, range(16)))
            began = time.perf_counter()
            assert sum(threads.map(read, self.numbers(count))) == 2 * lengths[self.numbers(count)].sum()
            return SAMPLES / (time.perf_counter() - began)

    def tokfmt(self, out):
        import tokfmt

        with served(), ThreadPoolExecutor(16) as threads:
            dataset = tokfmt.open(f"s3://bkt/{self.name}")
            numbers = self.numbers(len(dataset))
            list(threads.map(dataset.__getitem__, range(16)))
            return SAMPLES / timed(lambda: list(threads.map(dataset.__getitem__, numbers)))


case("remote: random documents of a pair, 16 threads (peer: 16 threads of get)", ">= 0.7", "documents", "rate")(Samples)


class Listing:
    def prepare(self):
        (BUCKET / "many").mkdir(parents=True, exist_ok=True)
        for number in range(OBJECTS):
            path = BUCKET / f"many/part-{number:05d}.npy"
            if not path.exists():
                path.write_bytes(b"\1\0\0\0")

    def peer(self, out):
        import obstore

        with served() as client:
            return OBJECTS / timed(lambda: len(obstore.list_with_delimiter(client, "many")["objects"]))

    def tokfmt(self, out):
        from tokfmt.files.file import names_in
        from tokfmt.files.place import place_of

        with served():
            place = place_of("s3://bkt/many")
            seconds = timed(lambda: len(names_in(place)))
            assert [one[0] for one in asked(os.environ["AWS_ENDPOINT_URL"])] == ["LIST"] * 10
            return OBJECTS / seconds


case("remote: list 10,000 objects (peer: list_with_delimiter)", ">= 0.8", "objects", "rate")(Listing)


class Put:
    """A pack of 240 MB, from the end of its build on: the upload of the pack in parts, its manifest and its claim."""

    def prepare(self):
        (PLACE / "out").mkdir(parents=True, exist_ok=True)
        made("big.pbin", COPIES)
        made(WARM.name)

    def peer(self, out):
        import obstore
        from obstore.store import S3Store

        size = (BUCKET / "big.pbin").stat().st_size
        with served():
            client = S3Store(
                "out", endpoint=os.environ["AWS_ENDPOINT_URL"], region="us-east-1", skip_signature=True,
                virtual_hosted_style_request=False, client_options={"allow_http": True},
            )  # fmt: skip
            obstore.put(client, "warm", b"x")
            return (
                size
                / timed(lambda: obstore.put(client, "x.pbin", BUCKET / "big.pbin", chunk_size=PART, max_concurrency=4))
                / 1e6
            )

    def tokfmt(self, out):
        import tokfmt

        size = (BUCKET / "big.pbin").stat().st_size
        phases = Phases()
        with served():
            tokfmt.convert(WARM, "s3://out/warm.pbin", overwrite=True)
            tokfmt.convert(BUCKET / "big.pbin", "s3://out/y.pbin", overwrite=True, progress=phases)
            return size / (time.perf_counter() - phases.began["uploading"]) / 1e6


class Phases:
    """A progress that keeps when each phase began."""

    def __init__(self):
        self.began = {}

    def phase(self, name, total, unit):
        self.began[name] = time.perf_counter()

    def advance(self, amount):
        pass

    def note(self, text):
        pass


case("remote: write a pack of 240 MB, from the end of its build (peer: put of the file)", ">= 0.9", "MB", "rate")(Put)
