"""`make compat`: the real upstream code reads what tokfmt wrote, and tokfmt reads what upstream wrote.

    python -m tests.compat [FORMAT ...]

Each upstream has a virtual environment of its own under .venv/compat, made when it is first asked for. Two corpora, of
ids in two bytes and in four, are written, read by a script of this folder under that environment's Python, written by
it, and read again. "runs": its loader reads on several ranks, and tokfmt says what each step of it read. The exit code is 1 where something was read or written wrongly; what cannot be installed is said.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet

import tokfmt
from benchmarks.environments import Absent, environment
from tokfmt.commands.show.step import show_step
from tokfmt.core.loss_mask import TARGET

HERE = Path(__file__).parent
HOMES = HERE.parents[1] / ".venv" / "compat"
TORCH = "torch==2.13.0"  # one for all that do not ask for another
RUNS = "runs"
EOS = {"narrow": 50256, "wide": 128000}


@dataclass(frozen=True)
class Upstream:
    """A script, and the requirements it runs on; none is the environment that tokfmt is developed in."""

    script: str
    needed: tuple[str, ...] = ()
    home: str = ""  # of the environment, if it is that of another script

    def python(self):
        return environment(HOMES / (self.home or self.script), *self.needed) if self.needed else Path(sys.executable)


HUGGING_FACE = Upstream("hugging_face", ("datasets==5.2.0",))
MEGATRON = Upstream("megatron_core", (TORCH, "megatron-core==0.16.1", "pybind11"))
LITDATA = Upstream("lit_data", (TORCH, "litdata==0.2.76", "zstd==1.5.7.2"))
MOSAIC = Upstream("mosaic", ("torch==2.14.1", "torchvision==0.29.1", "mosaicml-streaming==0.13.0"))
DATATROVE = Upstream("data_trove", (TORCH, "datatrove==0.10.1", "tokenizers==0.22.2"))
OLMO = Upstream("ai2_olmo", (TORCH, "ai2-olmo-core==3.0.0"))
MODALITIES = Upstream("modalities_packs", (TORCH, "modalities==0.5.0"))
PLAIN = Upstream("plain_loops")
TFRECORD = Upstream("tf_record", ("tfrecord==1.14.6",))
ARRAY_RECORD = Upstream("array_record_files", ("array_record==0.8.3", "tfrecord==1.14.6"))
WEBDATASET = Upstream("web_dataset", ("webdataset==1.0.2",))


@dataclass(frozen=True)
class Exchange:
    """A format between tokfmt and an upstream: names of what they write, and what must be told."""

    upstream: Upstream
    called: str
    path: str  # of what `ours` and `theirs` are put in for {}
    write_wide: tuple[str, ...] = ()  # options of the format for ids of four bytes
    read_wide: tuple[str, ...] = ()
    cannot: str = ""  # what does not carry empty documents: "ours", "theirs"
    separator: bool = True  # stored with the documents
    masked: tuple[str, ...] = ()  # files that take the documents with masks, each its share
    packed: str = ""  # a file of rows of several documents
    rows: str = ""  # what upstream writes of such rows, with the columns that trainers read beside the IDs


EXCHANGES = {
    "jsonl": Exchange(HUGGING_FACE, "datasets: load_dataset, to_json", "{}.jsonl", separator=False,
                      rows="rows.jsonl"),
    "parquet": Exchange(HUGGING_FACE, "datasets: load_dataset, to_parquet", "{}.parquet", separator=False,
                        masked=("masked/0.parquet", "masked/1.parquet"), packed="packed.parquet", rows="rows.parquet"),
    "arrow": Exchange(HUGGING_FACE, "datasets: load_from_disk, save_to_disk", "{}", separator=False, rows="rows"),
    "megatron": Exchange(MEGATRON, "megatron-core: IndexedDataset, IndexedDatasetBuilder", "{}_document.bin"),
    "litdata": Exchange(
        LITDATA, "litdata: StreamingDataset with TokensLoader, optimize", "{}", write_wide=("compression=zstd:7",), rows="rows"
    ),
    "mds": Exchange(
        MOSAIC, "mosaicml-streaming: StreamingDataset, MDSWriter", "{}", write_wide=("compression=zstd",), rows="rows"
    ),
    "datatrove": Exchange(
        DATATROVE, "datatrove: DatatroveFileDataset, DocumentTokenizerMerger, TokenizedFile", "{}.ds",
        masked=("masked/00000_ours.ds", "masked/00001_ours.ds"),
    ),
    "olmo": Exchange(
        OLMO, "ai2-olmo-core: NumpyFSLDataset, iter_document_indices", "{}.npy", masked=("token_ids_part_0000.npy",)
    ),
    "modalities": Exchange(
        MODALITIES, "modalities: PackedMemMapDatasetBase, PackedDataGenerator", "{}.pbin", cannot="theirs"
    ),
    "nanogpt": Exchange(
        PLAIN, "numpy: get_batch and prepare.py of nanoGPT, restated", "{}.bin",
        write_wide=("width=4",), read_wide=("width=4",),
    ),
    "llmc": Exchange(
        PLAIN, "numpy: dataloader.h and data_common.py of llm.c, restated", "{}_train_000001.bin",
        write_wide=("variant=llama3",),
    ),
    "webdataset": Exchange(WEBDATASET, "webdataset: WebDataset, TarWriter", "{}", separator=False),
    "tfrecord": Exchange(TFRECORD, "tfrecord: tfrecord_loader, TFRecordWriter", "{}.tfrecord", separator=False,
                         rows="rows.tfrecord"),
    "arrayrecord": Exchange(
        ARRAY_RECORD, "array_record: ArrayRecordReader, ArrayRecordWriter", "{}.array_record", separator=False,
        rows="rows.array_record",
    ),
    "array": Exchange(PLAIN, "numpy: load, save", "{}.npy"),
    "flat-tokens": Exchange(PLAIN, "zarr: loader and writer of seqax, restated", "{}.zarr"),
    "hdf5": Exchange(PLAIN, "h5py: samples of Cerebras ModelZoo, restated", "{}.h5", cannot="ours theirs"),
}  # fmt: skip
LOADERS = {
    "megatron-core": (Upstream("megatron_core_loader", MEGATRON.needed, "megatron_core"), "megatron-core: GPTDataset"),
    "mosaic-streaming": (Upstream("mosaic_loader", MOSAIC.needed, "mosaic"), "mosaicml-streaming: StreamingDataset"),
    "litdata": (Upstream("lit_data_loader", LITDATA.needed, "lit_data"), "litdata: StreamingDataLoader"),
}
LEFT_OUT = {
    "internevo": "tokfmt only reads it; fixtures/internevo is written by upstream",
    "litgpt-packed": "tokfmt only reads it; fixtures/litgpt-packed is written by upstream",
    "stage1": "no package; by the oracle of tests/contract",
    "levanter": "tokfmt only reads it; fixtures/levanter is written by upstream",
}


class WrongError(Exception):
    """What was read differs from what was written, or could not be read."""


class NotRunError(Exception):
    """Upstream is installed, and its script ended before it was imported."""


def corpus(eos):
    """Documents of ids below the separator, some of them empty, the first and the last not."""
    random = np.random.default_rng(eos)
    lengths = random.integers(1, 200, 200)
    lengths[7::41] = 0
    return [random.integers(0, eos, length).tolist() for length in lengths.tolist()]


def run(name, exchange, python, home, eos):
    """One corpus through one format; what upstream compared, and what tokfmt read."""
    documents = corpus(eos)
    if "ours" in exchange.cannot:
        documents = [document for document in documents if document]
    wide = eos >= 1 << 16
    ours, theirs = (home / exchange.path.format(whose) for whose in ("ours", "theirs"))
    told = {"documents": documents, "eos": eos, "ours": str(ours), "theirs": str(theirs)}
    told |= with_masks(name, exchange, documents, home, eos)
    told |= {"rows": str(home / exchange.rows) if exchange.rows else "", "columns": columns_of(told)}
    (home / "corpus.json").write_text(json.dumps(told))
    source = home / "source.jsonl"
    source.write_text("".join(json.dumps({"input_ids": document}) + "\n" for document in documents))
    tokfmt.convert(source, ours, to_format=name, eos=eos, to_options=exchange.write_wide if wide else (), jobs=1)
    asked(python, exchange.upstream.script, name, home)
    said = json.loads((home / "said.json").read_text())
    if not said["written"]:
        return said["read"], ""
    kept = [document for document in documents if document or "theirs" not in exchange.cannot]
    options, separator = exchange.read_wide if wide else (), eos if exchange.separator else "none"
    with tokfmt.open(theirs, format=name, eos=separator, options=options) as found:
        compare([document.tolist() for document in found], kept)
        if exchange.masked:
            flags = found.reader.marks(0, found.info.tokens) & TARGET
            compare([flags.tolist()], [[flag for mask in told["masks"] for flag in mask[:-1]]])
    what = f"{len(kept)} documents{' with masks' if exchange.masked else ''}"
    return said["read"], f"{what}, {compared_rows(name, told)}" if exchange.rows else what


def columns_of(told):
    """Documents packed into rows of 512 IDs, with the columns that trainers read: labels, positions and padding."""
    found = {"input_ids": [[]], "labels": [[]], "attention_mask": [[]], "position_ids": [[]]}
    for document, mask in zip(told["documents"], told["masks"]):
        if len(found["input_ids"][-1]) + len(document) > 512:
            for rows in found.values():
                rows.append([])
        for k, (token, flag) in enumerate(zip(document, mask)):
            for rows, value in zip(found.values(), (token, token if flag else -100, 1, k)):
                rows[-1].append(value)
    for name, rows in found.items():
        for row in rows:
            row += [-100 if name == "labels" else 0] * (512 - len(row))
    return found


def compared_rows(name, told):
    """The documents and labels that tokfmt reads in the rows that upstream wrote."""
    out = Path(told["rows"]).with_name("read.parquet")
    tokfmt.convert(told["rows"], out, format=name, eos="none")
    found = pyarrow.parquet.read_table(out).to_pydict()
    pairs = [pair for pair in zip(told["documents"], told["masks"]) if pair[0]]
    compare(found["input_ids"], [document for document, _ in pairs])
    compare(found["labels"], [[one if flag else -100 for one, flag in zip(*pair)] for pair in pairs])
    return f"{len(told['columns']['input_ids'])} packed rows with columns"


def with_masks(name, exchange, documents, home, eos):
    """Masks of documents and separators, and what tokfmt wrote with them out of datatrove's plainest files."""
    random = np.random.default_rng(eos)
    masks = [[*random.integers(0, 2, len(document)).tolist(), 1] for document in documents]
    told = {"masks": masks, "masked": [str(home / path) for path in exchange.masked], "packed": ""}
    if not exchange.masked:
        return told
    source = home / "source.ds"
    np.array([token for document in documents for token in (*document, eos)], "<u4").tofile(source)
    np.cumsum([len(mask) for mask in masks], dtype="<u8").tofile(home / "source.ds.index")
    (home / "source.ds.loss").write_bytes(bytes(flag for mask in masks for flag in mask))
    bounds = np.linspace(0, len(documents), len(exchange.masked) + 1).astype(int).tolist()
    for path, first, last in zip(told["masked"], bounds[:-1], bounds[1:]):
        Path(path).parent.mkdir(exist_ok=True)
        tokfmt.convert(source, path, to_format=name, eos=eos, select=f"{first}:{last}", jobs=1)
    if exchange.packed:
        told["packed"] = str(home / exchange.packed)
        packed = {"to_options": {"pack_size": 512}, "allow_loss": "empty-sequences", "jobs": 1}
        tokfmt.convert(source, told["packed"], to_format=name, eos=eos, **packed)
    return told


