"""Open two datasets so that they can be compared: tokens with tokens, text with text, samples as they are stored."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from tokfmt import registry
from tokfmt.core.axis import Layout, TokenReader
from tokfmt.core.errors import OptionError, printable
from tokfmt.core.inside import Sampled
from tokfmt.core.options import parse_options
from tokfmt.core.ragged import Ragged, offsets_of
from tokfmt.core.records import RecordReader
from tokfmt.ops.alignment import Read, Side
from tokfmt.ops.open import Source
from tokfmt.ops.progress import Progress
from tokfmt.ops.separator import EosChoice
from tokfmt.ops.sources import SourceRequest, open_sources, option_names
from tokfmt.ops.tokenize import ingested
from tokfmt.text.decoding import ByteLevelDecoder, TextDecoder
from tokfmt.text.tokenizer import TokenizerHandle, load_tokenizer


@dataclass(frozen=True, slots=True)
class Request:
    """What a user says of the datasets to compare.

    Attributes:
        a, b: Their paths.
        format_a, format_b: Names of formats, or None to detect.
        options: Read options; each side takes those that its format knows.
        tokenizer: Tokenizes text that is compared with ids, and shows the first difference as text.
        samples: Compare rows as they are stored.
        eos, split, text_field: As in `SourceRequest`, for both.
        splits: That of A and that of B, where they are not the same.
    """

    a: str | os.PathLike[str]
    b: str | os.PathLike[str]
    format_a: str | None = None
    format_b: str | None = None
    options: tuple[str, ...] = ()
    tokenizer: str | None = None
    samples: bool = False
    eos: EosChoice = None
    split: str | None = None
    text_field: str | None = None
    splits: tuple[str | None, str | None] | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """Two datasets on axes of one kind.

    Attributes:
        source_a, source_b: As they were opened.
        a, b: What is compared.
        decoder: Shows ids as text; None without a tokenizer.
        unit: "tokens", or "bytes" for text.
        scale: How many units make about as much as a token.
    """

    source_a: Source
    source_b: Source
    a: Side
    b: Side
    decoder: TextDecoder | None
    unit: str
    scale: int

    def close(self) -> None:
        """Release open files."""
        for source, side in ((self.source_a, self.a), (self.source_b, self.b)):
            side.reader.close()
            source.reader.close()


class Utf8:
    """Text as its bytes, so that texts are compared as sequences of ids are."""

    def encode(self, texts: list[str]) -> Ragged:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        return Ragged(np.frombuffer(b"".join(encoded), np.uint8), offsets_of([len(text) for text in encoded]))


def open_both(request: Request, progress: Progress) -> Compared:
    """Open both.

    Raises:
        OptionError: Text and ids, and no tokenizer; samples asked for where there are none.
    """
    handle = load_tokenizer(request.tokenizer) if request.tokenizer else None
    a, b = (_opened(request, which, handle, progress) for which in "ab")
    texts = [isinstance(source.reader, RecordReader) and source.reader.info.kind == "text" for source in (a, b)]
    as_text = all(texts)
    readers = [_tokens(source, handle, as_text=as_text, progress=progress) for source in (a, b)]
    decoder = handle.decoder(lenient=True) if handle else None
    if as_text:
        decoder = ByteLevelDecoder({byte: bytes([byte]) for byte in range(256)}, lenient=True)
    sides = _sides(readers, samples=request.samples)
    return Compared(a, b, *sides, decoder, "bytes" if as_text else "tokens", 4 if as_text else 1)


def _opened(request: Request, which: str, handle: TokenizerHandle | None, progress: Progress) -> Source:
    path, name = (request.a, request.format_a) if which == "a" else (request.b, request.format_b)
    formats = [registry.get(n) if n else registry.detect(p) for p, n in _named(request)]
    mine = formats[0 if which == "a" else 1]
    split = request.split if request.splits is None else request.splits[which == "b"]
    known = option_names(mine.read_options)
    others = set().union(*(option_names(format_.read_options) for format_ in formats))
    options = [word for word in request.options if _key(word) in known or _key(word) not in others]
    if request.samples and "view" in known:
        options.append("view=samples")
    parse_options(mine.read_options, options, mine.name)
    wanted = SourceRequest((path,), name, request.eos, options, request.text_field, split, frozenset({"fields"}))
    source = open_sources(wanted, handle.eos_id if handle else None, progress=progress)[0]
    if request.samples and (isinstance(source.reader, RecordReader) or source.reader.info.layout is not Layout.SAMPLES):
        raise OptionError(f"{printable(path)}: {mine.name} stores no samples here; leave --samples out")
    return source


def _named(request: Request) -> list[tuple[str | os.PathLike[str], str | None]]:
    return [(request.a, request.format_a), (request.b, request.format_b)]


def _key(word: str) -> str:
    return word.partition("=")[0].strip().replace("-", "_")


def _tokens(source: Source, handle: TokenizerHandle | None, *, as_text: bool, progress: Progress) -> TokenReader:
    records = source.reader
    if not isinstance(records, RecordReader):
        return records
    if records.info.kind != "text":
        progress.phase("reading ids", 0, "bytes")
        return ingested(records, None)
    if as_text:
        progress.phase("reading text", 0, "bytes")
        return ingested(records, Utf8())
    if handle is None:
        raise OptionError(
            f"{printable(source.paths[0])}: holds text, the other token ids: --tokenizer makes them alike"
        )
    progress.phase("tokenizing", 0, "bytes")
    return ingested(records, handle.encoder())


def _sides(readers: list[TokenReader], *, samples: bool) -> tuple[Side, Side]:
    with_masks = samples and all(isinstance(reader, Sampled) for reader in readers)
    sides = []
    for reader in readers:
        channels: list[Read] = [reader.tokens]
        if with_masks and isinstance(reader, Sampled):
            channels += [reader.masks, reader.labels]
        sides.append(Side(reader, channels))
    return sides[0], sides[1]
