"""The verbs of the command line as functions that return data, and errors in Python's words.

    tokfmt.open(path)              a Dataset: a sequence of numpy arrays
    tokfmt.convert(src, dst)       what was done
    tokfmt.stats(paths)            counts, lengths, vocabulary, duplicates
    tokfmt.check(paths)            what is wrong, a verdict for each path
    tokfmt.diff(a, b)              whether two datasets hold the same sequences, and where not
    tokfmt.show(path, "5:8")       some sequences, decoded

Whatever says `--allow-loss fields` on a command line says `allow_loss="fields"` here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tokfmt.core.errors import OptionError
from tokfmt.core.messages import python_words, reword
from tokfmt.wording import READING, spoken

if TYPE_CHECKING:
    from tokfmt.core.reader import TokenReader
    from tokfmt.dataset import Dataset
    from tokfmt.ops.check import Verdict
    from tokfmt.ops.compare.diff import Report as DiffReport
    from tokfmt.ops.source.draft import TextRecipe
    from tokfmt.ops.source.request import EosChoice, Options
    from tokfmt.ops.stats.report import Report as StatsReport

PathLike = str | os.PathLike[str]


@spoken(READING)
def open(  # noqa: A001 - the verb that users expect
    path: PathLike,
    *,
    format: str | None = None,  # noqa: A002
    eos: EosChoice = None,
    options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    allow_loss: Iterable[str] = (),
    ignore_manifest: bool = False,
    allow_partial: bool = False,
) -> Dataset:
    """Open a dataset for reading, whatever its format.

    Args:
        path: A file or a directory.
        format: Its format's name; detected from the content when left out.
        eos: The separator's id, "none" for no separator, or None to find out.
        options: The format's own read options, as {"view": "samples"} or ["view=samples"].
        tokenizer: Name, directory or tokenizer.json; needed for text, of which only what is read is tokenised. What
            needs to know where on the axis it lies (`ds.info`, `ds.tokens`, `ds.offsets`) tokenises all of it, into a
            temporary directory.
        text_field: Dotted path of the text in JSON records.
        allow_loss: What may be given up, by name, as for --allow-loss.
        ignore_manifest: Go on where the manifest beside the dataset contradicts it, as if there were none.
        allow_partial: Of a damaged dataset read the sequences that are certain to be whole; `ds.notes` say what is
            lost.

    Returns:
        A Dataset: `len(ds)`, `ds[i]` (uint array), `ds[a:b]` (Ragged), `ds.batches(size)`, `ds.info`;
        `ds.info.inferred` and `ds.info.notes` say what was guessed, and what a person should be told.

    Raises:
        TokfmtError: One of its kinds; see `tokfmt.core.errors`.
    """
    from tokfmt.core.records import RecordReader
    from tokfmt.dataset import Dataset
    from tokfmt.ops.source.open import open_sources
    from tokfmt.ops.source.request import SourceRequest
    from tokfmt.ops.source.stored import tokenizer_of

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
    if source.format.computed:
        from tokfmt.recipe_dataset import dataset_of_recipe

        return dataset_of_recipe(cast("TokenReader | TextRecipe", reader), source.notes, (source,))
    if isinstance(reader, RecordReader):
        if reader.info.kind == "text" and tokenizer is None:
            raise OptionError(f"{path}: holds text; give tokenizer= to read it as tokens")
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


@spoken(READING)
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
) -> StatsReport:
    """Statistics of datasets: `report.datasets[i]` of each path, `report.total` of all; see `tokfmt stats`.

    Args:
        paths: A path or several, each a dataset of its own.
        format, options: A format's name, and its own read options, as {"view": "samples"}.
        tokenizer: Name, directory or tokenizer.json: tokenizes text, spells ids, knows the vocabulary.
        text_field, split, eos: How to read: dotted path of the text, which split, the separator's id.
        allow_loss: What may be left out in reading: a word or several.
        duplicates: Look for equal sequences; takes 24 bytes a sequence.
        sample, seed: Look at so many sequences only, chosen by the seed.
        seq_len: To compute the cost of packing.
        vocab_size: To compare ids with; the tokenizer's by default.
        expect: Expectations, such as "max_id < 50257"; `report.unmet` lists those that do not hold.
        jobs: Threads; by default one a core.

    Raises:
        TokfmtError: One of its kinds; see `tokfmt.core.errors`.
    """
    from tokfmt.ops.source.request import SourceRequest
    from tokfmt.ops.stats import StatsRequest
    from tokfmt.ops.stats import stats as count
    from tokfmt.ops.stats.report import parse_expectation, unmet

    expectations = [parse_expectation(text) for text in ([expect] if isinstance(expect, str) else expect)]
    source = SourceRequest.of(paths, format, eos, options, text_field, split, allow_loss)
    report = count(
        StatsRequest(
            source, tokenizer=tokenizer, vocab_size=vocab_size, seq_len=seq_len, duplicates=duplicates, sample=sample,
            seed=seed, jobs=jobs,
        )
    )  # fmt: skip
    return replace(report, unmet=unmet(report, expectations))


@spoken(READING)
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
) -> list[Verdict]:
    """Whether datasets are valid: a verdict for each path, with `findings`, `errors` and `exit_code`.

    Args:
        paths: A path or several; patterns stand for what they match.
        deep: Decode everything; else headers, indexes, sizes, and some places.
        format, options: A format's name, and its own read options, as {"view": "samples"}.
        tokenizer: Name, directory or tokenizer.json: compare ids, end of text and decoding with it.
        against: A corpus that the dataset must hold the documents of, in order.
        ignore_order: In whatever order.
        text_field, split, eos: How to read: dotted path of the text, which split, the separator's id.
        allow_loss: What may be left out in reading: a word or several.
        jobs: Threads; by default one a core.

    Raises:
        TokfmtError: An option, a tokenizer or a corpus cannot be used. What is wrong with a dataset never raises.
    """
    from tokfmt.ops.check import CheckRequest
    from tokfmt.ops.check import check as look
    from tokfmt.ops.source.request import SourceRequest

    source = SourceRequest.of(paths, format, eos, options, text_field, split, allow_loss)
    request = CheckRequest(
        source, deep=deep, tokenizer=tokenizer, against=against, ignore_order=ignore_order, jobs=jobs
    )
    verdicts = list(look(request))
    words = python_words(READING)

    for verdict in verdicts:
        verdict.findings = [
            replace(finding, message=reword(finding.message, words), remedy=reword(finding.remedy, words))
            for finding in verdict.findings
        ]
    return verdicts


@spoken(READING)
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
) -> DiffReport:
    """Whether two datasets, of any formats, hold the same sequences: `report.identical`, `.counts`, `.first`.

    Args:
        a, b: Their paths.
        ignore_order: Compare as multisets: which sequences, not where.
        samples: Compare rows as they are stored, with loss masks and labels.
        tokenizer: Tokenizes text to compare it with ids; shows ids as text.
        format: A format's name for both, or a pair of them; by default by content.
        options: Read options; each side takes those that its format knows.
        text_field, split, eos: How to read: dotted path of the text, which split, the separator's id.
        allow_loss: What may be left out in reading: a word or several.
        limit: Differences listed.
        jobs: Threads; by default one a core.

    Raises:
        TokfmtError: One of its kinds; see `tokfmt.core.errors`.
    """
    from tokfmt.ops.compare.diff import diff as compare
    from tokfmt.ops.source.request import SourceRequest

    format_a, format_b = format if isinstance(format, tuple) else (format, format)
    return compare(
        SourceRequest.of(a, format_a, eos, options, text_field, split, allow_loss),
        SourceRequest.of(b, format_b, eos, options, text_field, split, allow_loss),
        tokenizer=tokenizer, samples=samples, ignore_order=ignore_order, limit=limit, jobs=jobs,
    )  # fmt: skip
