"""What `check --against` says of two lists of sequences."""

from tokfmt.commands.check.corpus import compare
from tokfmt.commands.compare.fingerprint import fingerprints
from tokfmt.core.ragged import Ragged


def compared(here, there, **how):
    """Compare the sequences of a dataset with those of its source."""
    return compare(fingerprints(Ragged.of(here)), fingerprints(Ragged.of(there)), **how)
