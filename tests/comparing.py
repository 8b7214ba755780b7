"""What `check --against` says of two lists of sequences."""

from tokfmt.core.ragged import Ragged
from tokfmt.ops.check.cross_checks import compare
from tokfmt.ops.compare.fingerprint import fingerprints


def compared(here, there, **how):
    """Compare the sequences of a dataset with those of its source."""
    return compare(fingerprints(Ragged.of(here)), fingerprints(Ragged.of(there)), **how)
