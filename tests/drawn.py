"""What a filter says of a text, as a row of a table."""

from tokfmt.text.filters import ENTRY

__all__ = ["ENTRY"]
