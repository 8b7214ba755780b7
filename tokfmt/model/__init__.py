"""The model of a dataset: the token axis as it is stored, the spans of sequences on it, and the gaps between them.

axis       axes one after the other; `core.reader` has the class
spans      the extent and the content of each sequence; `stream`: those of a stream
gap        what is between contents, and how that is known
separator  which ID separates a source, and what a destination writes
batch      sequences in one window, and the one place that writes separators
dataset    an axis with spans
laid       what a destination stores, as an axis
readers    readers of a dataset, and the dataset of a reader
select     readers of some sequences of a reader, or of those of several
"""

from tokfmt.model.axis import Joined
from tokfmt.model.batch import AFTER, BEFORE, LEAD, SEP, Batch, Boundaries, Counts, Ledger
from tokfmt.model.dataset import Dataset, Slots, concat
from tokfmt.model.gap import Gap
from tokfmt.model.laid import Laid
from tokfmt.model.separator import Statement, decide, lead_to_write, led, sample_ends, separator_to_write
from tokfmt.model.spans import Bounds, Chain, Ended, Led, Spans, Taken
from tokfmt.model.stream import Split

__all__ = [
    "AFTER",
    "BEFORE",
    "LEAD",
    "SEP",
    "Batch",
    "Boundaries",
    "Bounds",
    "Chain",
    "Counts",
    "Dataset",
    "Ended",
    "Gap",
    "Joined",
    "Laid",
    "Led",
    "Ledger",
    "Slots",
    "Spans",
    "Split",
    "Statement",
    "Taken",
    "concat",
    "decide",
    "lead_to_write",
    "led",
    "sample_ends",
    "separator_to_write",
]  # fmt: skip
