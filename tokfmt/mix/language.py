"""Read and write the language of recipes: a TOML file, or the same keys in Python, as frozen dataclasses.

    tokfmt = 1            the version of the language
    seq_len, pack, labels, tail, long, shuffle, seed, tokens, epochs, to_eos, to_bos, pad, tokenizer, dedup
    [[source]]            name, path, format, eos, bos, options, split, text, select, weight, epochs, tokens, filter
    [filter.NAME]         rules on text

On a command line, sources are words such as `web=web.pbin:0.7`, or a blend list of Megatron-LM (`entries_of`).

Unknown keys, unknown words and numbers out of bounds are errors, which have the nearest word.

A recipe with `seq_len` consists of samples, one without it of documents. `pack`, `labels`, `tail`, `long` and `pad`
need `seq_len`.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from tokfmt.base.options import fit, hints_of, nearest, option
from tokfmt.core.reader import INT32_MAX
from tokfmt.errors import FormatError, OptionError
from tokfmt.files.file import open_file
from tokfmt.files.named import place_named
from tokfmt.files.place import LocalPlace, Place, is_address, place_of
from tokfmt.text.filter_rules import FilterRules, OverlapRules
from tokfmt.wording import grouped, printable

VERSION = RECIPE_VERSION = 1
LONGEST = 1 << 24
"""The maximum length of a sample in tokens."""

LARGEST_FILE = 1 << 24
"""The maximum size of a recipe in bytes; one with 100,000 sources is smaller."""
_VERSION = re.compile(rb"^[ \t]*tokfmt[ \t]*=", re.MULTILINE)
_SIGN = re.compile(rb"^[ \t]*tokfmt[ \t]*=[ \t]*\d+[ \t]*(#.*)?\r?$", re.MULTILINE)
_KEY = re.compile(rb"(\xef\xbb\xbf)?([ \t\r]*(#[^\n]*)?\n)*[ \t]*([\w\"'.-]+[ \t]*=|\[)")
_LONG_KEY = re.compile(
    rb"""(?<![\w"'-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}"""
)  # the time that tomllib takes grows with the square of the number of parts
_WORD = re.compile(r"(?:(?P<name>[\w.-]+)=)?(?P<path>.+?)(?::(?P<weight>[0-9][0-9_.eE+-]*))?", re.DOTALL)
_RUN = re.compile(rb"^[ \t]*\[[ \t]*run[ \t]*\]", re.MULTILINE)
_SOURCE = re.compile(rb"^[ \t]*\[\[[ \t]*source[ \t]*\]\]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """One `[[source]]` table."""

    path: tuple[str, ...] = ()  # relative to the recipe; files, directories or patterns
    name: str = ""  # default: from the path
    format: str | None = None
    # the separator of its data, or "none" (default: as for any dataset)
    eos: int | Literal["none"] | None = option(None, minimum=0, maximum=INT32_MAX)
    # the lead of its data, or "none", if `labels` is "starts"
    bos: int | Literal["none"] | None = option(None, minimum=0, maximum=INT32_MAX)
    options: tuple[str, ...] = ()  # NAME=VALUE
    split: str | None = None
    text: str | None = None  # the JSON field
    select: str | None = None
    weight: Fraction | None = None  # proportional to the share of all tokens
    epochs: int | None = option(None, minimum=1, maximum=1 << 32)  # at most (default: that of the recipe)
    tokens: int | None = option(None, minimum=1, maximum=1 << 62)  # a quota
    filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFile:
    """A recipe as it is written. Its properties resolve the defaults that depend on other keys."""

    # messages contain it, and relative paths are relative to its directory
    where: Place = field(default_factory=LocalPlace)
    sources: tuple[SourceEntry, ...] = ()
    filters: Mapping[str, FilterRules] = field(default_factory=dict)  # by name
    tokfmt: int = option(VERSION, minimum=VERSION, maximum=VERSION)  # the version of the language
    seq_len: int | None = option(None, minimum=1, maximum=LONGEST)  # None for a recipe of documents
    pack: Literal["stream", "document", "bestfit", "stored"] | None = None  # default: "stream"
    # default: "same" if `pack` is "stored", else "next"
    labels: Literal["next", "disjoint", "starts", "same"] | None = None
    tail: Literal["pad", "drop"] | None = None  # of an incomplete last sample of a stream (default: "pad")
    long: Literal["split", "truncate"] | None = None  # of a document that is longer than a sample (default: "split")
    shuffle: Literal["none", "samples", "documents"] = "none"  # items that are shuffled
    seed: int = option(0, minimum=0, maximum=(1 << 64) - 1)  # of the order and of quotas
    tokens: int | None = option(None, minimum=1, maximum=1 << 62)  # the budget
    epochs: int | None = option(None, minimum=1, maximum=1 << 32)  # passes over a source, at most (default: 1)
    # the separator after each document (default: that of the sources, if they agree)
    to_eos: int | Literal["none"] | None = option(None, minimum=0, maximum=INT32_MAX)
    # the first ID of each input if `labels` is "starts" (default: 0)
    to_bos: int | None = option(None, minimum=0, maximum=INT32_MAX)
    pad: int | None = option(None, minimum=0, maximum=INT32_MAX)  # the padding ID (default: the separator, or 0)
    tokenizer: str | None = None  # of sources of text
    dedup: Literal["none", "exact"] = "none"  # "exact" removes equal texts

    @property
    def weighted(self) -> bool:
        """True if the sources have weights."""
        return bool(self.sources) and self.sources[0].weight is not None

    @property
    def convention(self) -> Literal["next", "disjoint", "starts", "same"]:
        """The rule by which labels follow from tokens, with its default."""
        return self.labels or ("same" if self.pack == "stored" else "next")

    @property
    def separates(self) -> bool:
        """True if documents are followed by a separator: not in stored samples, and not if `labels` is "starts"."""
        return self.pack != "stored" and self.convention != "starts"

    @property
    def lead(self) -> int:
        """The first ID of each input if `labels` is "starts"."""
        return self.to_bos or 0

    @property
    def labels_from(self) -> str:
        """The origin of labels: the rule, or "stored" if samples may be stored with labels."""
        return "stored" if self.pack == "stored" and self.labels is None else self.convention

    def cap(self, source: int) -> int:
        """Return the maximum number of passes over a source."""
        return self.sources[source].epochs or self.epochs or 1

    def passes(self, source: int) -> int:
        """Return the number of passes over a source; 1 for documents that are drawn by a quota or by weight."""
        drawn = self.sources[source].tokens is not None or (self.weighted and self.seq_len is None)
        return 1 if drawn else self.cap(source)


def is_recipe(head: bytes, *, toml: bool) -> bool:
    """Return True if the beginning of a file, or its version alone in a .toml, is that of a recipe."""
    if is_run(head, toml=toml):
        return False
    if b"tokfmt" not in head or not (toml or b"source" in head):  # the patterns take a millisecond without a match
        return False
    if toml and _SOURCE.search(head) is not None and _VERSION.search(head) is not None:
        return True  # of any version: an unknown one is an error of `read_recipe`
    signed = _SIGN.search(head) is not None and (toml or _SOURCE.search(head) is not None)
    return signed and (toml or _KEY.match(head) is not None)  # not a text that quotes a recipe


def is_run(head: bytes, *, toml: bool) -> bool:
    """Return True if the beginning of a file is that of the description of a run, which `tokfmt.runs` reads."""
    return toml and b"tokfmt" in head and _RUN.search(head) is not None


def read_recipe(path: Place) -> RecipeFile:
    """Read a recipe."""
    return parse_recipe(read_table(path), path)


def read_table(path: Place) -> dict[str, Any]:
    """Return the TOML of a recipe, or of the description of a run, which states its version."""
    file = open_file(path)
    try:
        if file.size > LARGEST_FILE:
            raise FormatError(path, "is too long for a recipe", expected=f"at most {LARGEST_FILE:,} bytes")
        content = file.read(0, file.size)
    finally:
        file.close()
    if long := _LONG_KEY.search(content):
        raise FormatError(path, "is not a recipe: it has a key of more than 64 parts", offset=long.start())
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # invalid TOML or UTF-8, or a number of 5,000 digits
        raise FormatError(path, f"is not TOML: {printable(error)}", remedy="See https://toml.io") from error
    if "tokfmt" not in table:
        raise FormatError(path, "does not state its version", remedy=f"Begin it with tokfmt = {VERSION}")
    return table


def parse_recipe(table: Mapping[str, Any], where: Place) -> RecipeFile:
    """Return the recipe of TOML tables. `where` is the file, for messages and relative paths."""
    version = table.get("tokfmt", VERSION)
    if type(version) is int and version != VERSION:
        remedy = f"This tokfmt reads version {VERSION}"
        raise FormatError(where, f"is of version {grouped(version)} of the language", remedy=remedy)
    tables = _keys(table, (*_names(RecipeFile), "source", "filter"), where, "")
    entries, rules = tables.pop("source", []), tables.pop("filter", {})
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise FormatError(where, "has no source", remedy="Add a table [[source]] with a path")
    if not isinstance(rules, Mapping):
        raise FormatError(where, "filter is not a table", remedy="Write its rules below [filter.NAME]")
    recipe = RecipeFile(
        where=where,
        sources=_named([_entry(entry, where, number) for number, entry in enumerate(entries)]),
        filters={str(name): _filter(table, where, f"[filter.{printable(name)}]") for name, table in rules.items()},
        **_values(RecipeFile, tables, where, ""),
    )
    for wrong, remedy in _contradictions(recipe):
        raise FormatError(where, wrong, remedy=remedy)
    return recipe


def _filter(table: Any, where: Place, title: str) -> FilterRules:
    plain = {key: value for key, value in table.items() if key != "without"} if isinstance(table, Mapping) else table
    rules = FilterRules(**_values(FilterRules, plain, where, title))
    if plain == table:
        return rules
    try:
        return replace(rules, without=OverlapRules.of(table["without"]))
    except OptionError as error:
        raise FormatError(where, f"{title}: {error}") from error


def _entry(table: Any, where: Place, number: int) -> SourceEntry:
    name = table.get("name") if isinstance(table, Mapping) else None
    title = f'[[source]] "{printable(name)}"' if isinstance(name, str) else f"[[source]] {number + 1}"
    options = table.get("options") if isinstance(table, Mapping) else None
    if isinstance(options, Mapping) and all(isinstance(value, str | int | float) for value in options.values()):
        table = {**table, "options": [f"{key}={value}" for key, value in options.items()]}
    entry = SourceEntry(**_values(SourceEntry, table, where, title))
    if not entry.path or not all(entry.path):
        raise FormatError(where, f"{title}: has no path", remedy='Add path = "corpus.pbin", or a list of paths')
    if wrong := [path for path in entry.path if "\0" in path]:
        raise FormatError(where, f'{title}: "{printable(wrong[0])}" is not a path: it holds a null character')
    if entry.weight is not None and entry.weight <= 0:
        raise FormatError(
            where,
            f"{title}: its weight is {float(entry.weight):g}",
            expected="more than 0",
            remedy="Leave out a source that shall not be read",
        )
    return entry


def _likely_names(path: str) -> Iterator[str]:
    """Yield names for a source: its file, or the start or the folder of a pattern; then its suffix."""
    if is_address(path):  # The query of a web address may hold a signature.
        path = path.partition("?")[0]
    plain = path.split("*", maxsplit=1)[0].rstrip("/")
    yield Path(plain).name.split(".")[0]
    yield Path(plain).name.strip(".")
    yield Path(path).suffix.strip(".*")


def _named(entries: Sequence[SourceEntry]) -> tuple[SourceEntry, ...]:
    """Give each entry without a name one from its path, with a number if it is taken.

    The name for `web/*.jsonl` is web, for `*.jsonl` it is jsonl, and for `../*` it is source.
    """
    taken = Counter(entry.name for entry in entries if entry.name)
    named = []
    for entry in entries:
        name = entry.name
        if not name:
            base, count = next(filter(None, _likely_names(entry.path[0])), "source"), 1
            name = base
            while taken[name]:
                count += 1
                name = f"{base}-{count}"
            taken[name] += 1
        values = {key.name: getattr(entry, key.name) for key in fields(entry)}
        named.append(SourceEntry(**{**values, "name": name}))
    return tuple(named)


def _contradictions(recipe: RecipeFile) -> Iterator[tuple[str, str]]:
    """Yield contradictions between keys, each with its remedy."""
    yield from _of_sources(recipe)
    if recipe.seq_len is None:
        yield from _of_documents(recipe)
    pack = recipe.pack or "stream"
    for applies, wrong, remedy in (
        (
            recipe.labels == "disjoint" and pack != "stream",
            'labels = "disjoint"',
            'Leave it out; it is for pack = "stream"',
        ),
        (
            pack == "stored" and recipe.labels not in (None, "next"),
            f'labels = "{recipe.labels}"',
            'Leave it out; "next" is for samples that are stored without labels',
        ),
        (
            pack == "stored" and recipe.shuffle == "documents",
            'shuffle = "documents"',
            'Write shuffle = "samples"',
        ),
        (
            recipe.tail is not None and pack != "stream",
            "tail",
            "Leave it out; only a stream has an incomplete last sample",
        ),
        (recipe.long is not None and pack != "document", "long", 'Leave it out; it is for pack = "document"'),
        (
            recipe.to_eos is not None and pack == "stored",
            "to_eos",
            "Leave it out; samples are taken with the separators that they have",
        ),
    ):
        if applies:
            yield f'{wrong} with pack = "{pack}"', remedy
    if recipe.convention == "starts" and recipe.to_eos not in (None, "none"):
        yield 'to_eos with labels = "starts"', "Leave it out; to_bos is put before each document, and nothing after it"
    led = [entry for entry in recipe.sources if entry.bos is not None]
    if recipe.convention != "starts" and recipe.to_bos is not None:
        yield f'to_bos with labels = "{recipe.convention}"', 'Leave it out; it is for labels = "starts"'
    if recipe.convention != "starts" and led:
        problem = f'source "{printable(led[0].name)}" has bos, and labels = "{recipe.convention}"'
        yield problem, "Leave it out; documents keep the lead that they have"


def _of_sources(recipe: RecipeFile) -> Iterator[tuple[str, str]]:
    twice = [name for name, count in Counter(entry.name for entry in recipe.sources).items() if count > 1]
    if twice:
        yield f'two sources have the name "{printable(twice[0])}"', "Give each source its own name"
    without = [entry.name for entry in recipe.sources if entry.weight is None]
    if without and len(without) < len(recipe.sources):
        yield f'source "{printable(without[0])}" has no weight, and others have', "Give every source a weight, or none"
    for entry in recipe.sources:
        if entry.weight is not None and entry.tokens is not None:
            yield f'source "{printable(entry.name)}" has a weight and a quota of tokens', "Leave one of them out"
        for name in entry.filter:
            if name not in recipe.filters and name != "garbage":
                near = nearest(name, recipe.filters) or nearest(name, ["garbage"])
                hint = f"Did you mean {printable(near)}?" if near else f"Add a table [filter.{printable(name)}]"
                yield f'source "{printable(entry.name)}": there is no filter "{printable(name)}"', hint


def _of_documents(recipe: RecipeFile) -> Iterator[tuple[str, str]]:
    for key in ("pack", "labels", "tail", "long", "pad"):
        if getattr(recipe, key) is not None:
            yield f"{key} needs seq_len", f"Add seq_len, or leave {key} out"
    if recipe.shuffle == "samples":
        yield 'shuffle = "samples" needs seq_len', 'Add seq_len, or write shuffle = "documents"'
    if recipe.weighted and recipe.tokens is None:
        yield "weights of documents are shares of a budget", "Add tokens = N, or seq_len"


def _names(kind: type) -> list[str]:
    return [key.name for key in fields(kind) if key.name not in ("where", "sources", "filters")]


_PLACES = (
    (RecipeFile, "above the first [[source]]"),
    (SourceEntry, "below a [[source]]"),
    (FilterRules, "below a [filter.NAME]"),
)


def _keys(table: Any, allowed: Sequence[str], where: Place, title: str) -> dict[str, Any]:
    """Return a table as a dict."""
    prefix = f"{title}: " if title else ""
    if not isinstance(table, Mapping):
        raise FormatError(where, f"{prefix}is not a table", found=type(table).__name__)
    for key in table:
        if key not in allowed:
            near = nearest(str(key), allowed)
            hint = f"Did you mean {near}?" if near else f"Write one of {', '.join(allowed)}"
            hint = next((f"Write it {there}" for kind, there in _PLACES if key in _names(kind)), hint)
            if f"to_{key}" in allowed:
                hint = f"Write to_{key} for what the recipe writes, or {key} below a [[source]] for what its data has"
            raise FormatError(where, f'{prefix}unknown key "{printable(key)}"', remedy=hint)
    return dict(table)


def _values(kind: type, table: Any, where: Place, title: str) -> dict[str, Any]:
    """Return the fields of a dataclass from a table, each checked for its type and its bounds."""
    table_values, values = _keys(table, _names(kind), where, title), {}
    for key in fields(kind):
        if table_values.get(key.name) is None:
            continue
        key_name = f"{title}: {key.name}" if title else key.name
        try:
            values[key.name] = value = fit(key_name, table_values[key.name], hints_of(kind)[key.name], key.metadata)
        except OptionError as error:
            remedy = f"Did you mean {error.nearest}?" if error.nearest else None
            raise FormatError(where, key_name, expected=error.expected, found=error.found, remedy=remedy) from error
        if isinstance(value, str) and not value.strip():
            raise FormatError(where, f"{key_name} is empty", remedy="Leave it out, or give it a value")
    return values


_NAMED_OPTION = re.compile(
    r"--(?P<key>(?:to-)?[eb]os)(?: (?P<id>none|ID|\d+))?|--from-opt (?P<option>\w+)=(?P<value>[\w|.-]*\w)|"
    r"--(?:from-(?P<options>opt)|(?P<format>from)|(?P<text>text-field)|(?P<split>split)|(?P<tokenizer>tokenizer))"
    r"\b(?: (?P<word>NAME|[\w.-]+(?= reads| or )))?|--(?P<rule>field|by) (?P<how>\w+)"
)


def in_keys(message: str) -> str:
    """Return a message on a source, with the keys of a recipe instead of the options of the command line.

    For example, `--eos none` becomes `eos = "none"`, and `--from-opt width=4` becomes `options = { width = 4 }`.
    """
    return _NAMED_OPTION.sub(_as_key, message) if "--" in message else message


def _as_key(match: re.Match[str]) -> str:
    if match["option"]:
        return f"options = {{ {match['option']} = {_word(match['value'])} }}"
    if match["key"]:
        key, value = match["key"].replace("-", "_"), match["id"]
        return key if value is None else f"{key} = {_word(value)}"
    if match["rule"]:  # of `without`
        return f'field = ["{match["how"]}"]' if match["rule"] == "field" else f'by = "{match["how"]}"'
    names = ("options", "format", "text", "split", "tokenizer")
    key = next(name for name in names if match[name])
    word = match["word"] or ("NAME" if key == "tokenizer" else None)
    return f'{key} = "{word}"' if word else key


def _word(value: str) -> str:
    """Return a value of an option as TOML; numbers, and words such as ID that stand for one, have no quotes."""
    return value if value.isdecimal() or value.isupper() else f'"{value}"'


def in_toml(recipe: RecipeFile) -> str:
    """Return a recipe as TOML, without the keys that have their defaults."""
    lines = [f"tokfmt = {VERSION}"]
    lines += [
        f"{key.name} = {_toml(getattr(recipe, key.name))}"
        for key in fields(recipe)
        if key.name not in ("where", "sources", "filters", "tokfmt") and getattr(recipe, key.name) != key.default
    ]
    for entry in recipe.sources:
        lines += ["", "[[source]]"]
        lines += [
            f"{key.name} = {_toml(getattr(entry, key.name))}"
            for key in (*fields(entry)[1:2], *fields(entry)[:1], *fields(entry)[2:])
            if getattr(entry, key.name) != key.default
        ]
    for name, rules in recipe.filters.items():
        lines += ["", f"[filter.{_toml(name)}]"]
        lines += [
            f"{rule.name} = {value.in_toml(_toml) if isinstance(value, OverlapRules) else value}"
            for rule in fields(rules)
            if (value := getattr(rules, rule.name)) is not None
        ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return _toml(value[0]) if len(value) == 1 else f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Fraction):
        return f"{int(value)}" if value.denominator == 1 else repr(float(value))
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 10**6 else str(value)
    text = "".join(map(_escaped, str(value).replace("\\", "\\\\"))).replace(
        "##[", "#\\u0023["
    )  # ##[ is a command in logs of workflows
    return '"' + text.replace('"', '\\"') + '"'


def _escaped(letter: str) -> str:
    """Return a character, or its escape if it is not printable, because recipes are printed on terminals."""
    code = ord(letter)
    if letter.isprintable() or 0xD800 <= code < 0xE000:  # TOML has no surrogates
        return letter
    return f"\\u{code:04X}" if code < 1 << 16 else f"\\U{code:08X}"


def entries_of(words: Sequence[str], directory: Place) -> list[dict[str, Any]]:
    """Return the `[[source]]` tables of the words of a command line, with paths relative to a directory.

    A blend list alternates weights and prefixes, as Megatron-LM reads them from `--data-path`: `0.7 web_text_document
    0.3 code_text_document`. Source: NVIDIA/Megatron-LM, megatron/training/arguments.py and core/datasets/utils.py
    (`get_blend_from_list`). Prefixes without weights are sources without weights. Other words are `NAME=PATH:WEIGHT`,
    whose name and weight are optional.
    """
    if len(words) > 1 and _number(words[0]) is not None:
        return _blend(words, directory, words[0])
    return [_typed_entry(word, directory) for word in words]


def _blend(words: Sequence[str], directory: Place, first: str) -> list[dict[str, Any]]:
    if len(words) % 2:
        raise OptionError(
            f"{printable(first)} ...: a blend list alternates weights and prefixes (expected an even number of words, "
            f"found {len(words):,})"
        )
    for weight, path in zip(words[::2], words[1::2], strict=True):
        if _number(weight) is None:
            raise OptionError(f"{printable(weight)}: a weight is expected here, before {printable(path)}")
    return entries_of_blend(list(zip(map(_number, words[::2]), words[1::2], strict=True)), directory)


def entries_of_blend(listed: Sequence[tuple[float | None, str]], directory: Place) -> list[dict[str, Any]]:
    """Return the `[[source]]` tables of weights and paths, with paths relative to a directory."""
    entries = [{"path": _seen_from(directory, path), "weight": weight} for weight, path in listed]
    return [{key: value for key, value in entry.items() if value is not None} for entry in entries]


def _typed_entry(word: str, directory: Place) -> dict[str, Any]:
    match = _WORD.fullmatch(word)
    if match is None:
        raise OptionError(f"{printable(word)!r} is not of the form NAME=PATH:WEIGHT")
    if re.search(r":[0-9.]+%$", word) and not place_of(match["path"]).is_there():
        raise OptionError(f"{printable(word)}: a weight has no percent sign. Write {printable(word[:-1])}")
    entry: dict[str, Any] = {"path": _seen_from(directory, match["path"])}
    if match["name"]:
        entry["name"] = match["name"]
    if match["weight"] is not None:
        weight = _number(match["weight"])
        if weight is None:
            raise OptionError(f"{printable(word)}: {match['weight']} is not a weight")
        entry["weight"] = weight
    return entry


def _seen_from(directory: Place, path: str) -> str:
    """Return a path as a recipe in a directory names it."""
    if not place_of(path).is_local:
        place_named(directory / "recipe", path)
        return path
    if not directory.is_local:
        raise OptionError(f"{printable(path)}: a recipe in a store names no local file. Give its address in a store")
    return path if os.path.isabs(path) else os.path.relpath(path, directory.text)


def _number(word: str) -> int | float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and "." not in word else value
