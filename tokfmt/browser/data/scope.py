"""The rows of a dataset that a search goes through."""

from __future__ import annotations

from typing import NamedTuple

from tokfmt.browser.data.layout import Pieces
from tokfmt.browser.data.rows import RecordSource, RowSource
from tokfmt.browser.data.session import Session
from tokfmt.core.format import Encoder
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader


class SearchScope(NamedTuple):
    """The rows to search.

    Attributes:
        port: The rows.
        decoder: Decoder of IDs; None without a tokenizer.
        singular: The noun for one row.
    """

    port: RowSource
    decoder: Pieces | None
    singular: str

    @property
    def reader(self) -> TokenReader | RecordReader:
        """Return the token axis, or the records."""
        return self.port.reader

    @property
    def encoder(self) -> Encoder | None:
        """Return the encoder of text that is tokenized on reading, if any."""
        return self.port.encoder if isinstance(self.port, RecordSource) else None

    @property
    def of_text(self) -> bool:
        """Return whether the rows hold text, not IDs."""
        return isinstance(self.reader, RecordReader) and self.reader.info.kind == "text"


def search_scope(session: Session) -> SearchScope:
    """Return the scope of the view on the screen."""
    words = session.vocabulary
    return SearchScope(session.port, words.decoder if words else None, session.view.singular)
