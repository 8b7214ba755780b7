"""What a search is made on: the rows of a view, as they are shown."""

from __future__ import annotations

from typing import NamedTuple

from tokfmt.core.axis import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.tui.letters import Pieces
from tokfmt.tui.records import Encoder, RecordPort
from tokfmt.tui.session import Session
from tokfmt.tui.viewport import Port


class Ground(NamedTuple):
    """What is searched.

    Attributes:
        port: Its rows.
        reader: Under them.
        decoder: Of ids; None without a tokenizer.
        whole: All rows are known.
        singular: What one row is called.
    """

    port: Port
    reader: TokenReader | RecordReader
    decoder: Pieces | None
    whole: bool
    singular: str

    @property
    def encoder(self) -> Encoder | None:
        """What makes tokens of text as it is looked at."""
        return self.port.encoder if isinstance(self.port, RecordPort) else None

    @property
    def of_text(self) -> bool:
        """It holds text, not ids."""
        return isinstance(self.reader, RecordReader) and self.reader.info.kind == "text"


def ground_of(session: Session) -> Ground:
    """What is shown now."""
    view, words = session.view, session.vocabulary
    return Ground(session.port, view.reader, words.decoder if words else None, view.whole, view.singular)
