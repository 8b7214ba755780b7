"""Reads damaged copies of a format's goldens: `python tests/fuzz/mutants.py FORMAT FIRST COUNT` (each number is one mutant).

Runs in a process of its own, because what is looked for may take the process along: memory beyond a limit (RLIMIT_AS),
time beyond a limit (of this process's CPU), a crash in a library. Prints a line of JSON for each mutant that is a finding: something
other than data that agrees with itself or a TokfmtError of one line. Before each mutant its number goes to the file `at`.
"""

import gzip
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
sys.path.append(str(FIXTURES.with_name("tests")))
MEMORY = 256 << 20
SECONDS = 5
INTERESTING = [0, 1, 0x7F, 0x80, 0xFE, 0xFF]
TEXT = [
    b'"',
    b"\\",
    b"{",
    b"[" * 300,
    b"}",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"1e999",
    b"-",
    b",",
    b"null",
]
OPTIONS = {
    "hdf5": [{}, {"view": "samples"}],
    "olmo": [{}, {"width": 2}, {"width": 4}],
    "datatrove": [{}, {"width": 2}],
    "mds": [{"hashes": "ignore"}, {"dtype": "int64", "hashes": "ignore"}, {}],
    "stage1": [{}, {"view": "samples"}],
    "jsonl": [{}, {"index": "none"}],
    "parquet": [{}, {"view": "samples"}, {"rows": "blocks"}, {"column": "text"}],
    "arrow": [{}, {"column": "text"}],
    "text": [{}, {"separator": "---"}, {"separator": "---", "max_document": 700}],
}
REFUSED = {
    f"{name}.parquet"
    for name in ("mask_short.idx", "start_at_end.idx", "start_decreases.idx", "start_not_zero.idx", "negative", "floats",
                 "null_element", "too_big", "list_of_lists", "binary", "two_columns", "dictionary_content", "struct_text")
}  # fmt: skip
WRITTEN = {"hdf5": [".h5"], "jsonl": [".jsonl", ".idx", ".gz"], "stage1": [".bin"], "modalities": [".pbin"]}


class TooSlow(BaseException):
    """One mutant takes too long."""


def goldens(format_, home):
    """Copies of everything that the format's golden folder holds, and what else is worth a try; [path]."""
    found = []
    if format_ == "text":
        return made_text(home)
    if format_ == "run":
        import run_mutants

        return run_mutants.homes(FIXTURES, home)
    columns = (FIXTURES / "parquet").rglob("*.parquet" if format_ == "parquet" else "*.arrow")
    for path in sorted(columns if format_ in ("parquet", "arrow") else (FIXTURES / format_).iterdir()):
        if format_ == "arrow" and path.parent.name in ("save_to_disk", "train", "selected"):
            path = path.parent
        if (
            path.suffix in (".md", ".json", ".py", ".idx")
            or (format_ == "hdf5" and path.suffix == ".jsonl")
            or path.name == "idx_history"
        ):
            continue
        copy = home / path.name
        if copy.exists() or path.name in REFUSED:  # of several files of one folder; damaged before
            continue
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, copy)
        if path.with_suffix(".idx").exists():
            shutil.copyfile(path.with_suffix(".idx"), copy.with_suffix(".idx"))
        found.append(copy)
    if format_ == "jsonl":
        found += made_jsonl(home)
    if format_ == "flat-tokens":
        controls = [p for p in sorted((FIXTURES / "bad" / format_).glob("control_*")) if "link" not in p.name]
        for path in controls:
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, home / path.name)
            found.append(home / path.name)
    return found


def made_text(home):
    """One file of several documents, the same compressed, and directories of a file a document."""
    import zstandard

    texts = [json.loads(line)["text"] for line in (FIXTURES / "jsonl" / "corpus.jsonl").read_bytes().splitlines()[:40]]
    together = "\n---\n".join(texts).encode()
    packed = {"": together, ".gz": gzip.compress(together, mtime=0), ".zst": zstandard.compress(together)}
    for suffix, content in packed.items():
        (home / f"all.txt{suffix}").write_bytes(content)
    for name, suffixes in (("plain", [""]), ("mixed", list(packed))):
        (home / name).mkdir()
        for k, text in enumerate(texts[:9]):
            suffix, content = suffixes[k % len(suffixes)], ("\ufeff" * (k % 4 == 3) + text).encode()
            how = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[suffix]
            (home / name / f"{k}.md{suffix}").write_bytes(how(content))
    return [*(home / f"all.txt{suffix}" for suffix in packed), home / "plain", home / "mixed"]


def made_jsonl(home):
    rng = random.Random(3)
    ids = "".join(
        json.dumps({"input_ids": [rng.randrange(60_000) for _ in range(rng.randrange(30))]}) + "\n" for _ in range(40)
    )
    (home / "ids.jsonl").write_text(ids)
    text = (FIXTURES / "jsonl" / "corpus.jsonl").read_bytes()
    (home / "packed.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))
    return [home / "ids.jsonl", home / "packed.jsonl.gz"]


def files_of(path):
    """The files whose damage the dataset may show; its index counts as well."""
    if path.name == "run.toml":
        import run_mutants

        return run_mutants.files_of(path)
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.is_file())
    return [p for p in (path, path.with_suffix(".idx")) if p.exists()]


