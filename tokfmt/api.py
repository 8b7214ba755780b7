"""Functions of the public layer that return data: the commands of the command line for Python.

    tokfmt.open(path)              a Dataset: a sequence of numpy arrays
    tokfmt.info(path)              what a dataset is: format, counts, separator, tokenizer, manifest, first words
    tokfmt.convert(src, dst)       a report of the conversion
    tokfmt.stats(paths)            counts, lengths, vocabulary, duplicates
    tokfmt.check(paths)            a report of the findings for each path
    tokfmt.diff(a, b)              whether two datasets hold the same sequences, and the first differences
    tokfmt.show(path, "5:8")       some sequences, decoded
    tokfmt.overlap(paths, evals)   which items of evals are in datasets

An option of the command line is a keyword here: `--allow-loss fields` is `allow_loss="fields"`. Messages name options
as the command line does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from tokfmt.errors import OptionError
from tokfmt.settings import count, settings

if TYPE_CHECKING:
    from tokfmt.commands.check import CheckReport
    from tokfmt.commands.compare.diff import DiffReport
    from tokfmt.commands.convert.request import Conversion
    from tokfmt.commands.fleet import Fleet
    from tokfmt.commands.info import Overview
    from tokfmt.commands.overlap import OverlapReport
    from tokfmt.commands.show.show import Preview
    from tokfmt.commands.stats.report import StatsReport
    from tokfmt.core.reader import TokenReader
    from tokfmt.dataset import Dataset
    from tokfmt.files.place import Place, PlaceLike
    from tokfmt.files.store import Identity
    from tokfmt.mix import TextRecipe
    from tokfmt.model.separator import ToEos
    from tokfmt.run.progress import Progress
    from tokfmt.source.request import EosChoice, Options, Selection, SourceRequest
    from tokfmt.source.stored import Source
    from tokfmt.text.tokenizer import TokenizerHandle

PathLike = str | os.PathLike[str]


def open(  # noqa: A001 - the verb that users expect
    path: PathLike,
    *,
    format: str | None = None,  # noqa: A002
    eos: EosChoice = None,
    bos: EosChoice = None,
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    split: str | None = None,
    allow_loss: Iterable[str] = (),
    ignore_manifest: bool = False,
    allow_partial: bool = False,
    storage_options: Mapping[str, str | bool] | None = None,
) -> Dataset:
    """Open a dataset of any format for reading.

    Args:
        path: A file or a directory.
        format: Name of the format (default: detected from the content).
        eos: Token ID of the separator, or "none" if the dataset has no separator (default: inferred).
        bos: Token ID of the lead, which is no content at the beginning of sequences, or "none" (default: given by the
            manifest).
        options: Read options of the format, such as {"view": "samples"} or ["view=samples"].
        tokenizer: Name, directory or path of a tokenizer.json. Text needs a tokenizer, and each record is tokenized
            when it is read. `ds.info`, `ds.tokens` and `ds.offsets` need positions on the token axis, so they tokenize
            the whole text into a temporary directory.
        text_field: Dotted path of the text in JSON records.
        split: Name of the split to read.
        allow_loss: Names of the losses that you accept, as for --allow-loss.
        ignore_manifest: Continue if the manifest of the dataset contradicts its files, as if it had no manifest.
        allow_partial: Read the sequences of a damaged dataset that are certain to be complete. `ds.notes` lists the
            losses.
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        A Dataset: `len(ds)`, `ds[i]` (an unsigned integer array), `ds[a:b]` (Ragged), `ds.batches(size)`, `ds.info`.
        `ds.info.inferred` lists what tokfmt inferred, and `ds.info.notes` lists other facts about the dataset.

    Raises:
        TokfmtError: If the dataset cannot be read. `tokfmt.errors` lists the subclasses.
    """
    with settings("open", storage_options):
        from tokfmt.core.losses import READS
        from tokfmt.core.records import RecordReader
        from tokfmt.source.open import open_dataset
        from tokfmt.source.request import Reading, SourceRequest
        from tokfmt.source.stored import tokenizer_of

        request = SourceRequest.of(
            path, format, eos, options, text_field, split, allow_loss, False, ignore_manifest, allow_partial, bos
        )
        wanted, handle = request.accepting(READS["open"]), tokenizer_of(tokenizer)
        source = open_dataset(wanted, Reading(handle, max_sequences=_KNOWN))
        reader = source.reader
        if not isinstance(reader, RecordReader) and reader.info.beginning:
            from tokfmt.dataset import StreamDataset
            from tokfmt.source.discover import snapshot
            from tokfmt.source.open import find_one

            whole = partial(_whole_stream, wanted, handle, snapshot(find_one(wanted)))
            is_stated = any(manifest.content for manifest in source.manifests)  # It is compared before a token is read.
            return whole() if is_stated else StreamDataset(reader, whole, source.format.name, tokenizer=handle)
        if source.format.is_computed:
            from tokfmt.recipe_dataset import dataset_of_recipe

            return dataset_of_recipe(cast("TokenReader | TextRecipe", reader), source.notes, (source,))
        if isinstance(reader, RecordReader):
            if reader.info.is_text and tokenizer is None:
                raise OptionError(f"{path}: holds text, not token IDs. To read it as tokens, add tokenizer=NAME")
            from tokfmt.dataset import TextDataset
            from tokfmt.source.ingest import Texts, encoder_of

            texts = Texts(reader, encoder_of(reader, handle))
            if handle is not None:
                source = source._replace(tokenizers=(handle.describe(),) * len(source.paths))
            guessed = reader.info.inferred
            return TextDataset(
                texts, source.format.name, inferred=guessed, notes=source.notes, origin=(source,), tokenizer=handle
            )
        return _dataset(source, handle, partial(_opened_again, wanted, handle) if reader.presumes else None)


_KNOWN = 64
"""The number of documents of a long stream that are found when it is opened."""


def _whole_stream(
    request: SourceRequest, tokenizer: TokenizerHandle | None, before: Mapping[Place, Identity]
) -> Dataset:
    """Return the dataset of a stream, after a scan for its documents. `before` are its files when it was opened, which
    must not have changed.
    """
    from tokfmt.source.discover import check_unchanged
    from tokfmt.source.open import find_one, open_dataset
    from tokfmt.source.request import Reading

    files = find_one(request)
    check_unchanged(before, files)
    return _dataset(open_dataset(request, Reading(tokenizer), files), tokenizer)


def _dataset(
    source: Source, tokenizer: TokenizerHandle | None, again: Callable[[], TokenReader] | None = None
) -> Dataset:
    """Return the dataset of a source of token IDs. What was inferred is not among its notes."""
    from tokfmt.dataset import Dataset

    guessed = (*source.reader.info.inferred, *source.separator.guess)
    return Dataset(
        cast("TokenReader", source.reader),
        source.format.name,
        inferred=guessed,
        notes=tuple(note for note in source.notes if note not in guessed),
        origin=(source,),
        again=again,
        tokenizer=tokenizer,
    )


def _opened_again(request: SourceRequest, tokenizer: TokenizerHandle | None) -> TokenReader:
    """Return the reader of a dataset, after a look at the end of each of its sequences."""
    from tokfmt.source.open import open_dataset
    from tokfmt.source.request import Reading

    return cast("TokenReader", open_dataset(replace(request, every_end=True), Reading(tokenizer)).reader)


def info(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    eos: EosChoice = None,
    bos: EosChoice = None,
    split: str | None = None,
    allow_loss: str | Iterable[str] = (),
    recursive: bool = False,
    ignore_manifest: bool = False,
    storage_options: Mapping[str, str | bool] | None = None,
) -> Overview:
    """Identify a dataset of any size without reading all of it.

    Args:
        path: A file or a directory.
        format: The format (default: detected from content).
        options: Read options of the format.
        tokenizer: The name, directory or tokenizer.json of a tokenizer, which decodes the first token IDs (default:
            that of the manifest, if it is on this machine).
        text_field: The JSON field of the text.
        eos: The separator, or "none" (default: given by the manifest, or inferred).
        bos: Token ID of the lead, which is no content at the beginning of sequences, or "none" (default: given by the
            manifest).
        split: The split of a dataset that has several.
        allow_loss: Words of `--allow-loss`.
        recursive: Read subdirectories too.
        ignore_manifest: Do not use the manifest of the dataset.
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Raises:
        TokfmtError: If the dataset cannot be opened, or an option is wrong.
    """
    with settings("info", storage_options):
        from tokfmt.commands.info import info as run
        from tokfmt.source.request import SourceRequest

        given = SourceRequest.of(
            path, format, eos, options, text_field, split, allow_loss, recursive, ignore_manifest, bos=bos
        )
        return run(given, tokenizer)


def fleet(
    paths: PathLike | Sequence[PathLike],
    *,
    recursive: bool = False,
    sample: int | None = None,
    deep: bool = False,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
) -> Fleet:
    """Identify several datasets, and find those that differ from the others: in the ID that begins their sequences, ...

    Args:
        paths: One path or several. Each is a dataset.
        recursive: A directory stands for the datasets in it and below it.
        sample: Number of sequences of each dataset to look at (default: the first and the last 16).
        deep: Read each dataset wholly.
        format: The format of all (default: detected from content).
        options: Read options of the format.
        tokenizer: The name, directory or tokenizer.json of a tokenizer, which decodes the first token IDs.
        text_field: The JSON field of the text.
        eos: The separator of all, or "none" (default: given by the manifests, or inferred).
        bos: Token ID of the lead, which is no content at the beginning of sequences, or "none" (default: given by the
            manifests).
        allow_loss: Words of `--allow-loss`.
        jobs: Number of workers of `sample` and `deep` (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        The facts of `tokfmt.info` of each dataset, the total, and the differences. A dataset that cannot be read is
        among the errors.

    Raises:
        TokfmtError: If a directory has no dataset, or an option is wrong.
    """
    with settings("fleet", storage_options):
        from tokfmt.commands.fleet import fleet as run
        from tokfmt.source.request import SourceRequest

        given = SourceRequest.of(paths, format, eos, options, text_field, None, allow_loss, recursive, bos=bos)
        return run(given, tokenizer, sample=count("sample", sample), deep=deep, jobs=count("jobs", jobs))


def convert(
    sources: PlaceLike | Sequence[PlaceLike],
    destination: PlaceLike,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    to_format: str | None = None,
    options: Options = (),
    to_options: Options = (),
    tokenizer: str | None = None,
    from_tokenizer: str | None = None,
    special_tokens: Literal["text", "parse"] = "text",
    engine: Literal["auto", "fastokens", "tokenizers"] = "auto",
    text_field: str | None = None,
    eos: EosChoice = None,
    bos: EosChoice = None,
    to_eos: ToEos = None,
    to_bos: EosChoice = None,
    seq_len: int | None = None,
    split: str | None = None,
    split_by: Literal["number", "content"] | None = None,
    seed: int | None = None,
    shuffle: int | None = None,
    select: Selection = None,
    without: PathLike | Sequence[PathLike] | Mapping[str, object] | None = None,
    allow_loss: Iterable[str] = (),
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    scale: int | None = None,
    manifest: bool = True,
    recursive: bool = False,
    ignore_manifest: bool = False,
    allow_partial: bool = False,
    resume: bool = False,
    task: tuple[int, int] | None = None,
    rejects: PlaceLike | None = None,
    ledger: bool = False,
    spool: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
) -> Conversion:
    """Convert one or more datasets to one dataset of any format, and return what was done.

    Args:
        sources: One path, or several that are concatenated in order. A pattern (`part-*.jsonl`) names all files that
            it matches, in natural order (part-2 before part-10). `-` is standard input. Pipes carry JSON Lines.
        destination: The path or the address (s3, gs, az) to write. It is complete, or not written. `-` is standard
            output, for jsonl (the default) and stage1.
        format: Format of the sources (default: detected from content).
        to_format: Format of the destination (default: by its name).
        options: Options of the source format, as a mapping or `key=value` words.
        to_options: Options of the destination format, as a mapping or `key=value` words.
        tokenizer: Name, directory or tokenizer.json. It encodes text, or decodes token IDs if the destination holds
            text. Other token IDs are copied: it gives their separator if nothing else states it, and an ID that it does
            not have is refused.
        from_tokenizer: The tokenizer that made the token IDs of the sources, which decodes them; `tokenizer` encodes
            them again. A note states how many sequences have another text than before.
        special_tokens: "text" encodes a special token that occurs in a text as plain text, "parse" as the token.
        engine: Library that encodes text.
        text_field: Dotted path of the text in JSON records.
        eos: ID of the separator of the sources, "none", or None to infer it.
        bos: ID of the lead, such as a BOS, which is no content at the beginning of sequences; or "none" (default: given
            by the manifest).
        to_eos: ID of the separator to write, "none", or "as-stored": none is added where a source has none (default:
            that of the sources).
        to_bos: ID of the lead to write in front of each sequence, or "none" (default: as the sources have it, if the
            destination has an index; else none).
        seq_len: Tokens per sample, for formats that store samples.
        split: The split to read, and to write; or `NAME=SHARE,...`, the splits that sequences are dealt to.
        split_by: What the split of a sequence is drawn for: its "number", or its "content", so that equal sequences are
            in the same split (default: "number").
        seed: Seed that deals sequences to splits (default: 0).
        shuffle: Seed of a global shuffle of the sequences. Each split is shuffled by itself.
        select: Sequence numbers: `A:B`, one number, or a slice or range without a step.
        without: Evals whose n-grams no sequence of the destination holds: paths, or `{"with": [...], "ngram": 13, "by":
            "words", "field": ["question,answer"]}`, as in `overlap`.
        allow_loss: Names of the losses that you accept.
        jobs: Number of workers (default: one per core).
        executor: "threads", "processes", "serial", "dask", "dask:ADDRESS" or "auto". "auto" takes processes for much
            text or many HDF5 samples, and threads for the rest and for readers of classes that the calling script
            defines. Processes do not run that script. The bytes written do not depend on the executor.
        overwrite: Replace an existing destination in one step.
        verify: Read the destination back and compare it before it appears.
        dry_run: Return what would be done, and write nothing.
        scale: Bytes of sources to estimate for in a dry run, if they are like these (default: these sources).
        manifest: Write `DST.tokfmt.json`.
        recursive: Read subdirectories too.
        ignore_manifest: Continue if a manifest contradicts its source.
        allow_partial: Save the sequences of a damaged source that are certain to be complete.
        resume: Continue an interrupted run with `resume`. If this run is interrupted, keep its finished work.
        task: (i, n): write only the part of task i of n, 0 <= i < n. `finish` publishes the destination.
        rejects: A JSON Lines file for the texts and sequences that a recipe leaves out. It states where each is, why it
            is left out, and the equal text that is kept.
        ledger: Write `DST.ledger`: the file and the record that each sequence of a recipe comes from.
        spool: A directory in which a destination in a store is built (default: TOKFMT_SPOOL, or $TMPDIR).
        progress: Receives phases, counts and notes while the conversion runs.
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        The result, with counts, notes and losses.

    Raises:
        TokfmtError: The conversion failed. The destination is as it was before.
    """
    with settings("convert", storage_options):
        from pathlib import Path

        from tokfmt.base.options import given_options
        from tokfmt.commands.convert.arrangement import arrangement_of
        from tokfmt.commands.convert.convert import convert as convert_sources
        from tokfmt.commands.convert.request import Request, task_of, to_bos_of, to_eos_of
        from tokfmt.commands.convert.selection import without as without_evals
        from tokfmt.files.place import destination_of
        from tokfmt.run.execute import worker_count
        from tokfmt.run.progress import Progress
        from tokfmt.source.request import SourceRequest, selection_words

        if without is not None and select is not None:
            raise OptionError("--without and --select cannot be combined. Convert twice, or leave one out")
        arrangement = arrangement_of(shuffle, split, seed, split_by)
        read = None if arrangement.shares else split
        source = SourceRequest.of(
            sources, format, eos, options, text_field, read, allow_loss, recursive, ignore_manifest, allow_partial, bos
        )
        request = Request(
            source=source,
            destination=destination_of(destination),
            to=to_format,
            to_options=given_options(to_options),
            to_eos=None if to_eos is None else to_eos_of(to_eos),
            to_bos=None if to_bos is None else to_bos_of(to_bos),
            tokenizer=tokenizer,
            from_tokenizer=from_tokenizer,
            special_tokens=special_tokens,
            engine=engine,
            seq_len=count("seq_len", seq_len),
            arrangement=arrangement,
            select=selection_words(select) if without is None else without_evals(without),
            jobs=worker_count(count("jobs", jobs)),
            executor=executor,
            overwrite=overwrite,
            verify=verify,
            dry_run=dry_run,
            scale=count("scale", scale),
            manifest=manifest,
            resume=resume,
            ledger=ledger,
            task=None if task is None else task_of(task),
            rejects=None if rejects is None else destination_of(rejects),
            spool=None if spool is None else Path(spool),
        )
        return convert_sources(request, progress or Progress())


def overlap(
    paths: PathLike | Sequence[PathLike],
    evals: PathLike | Sequence[PathLike],
    *,
    ngram: int = 13,
    by: Literal["words", "tokens"] = "words",
    field: str | Sequence[str] = (),
    tokenizer: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    text_field: str | None = None,
    split: str | None = None,
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    list: PathLike | None = None,  # noqa: A002 - the name of the option
    expect: str | Iterable[str] = (),
    task: tuple[int, int] | None = None,
    finish: bool = False,
    parts: PathLike | None = None,
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
) -> OverlapReport:
    """Find the n-grams of evals in datasets, in one pass.

    Args:
        paths: One path or several. Each path is a dataset.
        evals: One path or several. Each path is an eval: a dataset of any format.
        ngram: Words or tokens in a row that count as overlap.
        by: "words" compares words in lower case, "tokens" compares token IDs.
        field: Fields of the text of evals, which are joined, as "question,answer": one text for all evals, or a list
            with one for each (default: the field of the text).
        tokenizer: Name, directory or path of a tokenizer.json. It decodes token IDs to words, or encodes text to tokens
            (default: that of the manifest).
        format: Name of the format of the datasets (default: detected from the content).
        options: Read options of the format, such as {"view": "samples"} or ["view=samples"].
        text_field: Dotted path of the text in JSON records of the datasets.
        split: Name of the split to read.
        eos: Token ID of the separator of the datasets, or "none" (default: inferred).
        bos: Token ID of the lead of the datasets, or "none" (default: given by the manifest).
        allow_loss: Names of the losses in reading that you accept, one or several.
        list: File of JSON Lines that receives items beside documents (default: none is written). It replaces only an
            older list.
        expect: Expectations, such as "max_share < 1%", one or several. `report.unmet` lists those that do not hold.
        task: (i, n): search only share i of n, and write its sums to `parts`.
        finish: Add the sums of all tasks instead of searching.
        parts: Directory for the sums of tasks.
        jobs: Number of workers (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        A report with `report.evals[i].hits`, the items of an eval of which n-grams were found.

    Raises:
        TokfmtError: If a dataset or an eval cannot be read or compared. `tokfmt.errors` lists the subclasses.
    """
    with settings("overlap", storage_options):
        from tokfmt.commands.overlap import OverlapRequest
        from tokfmt.commands.overlap import overlap as run
        from tokfmt.source.request import SourceRequest, several
        from tokfmt.text.filter_rules import OverlapRules

        table = {
            "with": several(evals),
            "ngram": ngram,
            "by": by,
            "field": (field,) if isinstance(field, str) else tuple(field),
        }
        return run(
            OverlapRequest(
                SourceRequest.of(paths, format, eos, options, text_field, split, allow_loss, bos=bos),
                OverlapRules.of(table, "overlap"),
                tokenizer=tokenizer,
                expected=[expect] if isinstance(expect, str) else [*expect],
                listed=None if list is None else os.fspath(list),
                jobs=count("jobs", jobs),
                task=task,
                parts=None if parts is None else os.fspath(parts),
                finish=finish,
            )
        )


def stats(
    paths: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    split: str | None = None,
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    duplicates: bool = True,
    duplicate_groups: PathLike | None = None,
    sample: int | None = None,
    seed: int = 0,
    select: Selection = None,
    step: Selection = None,
    seq_len: int | None = None,
    vocab_size: int | None = None,
    expect: str | Iterable[str] = (),
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
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
        bos: Token ID of the lead, which is no content at the beginning of sequences, or "none" (default: given by the
            manifest).
        allow_loss: Names of the losses in reading that you accept, one or several.
        duplicates: Count equal sequences. Takes 24 bytes of memory per sequence.
        duplicate_groups: File of JSON Lines that receives each group of equal sequences with all members, over all
            paths (default: none is written). It replaces only an older list.
        sample: Number of sequences to look at (default: all sequences).
        seed: Seed that draws the sequences if `sample` is given.
        select: Samples of a recipe or a run, `A:B`, a slice or a range (default: all). Then only their tokens are
            counted, by source, from indexes and order files alone: `report.datasets[i].sources`.
        step: Steps of a run, `A:B`, a slice or a range, whose tokens are counted in the same way.
        seq_len: Tokens per sample, to compute the cost of packing (default: not computed).
        vocab_size: Size of the vocabulary that the token IDs are compared with (default: that of the tokenizer).
        expect: Expectations, such as "max_id < 50257", one or several. `report.unmet` lists those that do not hold.
        jobs: Number of threads (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        A report with `report.datasets[i]` for each path and `report.total` for all of them.

    Raises:
        TokfmtError: If a dataset cannot be read. `tokfmt.errors` lists the subclasses.
    """
    with settings("stats", storage_options):
        from tokfmt.commands.stats import StatsRequest
        from tokfmt.commands.stats import stats as run
        from tokfmt.commands.stats.report import parse_expectation, unmet
        from tokfmt.source.request import SourceRequest, selection_words

        expectations = [parse_expectation(text) for text in ([expect] if isinstance(expect, str) else expect)]
        source = SourceRequest.of(paths, format, eos, options, text_field, split, allow_loss, bos=bos)
        report = run(
            StatsRequest(
                source,
                tokenizer=tokenizer,
                vocab_size=count("vocab_size", vocab_size),
                seq_len=count("seq_len", seq_len),
                duplicates=duplicates,
                duplicate_groups=None if duplicate_groups is None else os.fspath(duplicate_groups),
                sample=count("sample", sample),
                seed=seed,
                select=selection_words(select),
                step=selection_words(step),
                jobs=count("jobs", jobs),
            )
        )
        return replace(report, unmet=unmet(report, expectations))


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
    bos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
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
        bos: Token ID of the lead, which is no content at the beginning of sequences, or "none" (default: given by the
            manifest).
        allow_loss: Names of the losses in reading that you accept, one or several.
        jobs: Number of threads (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        One report per path. An error in a dataset is a finding, and does not raise.

    Raises:
        TokfmtError: If an option, the tokenizer or the corpus cannot be used.
    """
    with settings("check", storage_options):
        from tokfmt.commands.check import CheckRequest
        from tokfmt.commands.check import check as run
        from tokfmt.source.request import SourceRequest

        source = SourceRequest.of(paths, format, eos, options, text_field, split, allow_loss, bos=bos)
        request = CheckRequest(
            source, deep=deep, tokenizer=tokenizer, against=against, ignore_order=ignore_order, jobs=count("jobs", jobs)
        )
        return list(run(request))


def diff(
    a: PathLike,
    b: PathLike | Sequence[PathLike],
    *,
    ignore_order: bool = False,
    samples: bool = False,
    tokenizer: str | None = None,
    from_tokenizer: str | None = None,
    format: str | tuple[str | None, str | None] | None = None,  # noqa: A002
    options: Options = (),
    text_field: str | None = None,
    split: str | None = None,
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: str | Iterable[str] = (),
    limit: int = 10,
    output: PlaceLike | None = None,
    jobs: int | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
) -> DiffReport:
    """Compare the sequences of two datasets of any formats.

    Args:
        a: Path of the first dataset.
        b: Path of the second dataset, or of several, such as splits, whose sequences follow each other.
        ignore_order: Compare the datasets as multisets of sequences. Those of one side only are paired by likeness.
        samples: Compare rows as they are stored, with loss masks and labels.
        tokenizer: Name, directory or path of a tokenizer.json. It tokenizes text to compare it with token IDs, and
            decodes token IDs in the report.
        from_tokenizer: The tokenizer that made the token IDs of A, if it is another one than that of B: the texts are
            compared.
        format: Name of the format of both, or a pair of names (default: detected from the content).
        options: Read options. Each dataset takes the options that its format has.
        text_field: Dotted path of the text in JSON records.
        split: Name of the split to read.
        eos: Token ID of the separator, or "none" if the datasets have no separator (default: inferred).
        bos: Token ID of the lead, which is no content at the beginning of sequences, or "none" (default: given by the
            manifest).
        allow_loss: Names of the losses in reading that you accept, one or several.
        limit: Largest number of differences to list; 0: all.
        output: A JSON Lines file for all differences, with text if there is a tokenizer, else with IDs.
        jobs: Number of threads (default: one per core).
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        A report with `identical`, `counts` and `first`, the first differences.

    Raises:
        TokfmtError: If a dataset cannot be read. `tokfmt.errors` lists the subclasses.
    """
    with settings("diff", storage_options):
        from tokfmt.commands.compare.diff import diff as compare
        from tokfmt.files.place import destination_of
        from tokfmt.source.request import SourceRequest

        format_a, format_b = format if isinstance(format, tuple) else (format, format)
        return compare(
            SourceRequest.of(a, format_a, eos, options, text_field, split, allow_loss, bos=bos),
            SourceRequest.of(b, format_b, eos, options, text_field, split, allow_loss, bos=bos),
            tokenizer=tokenizer,
            from_tokenizer=from_tokenizer,
            samples=samples,
            ignore_order=ignore_order,
            limit=count("limit", limit, 0) or 0,
            output=None if output is None else destination_of(output),
            jobs=count("jobs", jobs),
        )


def show(
    path: str | os.PathLike[str],
    selection: Selection = None,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    eos: EosChoice = None,
    bos: EosChoice = None,
    split: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    allow_loss: Iterable[str] = (),
    recursive: bool = False,
    ignore_manifest: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
) -> Preview:
    """Open a dataset and read the selected sequences.

    Args:
        path: A file or a directory.
        selection: `5`, `0:10`, `-3:`, `random:5`, a number, a slice, `dup`, or a query (see
            `commands.search.query`). `dup` selects the first sequence of each group of equal ones. Default: the first
            five sequences.
        format: The format (default: detected from content).
        options: Read options of the format.
        tokenizer: The name, directory or tokenizer.json of a tokenizer; it decodes IDs and encodes text.
        text_field: The JSON field of the text.
        eos: The separator, or "none" (default: given by the manifest, or inferred).
        bos: Token ID of the lead, which is no content at the beginning of sequences, or "none" (default: given by the
            manifest).
        split: The split of a dataset that has several.
        seed: The seed of `random:5`. It chooses the same numbers for every dataset with the same number of sequences.
        limit: The maximum number of sequences; None or 0 for all.
        allow_loss: Words of `--allow-loss`.
        recursive: Read subdirectories too.
        ignore_manifest: Do not use the manifest of the dataset.
        progress: Receives the progress of a search.
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Raises:
        TokfmtError: If the dataset cannot be opened, or an option is wrong.
    """
    with settings("show", storage_options):
        from tokfmt.commands.show.show import show as run
        from tokfmt.source.request import SourceRequest

        given = SourceRequest.of(
            path, format, eos, options, text_field, split, allow_loss, recursive, ignore_manifest, bos=bos
        )
        most = count("limit", limit, 0)
        return run(given, selection, tokenizer=tokenizer, seed=seed, limit=most, progress=progress)
