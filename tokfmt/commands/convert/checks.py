"""Every refusal of a request, in order, each as early as its facts are known.

    check_streams  a pipe as a source, standard output as the destination
    check_options  the options alone
    check_places   the files of the sources and of the destination, before any is opened
    check_request  the open sources, before a token is read
    check_parts    tasks of text that write files of their own

`losses` refuses what would be lost, and `destination` a separator or a lead that the format cannot store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokfmt import registry
from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs, text_recipe_of
from tokfmt.commands.convert.request import Request
from tokfmt.commands.convert.selection import query_of
from tokfmt.commands.convert.tasks import SUFFIXES
from tokfmt.commands.guards import guard, refuse_foreign
from tokfmt.errors import ConversionError, DestinationExistsError, OptionError
from tokfmt.files.place import LocalPlace, Place, PlaceLike, Url, writable_store
from tokfmt.files.spool import is_named
from tokfmt.source.request import STREAM, SourceFiles
from tokfmt.source.stored import Source, axes_of, records_of
from tokfmt.wording import printable


def check_streams(request: Request, paths: Sequence[PlaceLike], pipes: Sequence[int]) -> None:
    """Refuse what a pipe, or standard output, cannot do."""
    if request.destination == LocalPlace(STREAM):
        _check_stdout(request)
    if not paths:
        raise OptionError("nothing to convert: name at least one source")
    if pipes and request.keeps_work:
        raise OptionError(f"{printable(paths[pipes[0]])}: a pipe cannot be read again. Save it to a file")
    if sum(str(paths[number]) == STREAM for number in pipes) > 1:
        raise OptionError("-: standard input can be read once only")


def _check_stdout(request: Request) -> None:
    if request.ledger:
        raise OptionError("--ledger is written beside DST, and standard output has nothing beside it. Name a file")
    format_ = registry.get(request.to or "jsonl")
    if not format_.can_stream:
        raise OptionError(f"-: {format_.name} cannot be written to a pipe (expected jsonl or stage1). Name a file")
    needs_path = "--resume" if request.resume else "--task" if request.task else ""
    if needs_path or request.arrangement.shares is not None:
        needs_path = needs_path or "shares in --split"
        raise OptionError(f"-: {needs_path} needs a place to write to. Name a file")


def check_options(request: Request, destination: Destination) -> None:
    """Refuse options that do not go together."""
    if request.scale is not None and not request.dry_run:
        problem = "estimates for sources of another size, and writes nothing"
        raise OptionError(f"--scale {problem}. Add --dry-run", name="scale")
    arrangement = request.arrangement
    if request.task and not arrangement.plain:
        option, why = "shares in --split", "--finish publishes one destination, and splits are several"
        if arrangement.shuffle is not None:
            option, why = "--shuffle", "in a shuffled order a part may need any sequence, so each task would read all"
        raise OptionError(
            f"--task does not go with {option}: {why}. --executor dask spreads one "
            "run over machines, and --resume continues it"
        )
    first, *others = destination.portions
    is_file = first.destination.suffix in destination.traits.file_suffixes
    if is_file and any(portion.destination == first.destination for portion in others):
        raise OptionError(
            f"--split: {printable(first.destination)} is one file (expected a folder, which holds "
            "a file for each split). Name a folder"
        )


def check_places(request: Request, destination: Destination, files: Iterable[SourceFiles]) -> None:
    """Refuse a destination that is a source, or that has the name of the manifest or ledger of another file."""
    files = tuple(files)
    for path in destination.paths:
        guard(path, request.source.paths, files)
    for path in destination.paths:
        refuse_foreign(path)


def check_request(request: Request, inputs: Inputs, destination: Destination, *, by_request: bool) -> None:
    """Refuse what cannot be done with the open sources; `by_request`, another process can open the same."""
    if request.rejects is not None:
        _check_rejects(request, request.rejects, inputs)
    if request.ledger:
        _check_ledger(request, inputs.sources)
    if destination.copies_lines:
        _check_lines(inputs.sources, destination)
    for source in inputs.sources if inputs.tokenizer is None and not destination.copies_lines else ():
        if source.reader.info.is_text:
            raise OptionError(
                f"{printable(source.paths[0])}: holds text, and {destination.format.name} stores token IDs. Encode the "
                "text with --tokenizer NAME|DIR|FILE"
            )
    if request.task:
        _check_task(inputs.sources, destination)
    if isinstance(request.destination, Url) and (request.task or request.executor.startswith("dask:")):
        _check_shared(request, request.destination, inputs, destination, by_request=by_request)


def _check_rejects(request: Request, path: Place, inputs: Inputs) -> None:
    """Refuse a file of rejects that stays empty, that would replace another file, or that overwrites a source."""
    if query_of(request.select) is None and all(text_recipe_of(source) is None for source in inputs.sources):
        raise OptionError(
            "--rejects lists what --without, a query of --select, or a recipe with text, filters or dedup, leaves out. "
            "Give --without EVAL or --select QUERY, or name such a recipe as SRC"
            f"{'. --json and the manifest name what --allow-partial lost' if request.source.allow_partial else ''}"
        )
    guard(path, (*request.source.paths, request.destination), inputs.files)
    if isinstance(path, Url):
        exists = writable_store(path).identity(path.key) is not None
        is_replaced = request.overwrite
    else:
        exists, is_replaced = path.is_there(), request.overwrite and path.is_file()
    if exists and not is_replaced:
        raise DestinationExistsError(path)


def _check_ledger(request: Request, sources: Sequence[Source]) -> None:
    """Refuse a ledger unless the only source is a recipe, and all of it is written in its own order."""
    if len(sources) > 1 or not sources[0].format.is_computed:
        named = " --tokenizer NAME" if any(source.reader.info.is_text for source in sources) else ""
        made = f"tokfmt recipe NAME=SRC...{named} -o mix.toml makes one, which takes SRC in order"
        raise OptionError(f"--ledger lists the records that a recipe takes. {made}; convert mix.toml")
    if request.select is not None or not request.arrangement.plain:
        shuffled = request.arrangement.shuffle is not None
        option = "--select" if request.select is not None else "--shuffle" if shuffled else "--split"
        raise OptionError(f"{option} does not go with --ledger. Set it in the recipe")


def _check_lines(sources: Sequence[Source], destination: Destination) -> None:
    """Refuse copies of text and of token IDs together, and an option of a field that copied lines do not have."""
    readers = records_of(sources)
    kinds = {reader.info.kind for reader in readers}
    if len(kinds) > 1:
        raise ConversionError("some sources hold text, and others hold token IDs. Give --tokenizer to encode the text")
    name, options = f"{min(kinds)}_field", destination.given
    wanted = options.get(name, options.get(name.replace("_", "-")))
    fields = {reader.info.field if reader.info.json_lines else "text" for reader in readers}
    if wanted is not None and fields != {wanted}:
        why = f"lines are copied as they are, with the field {min(fields)!r}. Leave the option out"
        raise OptionError(f"{destination.format.name} option {name}={wanted}: {why}", name=name)


def _check_task(sources: Sequence[Source], destination: Destination) -> None:
    """Refuse --task for a conversion that one process has to do: it copies lines, or compares sequences of IDs."""
    why = "lines are copied as they are" if destination.copies_lines else ""
    for source in sources:
        recipe = text_recipe_of(source)
        if recipe is not None and not recipe.info.is_text:
            why = "equal sequences of token IDs are left out"
    if why:
        raise OptionError(f"--task: {why}, which is done in one run. Leave it out; --resume continues such a run")


def _check_shared(request: Request, url: Url, inputs: Inputs, destination: Destination, *, by_request: bool) -> None:
    """Refuse tasks, and a cluster, that share nothing but the store and cannot write whole files of the destination.

    `check_parts` does that for text.
    """
    if request.task is None and not (request.is_spread and by_request):
        _refuse_unshared(url, request.spool, "its workers write to the spool")
        return
    if records_of(inputs.read):
        return
    if request.overwrite:
        raise OptionError(
            f"{printable(url)}: --task does not go with --overwrite in a store, because the old dataset would be gone "
            "while tasks run. Choose another destination, or delete the old dataset"
        )
    if destination.writer(Path(url.name), destination.portions[0], destination.target(request)).finishes_files:
        return
    if request.task:
        raise OptionError(
            f"{printable(url)}: --task does not go with one file or a pair in a store, because all tasks would write "
            "into the same file. Write a folder of several files: --to mds, --to flat-tokens, or --to-opt shard_size=N "
            "where a format has it, such as megatron. Or leave out --task; --resume continues a run"
        )
    _refuse_unshared(url, request.spool, "each writes a part of one file")


def _refuse_unshared(destination: Url, spool: Path | None, why: str) -> None:
    """Refuse workers of a cluster that need a common directory for `why`, unless the user names the spool."""
    if not is_named(spool):
        raise OptionError(
            f"{printable(destination)}: --executor dask:ADDRESS needs a directory that all tasks see, because {why}. "
            "Name it with --spool DIR"
        )


def check_parts(asked: Request, request: Request, inputs: Inputs, destination: Destination) -> None:
    """Refuse a task of text whose part cannot be a file of its own. `asked` has the destination that the user gave,
    `request` the path that the format gives it.
    """
    name = destination.format.name
    folders = ", ".join(sorted(SUFFIXES))
    place = printable(asked.destination)
    if name not in SUFFIXES:
        raise OptionError(
            f"{place}: a task of text writes a file of its own, and a folder of files of {name} is not a dataset. "
            f"Write one of {folders}, and convert that by tasks. Or leave out --task"
        )
    if asked.destination.suffix == SUFFIXES[name]:
        raise OptionError(f"{place}: --task does not go with one file. Name a folder, with --to {name}")
    if "shard_size" in request.to_options:
        raise OptionError(
            f"{place}: a task of text writes one file, so the number of tasks decides on its size. Leave out shard_size"
        )
    recipes = any(source.format.is_computed for source in inputs.sources)
    if destination.copies_lines or recipes or axes_of(inputs.read):
        raise OptionError(
            f"{place}: --task does not go with copied lines, recipes, or sources of which some hold token IDs, if DST "
            "is in a store. Leave out --task, or write to a directory that all machines see"
        )
    for option, is_given in (
        ("--select", request.select is not None),
        ("--ledger", request.ledger),
        ("--overwrite", request.overwrite),
        ("--no-manifest", not request.manifest),
    ):
        if is_given:
            problem = f"{place}: --task does not go with {option} if text is written to a store"
            raise OptionError(f"{problem}. Leave it out, or write to a directory that all machines see")
