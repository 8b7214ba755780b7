"""Follow the spans of samples and documents through nested recipes, to the datasets that store their sequences."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from tokfmt import registry
from tokfmt.base.options import given_options
from tokfmt.core.reader import TokenReader
from tokfmt.files.place import LocalPlace, Place
from tokfmt.mix.deferred import Deferred
from tokfmt.mix.documents import Documents, Span, TokenSource
from tokfmt.mix.samples import Samples
from tokfmt.model.select import Chosen, Concat, Slice
from tokfmt.source.discover import format_of
from tokfmt.source.request import SourceRequest, viewed


class Traced(NamedTuple):
    """A span of a source that is a dataset, not a recipe."""

    name: str  # from the outermost recipe on
    recipe: Samples | Documents  # that names the source
    span: Span  # its source is a number in that recipe
    eos_id: int | None  # after the sequence

    @property
    def source(self) -> TokenSource:
        """The source."""
        return self.recipe.sources[self.span.source]


def traced(recipe: Samples | Documents, number: int) -> Iterator[Traced]:
    """Yield the spans of a sample, or that of a document, through nested recipes."""
    for span in recipe.spans(number):
        yield from _followed(recipe, span, recipe.eos_id)


def _followed(recipe: Samples | Documents, span: Span, eos_id: int | None, outer: str = "") -> Iterator[Traced]:
    """Yield a span of a source; if the source is a recipe, yield the spans of its sources."""
    source = recipe.sources[span.source]
    name = f"{outer}{source.name}"
    reader, position = _dataset(source.reader, _begin(source, span))
    if isinstance(reader, Documents):
        (inner,) = reader.spans(reader.sequence_at(position))
        yield from _followed(reader, inner._replace(start=span.start, stop=span.stop), eos_id, f"{name}/")
    elif isinstance(reader, Samples):
        done = 0
        for inner in reader.spans(position // reader.seq_len):
            a, b = max(span.start, done), min(span.stop, done + inner.stop - inner.start)
            if a < b:
                part = inner._replace(start=inner.start + a - done, stop=inner.start + b - done)
                yield from _followed(reader, part, reader.eos_id, f"{name}/")
            done += inner.stop - inner.start
    else:
        yield Traced(name, recipe, span, eos_id)


def _begin(source: TokenSource, span: Span) -> int:
    """Return the position at which the sequence of a span begins on the token axis of its source."""
    index = source.index_of(span.sequence)
    return int(source.reader.offsets(index, index)[0])


def _dataset(reader: TokenReader, position: int) -> tuple[TokenReader, int]:
    """Return the dataset that holds a position under joins and selections, and the position in it."""
    while isinstance(reader, (Slice, Concat, Chosen, Deferred)):
        reader, position = reader.to_source(position)
    return reader, position


class StoredSequence(NamedTuple):
    """The sequence of a source in the dataset that stores it."""

    dataset: Place | None  # its canonical path; None if the format does not know the file
    file: Place  # that holds the first token of the span; if the format does not know it, a path of the source
    number: int  # in the dataset
    begin: int  # where it begins on the token axis of the source
    length: int  # in tokens
    sequences: int  # of the dataset


def stored_sequence(traced_span: Traced) -> StoredSequence:
    """Find the sequence of a span in its dataset. Reads."""
    source, span = traced_span.source, traced_span.span
    begin, index = _begin(source, span), source.index_of(span.sequence)
    length = int(source.reader.offsets(index + 1, index + 1)[0]) - begin
    # the file of a separator is that of the last token
    located = source.reader.locate(begin + min(span.start, length - 1))
    file = located.path if located is not None else source.paths[0]
    format_, places = registry.get(source.format), map(registry.of_prefix, source.paths)
    named = (name for place in places for name in (place, format_.canonical(place)))  # a prefix, or an index
    home = next((place for place in named if place in (file, *file.parents)), None)
    dataset, position = _dataset(source.reader, begin)
    return StoredSequence(home, file, dataset.sequence_at(position), begin, length, dataset.info.sequences)


def traced_request(traced_span: Traced, path: Place) -> SourceRequest:
    """Return the request that opens a dataset of the source of a span, as its recipe reads it."""
    file, entry = traced_span.recipe.file, traced_span.recipe.file.sources[traced_span.span.source]
    options = given_options(entry.options)
    request = SourceRequest((path,), entry.format, entry.eos, options, entry.text, entry.split)
    return viewed(request, format_of(path, entry.format), "samples") if file.pack == "stored" else request


def shortest(path: Place) -> str:
    """Return a path without `..`: a recipe lists ../web.pbin.

    If a directory of the path is a link, the path without `..` may be another file; then the path is unchanged.
    """
    if not isinstance(path, LocalPlace):
        return str(path)
    short = os.path.normpath(path)
    return short if os.path.exists(short) and os.path.samefile(short, path) else str(path)