def compare(found, expected):
    if len(found) != len(expected):
        raise WrongError(f"tokfmt reads {len(found)} documents of {len(expected)} that upstream wrote")
    for number, (one, other) in enumerate(zip(found, expected)):
        if one != other:
            raise WrongError(
                f"document {number} that upstream wrote: expected {str(other)[:60]}, found {str(one)[:60]}"
            )


def compared_steps(framework, upstream, home):
    """Each step of the runs of a loader, on each rank, against what tokfmt says that it read."""
    asked(upstream.python(), upstream.script, home)
    runs, steps = json.loads((home / "runs.json").read_text()), 0
    for facts, ranks in runs:
        count = max(map(len, ranks))
        stated = {"framework": framework, "root": ".", **facts, "samples": count * facts["batch_size"]}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in stated.items())
        (home / "run.toml").write_text(f"tokfmt = 1\n[run]\n{lines}")
        for step in range(count):
            said = [list[object]() for _ in ranks]
            for sample in show_step(home / "run.toml", step=step, only_ids=True).shown:
                said[sample.rank].append([token for part in sample.parts for token in part.ids.tolist()])
            if said != [batches[step] if step < len(batches) else [] for batches in ranks]:
                raise WrongError(f"step {step} of {facts}")
        steps += count
    return "", f"{steps} steps of {len(runs)} runs on 1 to {max(len(ranks) for _, ranks in runs)} ranks"