def damaged(content, rng):
    """The bytes with one to three things wrong, often where headers and indexes are."""
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 3])):
        size = len(content)
        ends = (
            [rng.randrange(size), rng.randrange(min(size, 64)), size - 1 - rng.randrange(min(size, 64))]
            if size
            else [0]
        )
        at, kind = rng.choice(ends), rng.randrange(8)
        if kind == 0:
            del content[at:]
        elif kind == 1:
            del content[at : at + rng.choice([1, 2, 8, 100])]
        elif kind == 2:
            content[at:at] = rng.choice(TEXT)
        elif kind == 3:
            there = rng.randrange(size) if size else 0
            content[at:at] = content[there : there + rng.choice([1, 8, 64, 700])]
        elif kind == 4:
            content[at : at + 8] = rng.choice([0, 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1]).to_bytes(
                8, rng.choice(["little", "big"])
            )
        elif kind == 5 and size:
            content[at : at + rng.choice([1, 4, 300])] = bytes(0)
        elif size:
            content[at] = rng.choice(
                [content[at] ^ (1 << rng.randrange(8)), rng.randrange(256), rng.choice(INTERESTING)]
            )
    return bytes(content)


def read(format_, path, rng):
    """Open and read everything; raise AssertionError if what is read contradicts itself."""
    import numpy as np
    from opened import open_source

    from tokfmt.core.reader import batches
    from tokfmt.core.records import RecordReader
    from tokfmt.errors import TokfmtError
    from tokfmt.source.ingest import tokenized

    try:
        if rng.randrange(4) == 0:
            return check(format_, path, rng.random() < 0.7)
        source = open_source(
            [path], format=format_ if rng.random() < 0.8 else None, eos=rng.choice([None, 50256, "none"]),
            options=rng.choice(OPTIONS.get(format_, [{}])) if format_ else {}, jobs=1, allow_loss=["fields", "null-rows"],
        )  # fmt: skip
        reader = source.reader
        if format_ == "run":
            import run_mutants

            return run_mutants.read_run(reader, rng)
        if isinstance(reader, RecordReader):
            if reader.info.kind == "text":
                for block in reader.blocks(1 << 12):
                    for some in reader.texts(block):
                        assert all(isinstance(text, str) for text in some.texts)
                return "data"
            reader = tokenized(reader, None)
        sequences = tokens = 0
        for batch in batches(reader, 0, reader.info.sequences, 1 << 16):
            assert batch.tokens.dtype.kind == "u"
            assert (np.diff(batch.offsets) >= 0).all()
            sequences, tokens = sequences + len(batch), tokens + len(batch.tokens)
        assert (sequences, tokens) == (reader.info.sequences, reader.info.tokens)
        for position in {0, tokens // 2, tokens - 1} if tokens else ():
            place = reader.locate(position)
            assert place is None or 0 <= place.offset + (place.width or 0) <= place.path.status().size
            assert place is None or place.width is None or reader.find(place.path, place.offset) == position
        reader.close()
    except TokfmtError as error:
        assert "\n" not in str(error), repr(str(error))
        return type(error).__name__
    return "data"


def check(format_, path, deep):
    """The checker lists what is wrong, and the parts are named; neither ever gives up."""
    from tokfmt.commands.check import CheckRequest
    from tokfmt.commands.check import check as checked
    from tokfmt.source.request import SourceRequest

    deep = deep and not (format_ == "run" and b"samples" in path.read_bytes())  # as many as that says are read
    (verdict,) = checked(CheckRequest(SourceRequest((path,), format_), deep=deep, jobs=1))
    for finding in verdict.findings:
        assert "\n" not in finding.message, finding
    parts(format_, path)
    return f"exit {verdict.exit_code}"


def parts(format_, path):
    """The parts of the files: at both ends of each section, with the first bytes of each field."""
    from tokfmt.commands.show.parts import sections
    from tokfmt.errors import FormatError

    raw = sections(path, format=format_)
    for section in raw.sections:
        count = section.count
        for first, last in ((0, 9), (max(0, count - 9), count), (count, count + 1)):
            fields = section.fields(first, last)
            assert len(fields) == min(last, count) - first if first < count else not fields, (section.title, count)
            for field in fields:
                assert (field.name + field.value + field.meaning).isprintable(), field
                try:
                    raw.bytes_of(section, field, 16)
                except FormatError:
                    assert field.wrong, field


def mutant(format_, number, paths):
    """Damage one file, read, put it back; what came of it."""
    rng = random.Random(f"{format_} {number}")
    path = rng.choice(paths)
    file = rng.choice(files_of(path))
    before = file.read_bytes()
    if format_ == "run" and rng.random() < 0.5:
        import run_mutants

        file, before = path, path.read_bytes()
        path.write_text(run_mutants.random_facts(path, rng))
    else:
        file.write_bytes(damaged(before, rng))
    try:
        return f"{file.name}", read(format_, path, rng)
    finally:
        file.write_bytes(before)


def limited(memory):
    """RLIMIT_AS somewhat above what is in use now; the alarm of a mutant's own CPU time."""

    def slow(number, frame):
        raise TooSlow

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGPROF, slow)


def main(format_, first, count):
    from tokfmt import registry
    from tokfmt.errors import LoaderWarning

    warnings.simplefilter("error")
    warnings.simplefilter("ignore", LoaderWarning)
    home = Path(tempfile.mkdtemp())
    os.environ["XDG_CACHE_HOME"] = str(home / "cache")
    os.chdir(home)
    try:
        paths = goldens(format_, home)
        for name in registry.names():
            registry.get(name)
        for path in paths:
            read(format_, path, random.Random(1))
        limited(3 * MEMORY if format_ == "run" else MEMORY)
        outcomes = {}
        for number in range(first, first + count):
            Path(os.environ["AT"]).write_text(str(number))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                _, outcome = mutant(format_, number, paths)
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
            except (Exception, TooSlow) as error:
                where = traceback.format_exception(error)[-4:]
                print(json.dumps({"mutant": number, "error": repr(error)[:300], "where": " ".join(where)[-1500:]}))
            signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"outcomes": outcomes}))
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
