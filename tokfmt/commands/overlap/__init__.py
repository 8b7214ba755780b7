"""Find the n-grams of evals in datasets (`tokfmt overlap`)."""

from tokfmt.commands.overlap.overlap import OverlapRequest, overlap
from tokfmt.commands.overlap.report import OverlapReport

__all__ = ["OverlapReport", "OverlapRequest", "overlap"]