def asked(python, script, *words):
    """Run a script of this folder by the Python of upstream, in the folder that is the last of the words."""
    done = subprocess.run([python, HERE / f"{script}.py", *words], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise WrongError(last) if (words[-1] / "said.json").exists() else NotRunError(last)


def exchanged(name, exchange):
    """Both corpora through one format."""
    python = exchange.upstream.python()
    for eos in EOS.values():
        with tempfile.TemporaryDirectory() as home:
            yield run(name, exchange, python, Path(home), eos)


def read_by_loader(framework, upstream):
    with tempfile.TemporaryDirectory() as home:
        yield compared_steps(framework, upstream, Path(home))


def row(name, upstream, called, results):
    """A line of the table, and whether something is wrong. `results` runs upstream when it is asked for."""
    package, _, how = called.partition(": ")
    release = next((one.partition("==")[2] for one in upstream.needed if one.startswith(f"{package}==")), "")
    title = f"{package} {release or version(package)}: {how}"
    try:
        said = list(results)
    except Absent as error:
        return (name, title, f"not installed: {error}", "–"), False
    except NotRunError as error:
        return (name, title, f"not run: {error}", "–"), False
    except (WrongError, tokfmt.TokfmtError) as error:
        return (name, title, f"WRONG: {error}", ""), True
    ours, theirs = ("; ".join(dict.fromkeys(column)) for column in zip(*said))
    return (name, title, ours or "–", theirs or "–"), False


def main():
    parser = argparse.ArgumentParser(prog="make compat")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join((*EXCHANGES, RUNS)))
    formats = parser.parse_args().formats
    if unknown := set(formats) - {*EXCHANGES, RUNS}:
        parser.error(f"no upstream for {', '.join(sorted(unknown))}; there are {', '.join((*EXCHANGES, RUNS))}")
    wrong = False
    print("| format | upstream | upstream reads | tokfmt reads |\n|---|---|---|---|")
    rows = [
        (name, one.upstream, one.called, exchanged(name, one))
        for name, one in EXCHANGES.items()
        if not formats or name in formats
    ]
    rows += [
        (f"run of {name}", upstream, called, read_by_loader(name, upstream))
        for name, (upstream, called) in LOADERS.items()
        if not formats or RUNS in formats
    ]
    for one in rows:
        cells, failed = row(*one)
        wrong |= failed
        print("| " + " | ".join(cells) + " |", flush=True)
    for name in () if formats else LEFT_OUT:
        print(f"| {name} | – | {LEFT_OUT[name]} | – |")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
