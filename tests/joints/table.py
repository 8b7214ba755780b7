"""What is chained with what: everything that makes a dataset, with everything that reads one.

A maker takes a `Case` and says what it wrote; a reader takes a `Part` of that and says what it found. Every maker is
joined with every reader, but for `APART`. `COMMANDS`, `VERBS`, `OPTIONS` and `FORMATS` say where each command, verb of
the Python API, option of a conversion and format is in these tables: one that is missing fails a test.
"""

import importlib.util
import json
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import tokfmt
from tokfmt.browser.data.session import open_session
from tokfmt.commands.check import CheckRequest, check
from tokfmt.commands.check.fix import fix
from tokfmt.commands.convert.convert import finish
from tokfmt.core.records import RecordReader
from tokfmt.errors import ConversionError, OptionError
from tokfmt.formats.jsonl.index import write_index
from tokfmt.mix.order import samples_of_step
from tokfmt.recipe_dataset import Recipe
from tokfmt.source.request import SourceRequest

SERIAL = {"executor": "serial", "jobs": 1}
ACCEPTED = frozenset({"empty-sequences"})
"""Losses that a maker accepts when it is told their word: what is expected is then without them."""


class RefusedError(Exception):
    """A conversion said that it cannot be done, or not without a loss that nobody accepts here."""


@dataclass(frozen=True)
class Case:
    """Documents, and how they are stored.

    Attributes:
        files: The documents of each source file.
        eos: The separator; in no document.
        middle: Format of the sources; "jsonl", or they are converted to it first.
        target: Format that an arrangement writes.
        manifest: One is written beside each destination.
        named: Readers get the separator's id.
        seq_len: Of formats that have samples.
        seed: Of shuffles and splits.
        cuts: Two positions among the documents, of a selection.
    """

    files: tuple[tuple[tuple[int, ...], ...], ...]
    eos: int = 0
    middle: str = "jsonl"
    target: str = "modalities"
    manifest: bool = True
    named: bool = True
    seq_len: int = 4
    seed: int = 0
    cuts: tuple[int, int] = (0, 1)

    @property
    def documents(self):
        return [list(document) for file in self.files for document in file]

    @property
    def certain(self):
        """Readers need not infer the separator."""
        return self.manifest or self.named


@dataclass(frozen=True)
class Part:
    """A dataset that was made.

    Attributes:
        path: Where it is.
        documents: What it holds; None if only all parts together are known.
        counts: Sequences and tokens, as its maker says; None if it says nothing.
        reading: How it is to be read: options, the separator.
        certain: Its separator need not be inferred.
        eos: The separator.
    """

    path: Path
    documents: list[list[int]] | None
    counts: tuple[int, int] | None = None
    reading: dict = field(default_factory=dict)
    certain: bool = True
    eos: int = 0


@dataclass(frozen=True)
class Made:
    """Parts, and the documents of all of them in any order."""

    parts: list[Part]
    together: list[list[int]]


# what readers say


@dataclass(frozen=True)
class Report:
    """Sequences and tokens that a reader counts, and the sequences themselves, where it gives them.

    Samples have no place for sequences without a token: these reports are `without_empty`.
    """

    sequences: int | None
    tokens: int | None
    documents: list[list[int]] | None = None
    without_empty: bool = False


def lists(sequences):
    found = [np.asarray(one).tolist() for one in sequences]
    return Report(len(found), sum(map(len, found)), found)


def by_open(part, home):
    with tokfmt.open(part.path, **part.reading) as dataset:
        found = lists(dataset)
        assert len(dataset) == found.sequences
        assert dataset.info.tokens == found.tokens
        assert dataset.lengths.tolist() == [len(one) for one in found.documents]
        assert dataset[::2].tolist() == found.documents[::2]
        assert [one.tolist() for one in dataset.select(slice(1, None))] == found.documents[1:]
    return found


def by_show(part, home):
    shown = tokfmt.show(part.path, ":", limit=0, **part.reading)
    found = lists(one.ids for one in shown.shown)
    assert shown.sequences in (None, found.sequences)
    assert shown.tokens in (None, found.tokens)
    return found


