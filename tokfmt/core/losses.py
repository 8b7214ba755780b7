"""The losses that `--allow-loss` accepts by name, and the policy of each command: what it accepts without being asked.

Formats of other packages add theirs with `Format.losses`.

This module imports nothing, so that the help of a command can list the names without numpy.
"""

LOSSES = {
    "embedded-separators": (
        "Separators inside of documents. A document holds the separator, and the destination divides its stream at "
        "each one. With this word, such a document becomes several documents. Formats with an index, such as "
        "modalities and megatron, keep it whole."
    ),
    "empty-sequences": (
        "Documents without tokens. The destination marks documents by the separators between them, and cannot state "
        "an empty one. With this word, empty documents are left out, and all later documents have smaller numbers."
    ),
    "loss-mask": (
        "Which tokens count in the loss. The source has loss masks or labels, and the destination stores token IDs "
        "only. With this word, all tokens count in the loss of a training that reads the destination. In a recipe, "
        "the source is read without them."
    ),
    "masked-separators": (
        "Loss masks of separators. The separator of a document does not count in the loss, and the destination has no "
        "position for its mask. With this word, the masks of tokens are kept, and the separators count."
    ),
    "last-labels": (
        "The last label of each sample. The last label of a sample predicts a token that is in no sample. A loss mask "
        "over the stored tokens cannot state it. With this word, one target per sample is lost."
    ),
    "inner-boundaries": (
        "Where documents begin inside of rows. A row or a document holds several sequences, and the destination "
        "stores one sequence for it. With this word, they are joined, and nothing shows any more where each began."
    ),
    "invalid-lines": (
        "Lines that are not records. A line is not valid JSON, or lacks the field of the text. With this word, such "
        "lines are left out and counted. tokfmt check lists each with its byte offset."
    ),
    "invalid-utf8": (
        "Token IDs that decode to invalid UTF-8. A document ends inside of a character, or its IDs are not text, so "
        "its bytes are not UTF-8. With this word, the decoded text has U+FFFD in their place. The text no longer "
        "encodes to the same IDs."
    ),
    "fields": (
        "Other fields of records. Records have more fields than the text or the IDs, and the destination keeps only "
        "these. With this word, a copy has no identifiers and no metadata."
    ),
    "splits": (
        "The other splits of a source. The source holds several splits, such as train and validation, and a "
        "conversion reads one. With this word, the others are left out. --split NAME chooses one, and then nothing is "
        "lost."
    ),
    "order": (
        "The order of shuffled samples. HDF5 samples were shuffled, so a document that spans two samples cannot be "
        "restored. With this word, each sample is read as it is stored, and its first and last documents are pieces."
    ),
    "tail": (
        "Bytes after the last document. A file has more or fewer bytes than it states, or ends inside of a token: a "
        "copy was cut, or a writer was interrupted. With this word, what is behind the last complete token or row is "
        "left out."
    ),
    "other-files": (
        "Files that do not belong to the dataset. A directory holds files or directories that are not read. With this "
        "word, they are left out. --recursive also reads the directories below."
    ),
    "tokenizers": (
        "The certainty that one tokenizer made all IDs. Sources were made with different tokenizers, or with another "
        "one than --tokenizer, by their manifests. With this word, the IDs are written as they are, and the manifest "
        "of the destination names no tokenizer."
    ),
    "null-rows": (
        "The difference between NULL and empty. A row of Parquet or Arrow is NULL: its content is missing. With this "
        "word, it is read as an empty sequence."
    ),
    "modes": (
        "The modes of multimodal sequences. An index of Megatron-LM states for each sequence whether it is text or "
        "image tokens. No other format stores that. With this word, the tokens are read without their modes."
    ),
    "gaps": (
        "Tokens outside of documents. The rows of an OLMo .csv.gz do not cover all tokens of its .npy. With this "
        "word, tokens that no row names are left out."
    ),
    "leads": (
        "The lead (BOS) of sequences. Sequences begin with a lead that is no content, and the destination uses runs "
        "of separators as padding, so the lead would be read as an empty document. With this word, it is left out. "
        "--to-bos ID keeps it as a token."
    ),
}
"""Each loss by its name: what is lost, and after the first sentence what a command does if you accept it."""

READS = {
    "open": frozenset({"fields"}),
    "show": frozenset({"fields"}),
    "stats": frozenset({"fields"}),
    "diff": frozenset({"fields"}),
    "overlap": frozenset({"fields"}),
    "info": frozenset({"fields", "other-files"}),
    "check": frozenset({"fields", "other-files", "tokenizers"}),
    "fix": frozenset({"other-files"}),
    "browse": frozenset({"fields", "other-files", "tokenizers"}),
}
"""The losses that a command which reads accepts by itself, because it loses nothing by them, or reports them."""

WRITES = frozenset(
    {
        "embedded-separators", "empty-sequences", "masked-separators", "last-labels", "inner-boundaries", "leads",
        "invalid-utf8",
    }
)  # fmt: skip
"""The losses that only commands which write have. Such a command accepts none by itself."""
