"""Functions of the public layer that return data: the commands of the command line for Python.

    tokfmt.open(path)              a Dataset: a sequence of numpy arrays
    tokfmt.info(path)              what a dataset is: format, counts, separator, tokenizer, manifest, first words
    tokfmt.convert(src, dst)       a report of the conversion
    tokfmt.stats(paths)            counts, lengths, vocabulary, duplicates
    tokfmt.check(paths)            a report of the findings for each path
    tokfmt.diff(a, b)              whether two datasets hold the same sequences, and the first differences
    tokfmt.show(path, "5:8")       some sequences, decoded

An option of the command line is a keyword here: `--allow-loss fields` is `allow_loss="fields"`. Messages name options
as the command line does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from tokfmt.core.errors import OptionError
from tokfmt.wording import spoken

if TYPE_CHECKING:
    import zarr
    from zarr.abc.store import Store

    from tokfmt.core.reader import TokenReader
    from tokfmt.dataset import Dataset
    from tokfmt.ops.check import CheckReport
    from tokfmt.ops.compare.diff import DiffReport
    from tokfmt.ops.source.draft import TextRecipe
    from tokfmt.ops.source.request import EosChoice, Options
    from tokfmt.ops.stats.report import StatsReport

PathLike = str | os.PathLike[str]
if TYPE_CHECKING:
    ZarrNode = zarr.Group | zarr.Array[Any] | Store


@spoken
def open(  # noqa: A001 - the verb that users expect
    path: PathLike | ZarrNode,
    *,
    format: str | None = None,  # noqa: A002
    eos: EosChoice = None,
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    allow_loss: Iterable[str] = (),
    ignore_manifest: bool = False,
    allow_partial: bool = False,
    storage_options: Mapping[str, str | bool] | None = None,  # noqa: ARG001 -- `wording.spoken` uses them
    allow_source: str | Iterable[str] = (),  # noqa: ARG001
) -> Dataset:
    """Open a dataset of any format for reading.

    Args:
        path: A file or a directory; or a group, an array or a store of zarr.
        format: Name of the format (default: detected from the content).
        eos: Token ID of the separator, or "none" if the dataset has no separator (default: inferred).
        options: Read options of the format, such as {"view": "samples"} or ["view=samples"].
        tokenizer: Name, directory or path of a tokenizer.json. Text needs a tokenizer, and each record is tokenized
            when it is read. `ds.info`, `ds.tokens` and `ds.offsets` need positions on the token axis, so they tokenize
            the whole text into a temporary directory.
        text_field: Dotted path of the text in JSON records.
        allow_loss: Names of the losses that you accept, as for --allow-loss.
        ignore_manifest: Continue if the manifest of the dataset contradicts its files, as if it had no manifest.
        allow_partial: Read the sequences of a damaged dataset that are certain to be complete. `ds.notes` lists the
            losses.
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.
        allow_source: Addresses or directories, one or several, that a recipe in a store may name outside of that store.

    Returns:
        A Dataset: `len(ds)`, `ds[i]` (an unsigned integer array), `ds[a:b]` (Ragged), `ds.batches(size)`, `ds.info`.
        `ds.info.inferred` lists what tokfmt inferred, and `ds.info.notes` lists other facts about the dataset.

    Raises:
        TokfmtError: If the dataset cannot be read. `tokfmt.core.errors` lists the subclasses.
    """
    from tokfmt.core.records import RecordReader
    from tokfmt.dataset import Dataset
    from tokfmt.ops.source.open import open_sources
    from tokfmt.ops.source.request import SourceRequest
    from tokfmt.ops.source.stored import tokenizer_of

    if not isinstance(path, (str, os.PathLike)) and "zarr" in sys.modules:
        from tokfmt.zarr_groups import is_zarr, local_path, open_zarr

        if is_zarr(path):
            place = local_path(path)
            if place is None:
                return open_zarr(path, eos=eos, options=options)
            path = place
    request = SourceRequest.of(path, format, eos, options, text_field, None, allow_loss)
    handle = tokenizer_of(tokenizer)
    wanted = replace(
        request,
        allow_loss=request.allow_loss | {"fields"},
        ignore_manifest=ignore_manifest,
        allow_partial=allow_partial,
    )
    (source,) = open_sources(wanted, handle)
    reader = source.reader
    if source.format.is_computed:
        from tokfmt.recipe_dataset import dataset_of_recipe

        return dataset_of_recipe(cast("TokenReader | TextRecipe", reader), source.notes, (source,))
    if isinstance(reader, RecordReader):
        if reader.info.kind == "text" and tokenizer is None:
            raise OptionError(f"{path}: holds text, not token IDs. To read it as tokens, add tokenizer=NAME")
        from tokfmt.dataset import TextDataset
        from tokfmt.ops.source.ingest import Texts, encoder_of

        texts = Texts(reader, encoder_of(reader, handle))
        if handle is not None:
            source = source._replace(tokenizers=(handle.describe(),) * len(source.paths))
        return TextDataset(
            texts, source.format.name, inferred=reader.info.inferred, notes=source.notes, origin=(source,)
        )
    guessed = (*reader.info.inferred, *source.separator.guess)
    notes = tuple(note for note in source.notes if note not in guessed)
    return Dataset(reader, source.format.name, inferred=guessed, notes=notes, origin=(source,))


@spoken
def stats(
    paths: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    split: str | None = None,
    eos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    duplicates: bool = True,
    sample: int | None = None,
    seed: int = 0,
    seq_len: int | None = None,
    vocab_size: int | None = None,
    expect: str | Iterable[str] = (),
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,  # noqa: ARG001 -- `wording.spoken` uses them
    allow_source: str | Iterable[str] = (),  # noqa: ARG001
) -> StatsReport:
    """Count sequences, tokens, lengths, vocabulary and duplicates, for each path and in total.

    Args:
        paths: One path or several. Each path is a dataset.
        format: Name of the format (default: detected from the content).
        options: Read options of the format, such as {"view": "samples"} or ["view=samples"].
        tokenizer: Name, directory or path of a tokenizer.json. It tokenizes text, decodes token IDs and gives the size
            of the vocabulary.
        text_field: Dotted path of the text in JSON records.
        split: Name of the split to read.
        eos: Token ID of the separator, or "none" if the dataset has no separator (default: inferred).
        allow_loss: Names of the losses in reading that you accept, one or several.
        duplicates: Count equal sequences. Takes 24 bytes of memory per sequence.
        sample: Number of sequences to look at (default: all sequences).
        seed: Seed that draws the sequences if `sample` is given.
        seq_len: Tokens per sample, to compute the cost of packing (default: not computed).
        vocab_size: Size of the vocabulary that the token IDs are compared with (default: that of the tokenizer).
        expect: Expectations, such as "max_id < 50257", one or several. `report.unmet` lists those that do not hold.
        jobs: Number of threads (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.
        allow_source: Addresses or directories, one or several, that a recipe in a store may name outside of that store.

    Returns:
        A report with `report.datasets[i]` for each path and `report.total` for all of them.

    Raises:
        TokfmtError: If a dataset cannot be read. `tokfmt.core.errors` lists the subclasses.
    """
    from tokfmt.ops.source.request import SourceRequest
    from tokfmt.ops.stats import StatsRequest
    from tokfmt.ops.stats import stats as count
    from tokfmt.ops.stats.report import parse_expectation, unmet

    expectations = [parse_expectation(text) for text in ([expect] if isinstance(expect, str) else expect)]
    source = SourceRequest.of(paths, format, eos, options, text_field, split, allow_loss)
    report = count(
        StatsRequest(
            source,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            seq_len=seq_len,
            duplicates=duplicates,
            sample=sample,
            seed=seed,
            jobs=jobs,
        )
    )
    return replace(report, unmet=unmet(report, expectations))


@spoken
def check(
    paths: PathLike | Sequence[PathLike],
    *,
    deep: bool = False,
    format: str | None = None,  # noqa: A002
    options: Options = (),
    tokenizer: str | None = None,
    against: PathLike | None = None,
    ignore_order: bool = False,
    text_field: str | None = None,
    split: str | None = None,
    eos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,  # noqa: ARG001 -- `wording.spoken` uses them
    allow_source: str | Iterable[str] = (),  # noqa: ARG001
) -> list[CheckReport]:
    """Check datasets and return a report for each path, with its `findings` and `exit_code`.

    Args:
        paths: One path or several. A pattern selects all paths that match it.
        deep: Decode the whole dataset. If False, check headers, indexes, sizes and a few positions.
        format: Name of the format (default: detected from the content).
        options: Read options of the format, such as {"view": "samples"} or ["view=samples"].
        tokenizer: Name, directory or path of a tokenizer.json. Compare the token IDs, the separator and the decoded
            text with it.
        against: Path of a corpus. The dataset must hold the documents of the corpus, in order.
        ignore_order: Compare with `against` in any order.
        text_field: Dotted path of the text in JSON records.
        split: Name of the split to read.
        eos: Token ID of the separator, or "none" if the dataset has no separator (default: inferred).
        allow_loss: Names of the losses in reading that you accept, one or several.
        jobs: Number of threads (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.
        allow_source: Addresses or directories, one or several, that a recipe in a store may name outside of that store.

    Returns:
        One report per path. An error in a dataset is a finding, and does not raise.

    Raises:
        TokfmtError: If an option, the tokenizer or the corpus cannot be used.
    """
    from tokfmt.ops.check import CheckRequest
    from tokfmt.ops.check import check as look
    from tokfmt.ops.source.request import SourceRequest

    source = SourceRequest.of(paths, format, eos, options, text_field, split, allow_loss)
    request = CheckRequest(
        source, deep=deep, tokenizer=tokenizer, against=against, ignore_order=ignore_order, jobs=jobs
    )
    return list(look(request))


@spoken
def diff(
    a: PathLike,
    b: PathLike,
    *,
    ignore_order: bool = False,
    samples: bool = False,
    tokenizer: str | None = None,
    format: str | tuple[str | None, str | None] | None = None,  # noqa: A002
    options: Options = (),
    text_field: str | None = None,
    split: str | None = None,
    eos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    limit: int = 10,
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,  # noqa: ARG001 -- `wording.spoken` uses them
    allow_source: str | Iterable[str] = (),  # noqa: ARG001
) -> DiffReport:
    """Compare the sequences of two datasets of any formats.

    Args:
        a: Path of the first dataset.
        b: Path of the second dataset.
        ignore_order: Compare the datasets as multisets of sequences.
        samples: Compare rows as they are stored, with loss masks and labels.
        tokenizer: Name, directory or path of a tokenizer.json. It tokenizes text to compare it with token IDs, and
            decodes token IDs in the report.
        format: Name of the format of both, or a pair of names (default: detected from the content).
        options: Read options. Each dataset takes the options that its format has.
        text_field: Dotted path of the text in JSON records.
        split: Name of the split to read.
        eos: Token ID of the separator, or "none" if the datasets have no separator (default: inferred).
        allow_loss: Names of the losses in reading that you accept, one or several.
        limit: Largest number of differences to list.
        jobs: Number of threads (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.
        allow_source: Addresses or directories, one or several, that a recipe in a store may name outside of that store.

    Returns:
        A report with `identical`, `counts` and `first`, the first differences.

    Raises:
        TokfmtError: If a dataset cannot be read. `tokfmt.core.errors` lists the subclasses.
    """
    from tokfmt.ops.compare.diff import diff as compare
    from tokfmt.ops.source.request import SourceRequest

    format_a, format_b = format if isinstance(format, tuple) else (format, format)
    return compare(
        SourceRequest.of(a, format_a, eos, options, text_field, split, allow_loss),
        SourceRequest.of(b, format_b, eos, options, text_field, split, allow_loss),
        tokenizer=tokenizer,
        samples=samples,
        ignore_order=ignore_order,
        limit=limit,
        jobs=jobs,
    )
