"""Refuse requests, sources and formats that do not go together."""

from __future__ import annotations

from collections.abc import Sequence

from tokfmt.core.errors import DestinationExistsError, OptionError
from tokfmt.core.format import Format, WriterTraits
from tokfmt.core.place import Place, Url, writable_store
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import counted, printable
from tokfmt.ops.convert.arrangement import SplitTarget
from tokfmt.ops.convert.request import Request
from tokfmt.ops.destination import guard
from tokfmt.ops.source.open import text_recipe_of
from tokfmt.ops.source.request import SourceFiles, parse_selection
from tokfmt.ops.source.stored import Source


def refuse_tasks(request: Request) -> None:
    """Refuse a shuffle or shares with --task, because each task writes its part without the others.

    Raises:
        OptionError: The request shuffles, or deals sequences to splits.
    """
    arrangement = request.arrangement
    if arrangement.plain:
        return
    if arrangement.shuffle is not None:
        what, why = (
            "--shuffle",
            "in a shuffled order a part may need any sequence, so each task would read all",
        )
    else:
        what, why = (
            "shares in --split",
            "--finish publishes one destination, and splits are several",
        )
    raise OptionError(
        f"--task does not go with {what}: {why}. --executor dask spreads one "
        "run over machines, and --resume continues it"
    )


def refuse_splits_of_one_file(portions: Sequence[SplitTarget], traits: WriterTraits) -> None:
    """Refuse several splits in one file: a format that stores splits stores them in a folder.

    Raises:
        OptionError: The destination of several portions is a file.
    """
    first, *others = portions
    is_file = first.destination.suffix in traits.file_suffixes
    if is_file and any(one.destination == first.destination for one in others):
        raise OptionError(
            f"--split: {printable(first.destination)} is one file (expected a folder, which holds "
            "a file for each split). Name a folder"
        )


def refuse_text(sources: Sequence[Source], format_: Format) -> None:
    """Refuse text without a tokenizer.

    Raises:
        OptionError: A source holds text.
    """
    for source in sources:
        if isinstance(source.reader, RecordReader) and source.reader.info.kind == "text":
            raise OptionError(
                f"{printable(source.paths[0])}: holds text, and {format_.name} stores token IDs. Encode the "
                "text with --tokenizer NAME|DIR|FILE"
            )


def refuse_undealt(sources: Sequence[Source], *, copies: bool) -> None:
    """Refuse --task for a conversion that one process has to do.

    Raises:
        OptionError: The conversion copies lines, or compares sequences of token IDs.
    """
    why = "lines are copied as they are" if copies else ""
    for source in sources:
        recipe = text_recipe_of(source)
        if recipe is not None and recipe.info.kind == "ids":
            why = "equal sequences of token IDs are left out"
    if why:
        raise OptionError(f"--task: {why}, which is done in one run. Leave it out; --resume continues such a run")


def refuse_selection_of_none(selection: str, sources: Sequence[Source]) -> None:
    """Refuse a selection without sequences, which leaves nothing to infer a separator from.

    Raises:
        OptionError: The selection is empty.
    """
    readers = [source.reader for source in sources]
    count = sum(one.count() if isinstance(one, RecordReader) else one.info.sequences for one in readers)
    first, last = parse_selection(selection, count, [path for source in sources for path in source.paths])
    if first == last:
        there = counted(count, "sequence")
        raise OptionError(f"--select {printable(selection)}: nothing is selected: the sources have {there}")


def refuse_ledger(request: Request, sources: Sequence[Source]) -> None:
    """Refuse a ledger unless the only source is a recipe, and all of it is written in its own order.

    Raises:
        OptionError: The sources are not one recipe, or the request selects, shuffles or splits.
    """
    if len(sources) > 1 or not sources[0].format.is_computed:
        raise OptionError("--ledger lists the records that a recipe takes. Name one recipe as the only SRC")
    if request.select is not None or not request.arrangement.plain:
        shuffled = request.arrangement.shuffle is not None
        what = "--select" if request.select is not None else "--shuffle" if shuffled else "--split"
        raise OptionError(f"{what} does not go with --ledger. Set it in the recipe")


def refuse_rejects(request: Request, path: Place, sources: Sequence[Source], read: Sequence[SourceFiles]) -> None:
    """Refuse a file of rejects that stays empty, that would replace another file, or that overwrites a source.

    Raises:
        OptionError: No source is a recipe of text.
        ConversionError: The file is a source, or belongs to the destination.
        DestinationExistsError: The file exists.
    """
    if all(text_recipe_of(source) is None for source in sources):
        raise OptionError("--rejects lists the texts that a recipe leaves out, and no source is a recipe of text")
    guard(path, (*request.source.paths, request.destination), read)
    if isinstance(path, Url):
        there = writable_store(path).identity(path.key) is not None
        replaced = request.overwrite
    else:
        there, replaced = path.is_there(), request.overwrite and path.is_file()
    if there and not replaced:
        raise DestinationExistsError(path)