def by_info(part, home):
    found = tokfmt.info(part.path, **part.reading)
    first = next((one for one in part.documents or [] if one), None)
    if first is not None and found.layout == "documents":
        assert list(found.ids) == first[:32]
    return Report(found.sequences, found.tokens)


def by_stats(part, home):
    found = tokfmt.stats(part.path, jobs=1, **part.reading).datasets[0]
    assert found.empty is None or part.documents is None or found.empty.count == part.documents.count([])
    if part.documents:
        assert found.max_id == max((token for one in part.documents for token in one), default=None)
    return Report(found.sequences, found.tokens)


def by_check(part, home):
    (found,) = tokfmt.check(part.path, deep=True, jobs=1, **part.reading)
    if part.certain:  # a block that ends in zeros may be an unfinished copy, where nothing says that 0 separates
        assert not found.errors, found.findings
        assert found.exit_code == 0
    return Report(found.sequences, found.tokens)


def by_diff(part, home):
    """Compared with JSON lines that tokfmt did not write; where the documents are not known, with itself."""
    other = part.path
    if part.documents is not None:
        other = home / "truth.jsonl"
        other.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in part.documents))
    words = dict(part.reading)
    if "format" in words and part.documents is not None:
        words["format"] = (words["format"], None)
    found = tokfmt.diff(part.path, other, **words)
    assert found.identical, found
    assert (found.a.sequences, found.a.tokens) == (found.b.sequences, found.b.tokens)
    return Report(found.a.sequences, found.a.tokens)


def by_overlap(part, home):
    """With JSON lines of the documents as evals: each item has all of its tokens in the dataset."""
    evals = home / "evals.jsonl"
    evals.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in part.documents or [[0]]))
    found = tokfmt.overlap(part.path, evals, by="tokens", ngram=1, jobs=1, **part.reading)
    if part.documents is not None:
        filled = [k for k, one in enumerate(part.documents) if one]
        assert [(hit.item, hit.share) for hit in found.evals[0].hits] == [(k, 1.0) for k in filled]
        assert found.hit_documents == len(filled)
    return Report(found.corpora[0].documents, None)


def source_of(part):
    entry = {"path": str(part.path)}
    if "format" in part.reading:
        entry["format"] = part.reading["format"]
    if part.reading.get("options"):
        entry["options"] = part.reading["options"]
    return entry


def said(part):
    return {"eos": part.reading["eos"]} if "eos" in part.reading else {}


