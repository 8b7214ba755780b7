"""`tokfmt recipe`: write a recipe, or explain one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tokfmt.cli.console import document, note
from tokfmt.cli.parameters import PLACE, Command, Count, Eos, Words, allow_loss, common, examples, stores
from tokfmt.cli.table import Table

if TYPE_CHECKING:
    from tokfmt.files.place import Place
    from tokfmt.mix import RecipeFile, TextRecipe, TreeRow

_WRITTEN = (
    "seq_len", "pack", "labels", "tail", "long", "shuffle", "seed", "tokens", "epochs", "to_eos", "to_bos",
    "pad", "tokenizer",
)  # fmt: skip


@click.command(
    "recipe",
    cls=Command,
    no_args_is_help=True,
    epilog=examples(
        "tokfmt recipe mix.toml --explain",
        "tokfmt recipe a=pack.pbin:0.7 b=gpt2_text_document:0.3 --seq-len 128 -o other.toml",
        "tokfmt recipe 0.7 pack.pbin 0.3 gpt2_text_document --seq-len 8",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="NAME=PATH:WEIGHT...|FILE")
@click.option("-o", "--output", type=PLACE, metavar="FILE.toml", help="Recipe to write (default: standard output).")
@click.option("--explain", is_flag=True, help="Print the part of each source: tokens, share, passes, cut, padded.")
@click.option("--overwrite", is_flag=True, help="Replace a recipe that exists.")
@click.option(
    "--seq-len", type=Count(1), help="Tokens per sample: 2048 or 2Ki; 2k is 2,000 (default: a recipe of documents)."
)
@click.option(
    "--pack",
    type=Words(["stream", "document", "bestfit", "stored"]),
    help="Way to make samples of sequences (default: stream).",
)
@click.option(
    "--labels",
    type=Words(["next", "disjoint", "starts", "same"]),
    help="Way to derive labels from tokens (default: next).",
)
@click.option("--tail", type=Words(["pad", "drop"]), help="Pad or drop the last sample of a stream (default: pad).")
@click.option(
    "--long",
    type=Words(["split", "truncate"]),
    help="Split or truncate longer documents, with --pack document (default: split).",
)
@click.option("--shuffle", type=Words(["none", "samples", "documents"]), help="Units to shuffle (default: none).")
@click.option("--seed", type=Count(0, None), help="Shuffle seed (default: 0).")
@click.option("--tokens", type=Count(1), help="Token budget of the whole recipe (default: no limit).")
@click.option(
    "--epochs",
    type=Count(1),
    help="Passes over each source; with weights or --tokens, the limit of passes (default: 1).",
)
@click.option("--eos", type=Eos(), help="Separator ID of each source, or none (default: from source, or inferred).")
@click.option("--to-eos", type=Eos(), help="Separator ID after each document, or none (default: that of the sources).")
@click.option("--to-bos", type=Count(0), help="ID before each document, with --labels starts (default: 0).")
@click.option("--pad", type=Count(0), help="Padding ID (default: the separator).")
@click.option("--tokenizer", metavar="NAME|DIR|FILE", help="Tokenizer of texts and IDs, compared with manifests.")
@click.option(
    "--split",
    type=Words(["train", "valid", "test"]),
    help="Split of a blend list of Megatron-LM with splits (default: train).",
)
@allow_loss("Loss to accept with --explain, by the name in its error; repeatable.")
@stores
@common
def command(
    words: Sequence[str],
    output: str | None,
    *,
    explain: bool,
    overwrite: bool,
    eos: int | str | None,
    split: str | None,
    allow_loss: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **given_keys: Any,
) -> None:
    """Write a recipe that mixes datasets, or explain one.

    Every command reads a recipe as one dataset.
    """
    from tokfmt.errors import FormatError, OptionError
    from tokfmt.files.named import place_named
    from tokfmt.files.spool import publish_text
    from tokfmt.mix import in_toml
    from tokfmt.registry import of_prefix
    from tokfmt.source.request import expanded

    keys = {key: given_keys[key] for key in _WRITTEN if given_keys[key] is not None}
    file, given = _file(words, output, split, keys, {} if eos is None else {"eos": eos})
    if given and (keys or eos is not None):
        option = next(iter(keys), "eos").replace("_", "-")
        raise OptionError(f"--{option} has no effect on the recipe {words[0]}. Edit the file instead")
    if given and output is not None:
        raise OptionError(f"--output: {words[0]} is a recipe already. Copy the file instead")
    if explain or given:
        _explain(file, allow_loss, as_json=as_json)
    elif allow_loss:
        raise OptionError(
            "--allow-loss has no effect without --explain. Add --explain, or use it when you read the recipe"
        )
    if output is not None:
        for place in expanded(place_named(file.where, path) for source in file.sources for path in source.path):
            if place.is_local and not of_prefix(place).is_there():
                raise FormatError(place, "no such file", remedy=f"{output} is not written. Correct the path")
        publish_text(output, in_toml(file), overwrite=overwrite)
        if not quiet:
            click.echo(f"{output}: {len(file.sources)} source{'s' * (len(file.sources) != 1)}", err=True)
    elif not given and not explain:
        click.echo(in_toml(file), nl=False)


def _file(
    words: Sequence[str], output: str | None, split: str | None, keys: dict[str, Any], of_each: dict[str, Any]
) -> tuple[RecipeFile, bool]:
    """Return the recipe that the arguments describe, and whether they name an existing recipe."""
    from tokfmt.errors import FormatError, OptionError
    from tokfmt.files.file import open_file
    from tokfmt.files.place import destination_of, place_of
    from tokfmt.mix import entries_of, entries_of_blend, is_recipe, parse_recipe, read_recipe
    from tokfmt.wording import printable

    where = destination_of(output or "recipe")
    path, listed = place_of(words[0]) if len(words) == 1 else None, None
    if path is not None and path.suffix in (".toml", ".txt", ".blend", ".json", "") and path.is_file():
        file = open_file(path)
        try:
            head = file.read(0, min(file.size, 1 << 16))
        finally:
            file.close()
        if path.suffix == ".toml" or is_recipe(head, toml=False):
            return read_recipe(path), True
        listed = _listed(path, split or "train")
        if listed is not None and split is None and head.lstrip().startswith(b"{"):
            note(f"{printable(path.name)}: split train; --split valid or --split test reads another")
    if path is not None and path.suffix == ".toml" and not path.exists():
        raise FormatError(path, "no such file", remedy="NAME=PATH:WEIGHT ... -o FILE.toml writes a recipe")
    if split is not None and listed is None:
        raise OptionError("--split has no effect without a blend list with splits. Leave it out")
    entries = entries_of(words, where.parent) if listed is None else entries_of_blend(listed, where.parent)
    return parse_recipe({**keys, "source": [{**entry, **of_each} for entry in entries]}, where), False


def _listed(path: Place, split: str) -> list[tuple[float | None, str]] | None:
    """Return the weights and places of the prefixes of a blend list; None if a JSON file is not such a list."""
    from tokfmt import registry
    from tokfmt.errors import FormatError, TokfmtError
    from tokfmt.formats.megatron import located, read_blend

    recognized = False
    with suppress(TokfmtError):
        recognized = registry.detect(path).name == "megatron"
    if path.suffix == ".json" and not recognized:
        return None
    listed = read_blend(path, split)
    if not recognized and any(one.weight is None for one in listed):
        remedy = "tokfmt recipe NAME=PATH:WEIGHT ... writes a recipe"
        what, expected = "is neither a recipe nor a blend list", "weights and prefixes in turn"
        raise FormatError(path, what, expected=expected, remedy=remedy)
    if not listed:
        raise FormatError(path, "is a blend list without a prefix", found=f"split {split}")
    return [(one.weight, str(located(path, one.prefix))) for one in listed]


def _explain(file: RecipeFile, allow_loss: Sequence[str], *, as_json: bool) -> None:
    from tokfmt.core.format import Hints
    from tokfmt.mix import Explained, Samples, TextRecipe, explain, open_recipe
    from tokfmt.source.request import check_losses

    reader, _ = open_recipe(file, Hints(allow_loss=check_losses(allow_loss), collect_invalid=True))
    if isinstance(reader, TextRecipe):
        _explain_draft(reader, as_json=as_json)
        return
    lost = [loss.note for loss in reader.info.lost]
    rows, notes = explain(reader), [*reader.info.inferred, *reader.info.notes, *lost]
    if as_json:
        document("recipe", Explained(str(file.where), file.seq_len, reader.fingerprint, rows, notes))
        return
    click.echo(_head(reader.info.sequences, file))
    for line in table_of(rows).lines():
        click.echo(line)
    for line in _left_out(rows[0]):
        click.echo(line)
    if isinstance(reader, Samples):
        click.echo(f"fingerprint {reader.fingerprint}")
    for text in notes:
        note(text)


def _explain_draft(draft: TextRecipe, *, as_json: bool) -> None:
    """Print the known facts of a recipe of text: its sources, and the results of its filters on some texts."""
    from tokfmt.wording import printable

    previewed = draft.preview()
    if as_json:
        document("recipe", previewed)
        return
    of_texts, of_ids = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for preview in previewed.texts:
        left = preview.texts - sum(preview.rejected.values())
        of_texts.append(
            (printable(preview.source), f"{preview.size:,}", _quota(preview.quota), f"{preview.texts:,}", "")
        )
        for what, count in {"kept": left, **preview.rejected}.items():
            of_texts.append((f"  {what}", "", "", f"{count:,}", f"{count / max(1, preview.texts):.0%}"))
    for one in previewed.ids:
        of_ids.append((printable(one.source), f"{one.sequences:,}", f"{one.tokens:,}", _quota(one.quota)))
    for table in (
        Table(("source", "bytes", "quota", "read", "of these"), of_texts),
        Table(("source", "sequences", "tokens", "quota"), of_ids),
    ):
        for line in table.lines() if table.rows else ():
            click.echo(line)
    click.echo(
        "The counts of what is kept, and samples, exist once the recipe is converted, which reads all of its sources: "
        f"tokfmt convert {printable(previewed.recipe)} DST"
    )
    for text in previewed.notes:
        note(text)


def _quota(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def _head(count: int, file: RecipeFile) -> str:
    if file.seq_len is None:
        return f"{count:,} documents, shuffle {file.shuffle}"
    order = f"shuffle {file.shuffle}" + (f", seed {file.seed}" if file.shuffle != "none" else "")
    kind = f"pack {file.pack or 'stream'}, labels {file.labels_from}, {order}"
    return f"{count:,} samples of {file.seq_len:,}: {count * file.seq_len:,} tokens; {kind}"


def table_of(rows: Sequence[TreeRow]) -> Table:
    """Return the table of a recipe: one row per source, indented by depth."""
    heads = ("source", "sequences", "tokens", "drawn", "share", "passes", "samples", "cut", "padded")
    cells = []
    for row in rows:
        name = "  " * (row.depth - 1) + row.name if row.depth else "all"
        held = (f"{count:,}" for count in (row.sequences, row.tokens, row.drawn))
        counts = ("" if count is None else f"{count:,}" for count in (row.samples, row.cut, row.padded))
        cells.append((name, *held, f"{row.share:.1%}", f"{row.passes:.2f}", *counts))
    return Table(heads, cells)


def _left_out(whole: TreeRow) -> list[str]:
    """Return a line for each kind of token of a pass that no sample holds; a note counts empty sequences."""
    whys = {
        "tail": "tokens at the end of a pass are in no sample",
        "truncated": "tokens of a pass beyond seq_len are in no sample",
        "targetless": "sequences and parts of one token have no target and are in no sample",
    }
    return [f"{count:,} {whys[word]}" for word, count in whole.left_out.items()]