def by_recipe(part, home):
    """A recipe of documents, from its file."""
    path = home / "mix.toml"
    entry = source_of(part)
    options = entry.pop("options", {})
    lines = ["[[source]]", *(f"{key} = {json.dumps(value)}" for key, value in {**entry, **said(part)}.items())]
    lines += (
        ["[source.options]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())] if options else []
    )
    path.write_text("\n".join(["tokfmt = 1", *lines]) + "\n")
    with tokfmt.open(path) as dataset:
        found = lists(dataset)
        assert (len(dataset), dataset.info.tokens) == (found.sequences, found.tokens)
    return found


def by_loader(part, home):
    """The stream of a recipe of samples, read as two ranks read it; its sequences end at separators."""
    entry, words = {**source_of(part), **said(part)}, {"to_eos": part.eos} if part.certain else {}
    with tokfmt.recipe([entry], seq_len=3, pack="stream", labels="same", **words) as recipe:
        assert isinstance(recipe, Recipe)
        if importlib.util.find_spec("torch"):
            from tokfmt.torch import Loader

            rows = [row for batch in Loader(recipe, 1, rank=0, world_size=1) for row in batch["input_ids"].tolist()]
        else:
            chosen = [
                n for step in range(len(recipe) // 2) for rank in range(2) for n in samples_of_step(step, 2, rank, 2)
            ]
            chosen += range(len(chosen), len(recipe))
            rows = recipe.samples(chosen)["input_ids"].tolist()
        mask = recipe.samples(range(len(recipe)), ["labels"])["labels"].reshape(-1)
        eos = recipe.info.eos_id
    stream = np.array(rows).reshape(-1)[: int(np.flatnonzero(mask != -100)[-1]) + 1].tolist()
    if eos is None:
        return Report(None, len(stream), without_empty=True)
    found = [[]]
    for token in stream:
        found[-1].append(token)
        if token == eos:
            found[-1].pop()
            found.append([])
    assert found.pop() == []
    return Report(len(found), sum(map(len, found)), found, without_empty=True)


def by_browse(part, home):
    request = SourceRequest(
        (part.path,), part.reading.get("format"), part.reading.get("eos"), part.reading.get("options", {})
    )
    session = open_session(request)
    try:
        assert not session.failure
        assert session.refused is None
        reader = session.opened.views[0].reader
        if isinstance(reader, RecordReader):
            assert session.opened.views[0].name == "records"
            return lists(reader.record(number) for number in range(session.opened.views[0].port.count))
        bounds = reader.offsets(0, reader.info.sequences).tolist()
        tokens = reader.tokens(0, reader.info.tokens)
        found = lists(tokens[a:b] for a, b in zip(bounds, bounds[1:], strict=False))
        assert reader.info.tokens == found.tokens
        return found
    finally:
        for view in session.opened.views:
            view.reader.close()


def by_convert(part, home):
    """To JSON lines, which tokfmt does not read here."""
    out = home / "read.jsonl"
    done = tokfmt.convert(part.path, out, manifest=False, overwrite=True, **part.reading, **SERIAL)
    found = lists(json.loads(line)["input_ids"] for line in out.read_text().splitlines())
    assert done.sequences == found.sequences
    assert done.tokens in (None, found.tokens)  # lines of ids that are copied are not counted
    return found


READERS: dict[str, Callable[[Part, Path], Report]] = {
    "open": by_open, "info": by_info, "show": by_show, "stats": by_stats, "check": by_check, "diff": by_diff, "recipe": by_recipe,
    "Loader": by_loader, "browse": by_browse, "convert": by_convert, "overlap": by_overlap,
}  # fmt: skip


# what makers do


def accepting(convert):
    """Call a conversion with each word that it names until it is done; returns what it gave, and the words."""
    words = []
    while True:
        try:
            return convert(allow_loss=words), words
        except (ConversionError, OptionError) as error:
            named = set(re.findall(r"[a-z]+(?:-[a-z]+)+", str(error))) & ACCEPTED
            if not named - set(words):
                raise RefusedError(str(error)) from error
            words = sorted(named | set(words))


def kept(documents, words):
    return [one for one in documents if one] if "empty-sequences" in words else documents


def lines(path, documents):
    path.write_text("".join(json.dumps({"input_ids": list(one)}) + "\n" for one in documents))
    return path


NAMES = {
    "jsonl": "out.jsonl", "modalities": "out.pbin", "flat-tokens": "out.zarr", "hdf5": "out.h5", "arrow": "out.arrow",
    "datatrove": "out.ds", "megatron": "out_text_document", "olmo": "out.npy", "array": "out-array.npy", "parquet": "out.parquet", "tape": "out.tape",
    "nanogpt": "out.bin", "llmc": "out_train_000000.bin",
}  # fmt: skip
SAMPLED = ("stage1", "hdf5")
"""Formats whose writers are given a length of samples."""
UNTOLD = ("array", "stage1", "nanogpt", "llmc", "olmo", "litdata", "datatrove", "hdf5", "tape")
"""Formats of which a file without a manifest may look like another's, or need words: the format is named."""


def writing(name, case):
    words = {"to_format": name, "eos": case.eos, "manifest": case.manifest, **SERIAL}
    if name in SAMPLED:
        words["seq_len"] = case.seq_len
    if name == "olmo":
        words["to_options"] = {"width": 4}
    return words


def reading(name, case):
    words = {"format": name} if name in UNTOLD else {}
    if name == "olmo" and not case.manifest:
        words["options"] = {"width": 4}
    if name == "stage1" and not case.manifest:
        words["options"] = {"seq_len": case.seq_len}
    if case.named:
        words["eos"] = case.eos
    return words


def found_at(home, name):
    return home / NAMES.get(name, f"out-{name}")


def sources(case, home):
    """The files of a case in its middle format, and the documents that they hold."""
    paths, documents = [], []
    for number, file in enumerate(case.files):
        place = home / f"source-{number}"
        place.mkdir()
        path, held = lines(place / "in.jsonl", file), list(map(list, file))
        if case.middle != "jsonl":
            out = found_at(place, case.middle)
            _, words = accepting(
                lambda allow_loss: tokfmt.convert(path, out, allow_loss=allow_loss, **writing(case.middle, case))
            )
            path, held = out, kept(held, words)
        paths.append(path)
        documents += held
    return paths, documents


def read_from(case):
    """How the sources of a conversion are read."""
    words = reading(case.middle, case)
    words.pop("eos", None)
    return words


def part_of(path, name, case, done, documents):
    return Part(path, documents, (done.sequences, done.tokens), reading(name, case), certain=case.certain, eos=case.eos)


LEAD = 70_001  # No document begins with it


def converted(name, **more):
    """A maker that converts to a format."""

    def make(case, home):
        paths, documents = sources(case, home)
        out = found_at(home, name or case.target)
        words = {**read_from(case), **writing(name or case.target, case), **more}
        done, dropped = accepting(lambda allow_loss: tokfmt.convert(paths, out, allow_loss=allow_loss, **words))
        documents = kept(documents, dropped)
        return Made([part_of(out, name or case.target, case, done, documents)], documents)

    return make


def led(case, home):
    """Documents through a pack that has a lead before each, as its manifest states; the destination leaves it out."""
    paths, documents = sources(case, home)
    words = {**read_from(case), **writing("modalities", case), "manifest": True, "to_bos": LEAD}
    pack = home / "led.pbin"
    _, dropped = accepting(lambda allow_loss: tokfmt.convert(paths, pack, allow_loss=allow_loss, **words))
    documents = kept(documents, dropped)
    words, out = {**writing(case.target, case), "to_bos": "none"}, found_at(home, case.target)
    done, dropped = accepting(lambda allow_loss: tokfmt.convert(pack, out, allow_loss=allow_loss, **words))
    documents = kept(documents, dropped)
    return Made([part_of(out, case.target, case, done, documents)], documents)


def selected(case, home):
    paths, documents = sources(case, home)
    first, last = sorted(case.cuts)
    out = found_at(home, case.target)
    words = {**read_from(case), **writing(case.target, case), "select": f"{first}:{last}"}
    done, dropped = accepting(lambda allow_loss: tokfmt.convert(paths, out, allow_loss=allow_loss, **words))
    documents = kept(documents[first:last], dropped)
    return Made([part_of(out, case.target, case, done, documents)], documents)


def shuffled(case, home):
    paths, documents = sources(case, home)
    out = found_at(home, case.target)
    words = {**read_from(case), **writing(case.target, case), "shuffle": case.seed}
    done, dropped = accepting(lambda allow_loss: tokfmt.convert(paths, out, allow_loss=allow_loss, **words))
    documents = kept(documents, dropped)
    return Made([part_of(out, case.target, case, done, None)], documents)


def split(case, home):
    paths, documents = sources(case, home)
    out = found_at(home, case.target)
    words = {**read_from(case), **writing(case.target, case), "split": "train=0.6,validation=0.4", "seed": case.seed}
    words["split_by"] = ("number", "content")[case.seed % 2]
    done, dropped = accepting(lambda allow_loss: tokfmt.convert(paths, out, allow_loss=allow_loss, **words))
    parts = []
    for name, found in done.splits.items():
        path, options = Path(found["destination"]), reading(case.target, case)
        if path == out:
            options["options"] = {**options.get("options", {}), "split": name}
        parts.append(
            Part(path, None, (found["sequences"], found["tokens"]), options, certain=case.certain, eos=case.eos)
        )
    return Made(parts, kept(documents, dropped))


def sharded(case, home):
    paths, documents = sources(case, home)
    out = found_at(home, case.target)
    words = {**read_from(case), **writing(case.target, case)}

    def shares(allow_loss):
        for k in range(2):
            tokfmt.convert(paths, out, allow_loss=allow_loss, task=(k, 2), **words)
        return finish(out, manifest=case.manifest, **SERIAL)

    done, dropped = accepting(shares)
    documents = kept(documents, dropped)
    return Made([part_of(out, case.target, case, done, documents)], documents)


def resumed(case, home):
    return converted(None, resume=True)(case, home)


def verified(case, home):
    return converted(None, verify=True)(case, home)


def saved(case, home):
    """Datasets put together in Python."""
    paths, documents = sources(case, home)
    words = reading(case.middle, case)
    whole = None
    for path in paths:
        one = tokfmt.open(path, **words)
        whole = one if whole is None else whole + one
    out, words = found_at(home, case.target), writing(case.target, case)
    words["to_eos"] = words.pop("eos")
    done, dropped = accepting(lambda allow_loss: whole.save(out, allow_loss=allow_loss, **words))
    whole.close()
    documents = kept(documents, dropped)
    return Made([part_of(out, case.target, case, done, documents)], documents)


def mixed(case, home):
    """A recipe of documents that is not stored."""
    paths, documents = sources(case, home)
    path = home / "source.toml"
    words = reading(case.middle, case)
    text = ["tokfmt = 1"]
    for source in paths:
        text += ["[[source]]", f"path = {json.dumps(str(source))}"]
        text += [f"eos = {json.dumps(words['eos'])}"] if "eos" in words else []
        text += [f"format = {json.dumps(words['format'])}"] if "format" in words else []
        options = words.get("options", {})
        text += ["[source.options]", *(f"{key} = {value}" for key, value in options.items())] if options else []
    path.write_text("\n".join(text) + "\n")
    return Made([Part(path, documents, None, {}, certain=case.certain, eos=case.eos)], documents)


def stored(case, home):
    """A recipe of documents, converted."""
    (recipe,) = mixed(case, home).parts
    out = found_at(home, case.target)
    words = writing(case.target, case)
    done, dropped = accepting(lambda allow_loss: tokfmt.convert(recipe.path, out, allow_loss=allow_loss, **words))
    documents = kept(recipe.documents, dropped)
    return Made([part_of(out, case.target, case, done, documents)], documents)


def indexed(case, home):
    """JSON lines with the raw index that `tokfmt index` writes."""
    path = lines(home / "in.jsonl", case.documents)
    if not case.documents:
        raise RefusedError("an empty file has no index")
    write_index(path)
    return Made([Part(path, case.documents, eos=case.eos)], case.documents)


def repaired(case, home):
    """A pack whose index is shifted from the second half on, as a merge leaves it, written again by `check --fix`."""
    made = converted("modalities")(case, home)
    (part,) = made.parts
    if not any(case.documents[len(case.documents) // 2 :]):
        raise RefusedError("where only empty documents are shifted, no tokens are elsewhere than their index states")
    damaged = home / "damaged.pbin"
    damaged.write_bytes(shifted(part.path.read_bytes()))
    reading_ = {"eos": case.eos}
    request = CheckRequest(SourceRequest((damaged,), "modalities", case.eos), deep=True)
    (verdict,) = check(request)
    out = home / "repaired.pbin"
    fixed = fix(verdict, out, request)
    if not fixed.done:
        raise RefusedError("there is nothing to repair")
    return Made(
        [Part(out, part.documents, (fixed.report.sequences, fixed.report.tokens), reading_, eos=case.eos)],
        made.together,
    )


def salvaged(case, home):
    """The sequences that are whole of a pair whose tokens were cut, as `convert --allow-partial` saves them."""
    source = home / "cut_text_document"
    documents = case.documents
    words = {**writing("megatron", case), "manifest": False}
    tokfmt.convert(lines(home / "in.jsonl", documents), source, **words)
    tokens = source.with_suffix(".bin")
    stored = sum(len(one) + 1 for one in documents if one)  # An empty one has no separator, and gets none.
    data = tokens.read_bytes()
    width, left = len(data) // max(1, stored), max(0, len(data) - max(case.cuts))
    tokens.write_bytes(data[:left])
    whole, at = [], 0
    for one in documents:
        at += width * (len(one) + 1) * bool(one)
        if at > left:
            break
        whole.append(one)
    if not whole:
        raise RefusedError("no sequence is whole")
    out = found_at(home, case.target)
    how = {**writing(case.target, case), "allow_partial": True}
    done, dropped = accepting(lambda allow_loss: tokfmt.convert(tokens, out, allow_loss=allow_loss, **how))
    whole = kept(whole, dropped)
    return Made([part_of(out, case.target, case, done, whole)], whole)


def shifted(pack):
    import pickle

    size = struct.unpack("<Q", pack[:8])[0]
    index = pickle.loads(pack[12 + size :])
    half = len(index) // 2
    return pack[: 12 + size] + pickle.dumps([*index[:half], *((at + 12, length) for at, length in index[half:])])


FORMATS = {
    "jsonl": "convert to jsonl", "modalities": "convert to modalities", "stage1": "convert to stage1",
    "hdf5": "convert to hdf5", "flat-tokens": "convert to flat-tokens", "arrow": "convert to arrow",
    "datatrove": "convert to datatrove", "litdata": "convert to litdata", "llmc": "convert to llmc",
    "mds": "convert to mds", "megatron": "convert to megatron", "nanogpt": "convert to nanogpt",
    "olmo": "convert to olmo", "webdataset": "convert to webdataset", "tfrecord": "convert to tfrecord", "arrayrecord": "convert to arrayrecord", "array": "convert to array", "parquet": "convert to parquet", "tape": "convert to tape", "recipe": "recipe", "run": "",
    "internevo": "", "levanter": "", "litgpt-packed": "", "text": "",
}  # fmt: skip
"""The maker of each format; of those that tokfmt only reads there is none."""

MAKERS: dict[str, Callable[[Case, Path], Made]] = {
    **{maker: converted(name) for name, maker in FORMATS.items() if maker.startswith("convert to ")},
    "convert --select": selected,
    "convert --shuffle": shuffled,
    "convert --split": split,
    "convert --task": sharded,
    "convert --resume": resumed,
    "convert --verify": verified,
    "Dataset.save": saved,
    "recipe": mixed,
    "recipe converted": stored,
    "index": indexed,
    "check --fix": repaired,
    "convert --allow-partial": salvaged,
    "convert --to-bos": led,
}

APART: dict[tuple[str, str], str] = {}
"""Joints that cannot be, and why."""

COMMANDS = {
    "convert": "convert", "browse": "browse", "stats": "stats", "check": "check", "diff": "diff", "show": "show",
    "info": "info", "recipe": "recipe", "index": "index", "overlap": "overlap", "formats": "", "completion": "",
    "schema": "", "demo": "",
}  # fmt: skip
"""The reader or maker of each command; "" for those that read no dataset."""

VERBS = {
    "convert": "convert", "stats": "stats", "check": "check", "diff": "diff", "show": "show", "recipe": "recipe",
    "fleet": "info", "info": "info", "open": "open", "overlap": "overlap", "Dataset": "Dataset.save", "Loader": "Loader", "list_formats": "", "TokfmtError": "", "__version__": "",
}  # fmt: skip

OPTIONS = {
    "select": "convert --select", "shuffle": "convert --shuffle", "split": "convert --split", "seed": "convert --split",
    "split_by": "convert --split",
    "allow_partial": "convert --allow-partial", "to_eos": "Dataset.save",
    "bos": "convert --to-bos", "to_bos": "convert --to-bos",
    "task": "convert --task", "resume": "convert --resume", "verify": "convert --verify",
    **dict.fromkeys(
        ("sources", "destination", "format", "to_format", "options", "to_options", "eos", "seq_len", "allow_loss",
         "manifest"), "convert to jsonl",
    ),
    **dict.fromkeys(
        ("tokenizer", "special_tokens", "engine", "without", "text_field", "jobs", "executor", "overwrite", "dry_run",
         "recursive", "ignore_manifest", "progress", "rejects", "scale", "from_tokenizer", "ledger", "spool", "storage_options"), "",
    ),
}  # fmt: skip
"""The maker of each keyword of a conversion; "" for those that do not decide which ids are written, or are of text."""


def multiset(documents):
    return Counter(map(tuple, documents))
