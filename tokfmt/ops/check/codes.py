"""What every code means: those of the formats, plug-ins included, and those that go across formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokfmt import registry
from tokfmt.core.errors import OptionError
from tokfmt.core.findings import Code
from tokfmt.core.format import Format
from tokfmt.core.options import nearest

_OPENING = {
    "TF900": Code(
        "cannot be opened at all",
        "There is nothing at that path, it may not be read, it is neither a file nor a directory, or no format "
        "recognises what is in it (or several do). --from NAME says what it is.",
    ),
    "TF901": Code(
        "cannot be read as it is",
        "No rule of the format is broken, and yet the reader that every command uses cannot give its sequences: the "
        "message says why, and which option tells it what it needs. Often the dataset is sound but does not say enough "
        "(shuffled samples, too few of them to tell how they continue each other).",
    ),
    "TF902": Code(
        "unsafe to read",
        "The reader stopped because reading on could execute code, leave the dataset, or exhaust memory. Find out "
        "where the dataset comes from.",
        unsafe=True,
    ),
}

_MANIFEST = {
    "TF910": Code(
        "the manifest cannot be read",
        "X.tokfmt.json beside a dataset says what was converted, with counts and checksums. This one is no JSON of "
        "that kind, or has a number that cannot be a count or an ID, so nothing was compared with it. Remove it, or "
        "restore it from where the dataset comes from.",
    ),
    "TF911": Code(
        "another size than the manifest says",
        "The dataset has more or fewer bytes or files than when it was written: a copy was cut, files are missing, or "
        "it was changed since. Copy it again; if the change was meant, remove the manifest.",
    ),
    "TF912": Code(
        "another checksum than the manifest says",
        "The bytes are not those that were written, though the size is the same: damage on a disk or on the way, or a "
        "change in place. xxhsum -H128 prints the same checksum. Copy it again; if the change was meant, remove the "
        "manifest.",
    ),
    "TF913": Code(
        "other counts than the manifest says",
        "The dataset, read now, has another number of sequences or tokens, another largest ID, or another format, than "
        "the manifest says: "
        "the manifest belongs to another dataset of that name, or the dataset was changed.",
    ),
    "TF914": Code(
        "a source has changed since",
        "The manifest names what the dataset was converted from, and a source has another size now. The dataset itself "
        "may be fine; convert again if it should follow its source.",
    ),
    "TF916": Code(
        "a ledger does not fit its dataset",
        "The ledger beside a dataset is gone, damaged, cut, or of another dataset; with --deep its rows are compared "
        "with the sequences that are there as well. The dataset itself may be fine: --origin would name wrong "
        "places. Convert the recipe again with --ledger, or remove the ledger.",
    ),
    "TF915": Code(
        "a directory holds more than its dataset",
        "Files of another kind or spelling, or directories below, which are not read with it. Commands that read "
        "refuse such a directory: --recursive reads the directories below as well, --allow-loss other-files leaves out "
        "files that do not belong to the dataset.",
    ),
}

_TOKENIZER = {
    "TF921": Code(
        "ids beyond the tokenizer's vocabulary",
        "An id is not in the vocabulary of the tokenizer that was named: the dataset was made with another one (or "
        "with tokens added later), or it is damaged. A model of that vocabulary crashes on it.",
    ),
    "TF922": Code(
        "the separator is not the tokenizer's end of text",
        "Documents are separated by one id, the tokenizer's end-of-text token is another. Some trainers mask or split "
        "at the tokenizer's id and would find none. It may be meant; --eos names the right one.",
    ),
    "TF923": Code(
        "text full of replacement characters",
        "Decoded with this tokenizer, most sequences hold bytes that are not UTF-8: the ids were made with another "
        "tokenizer. With the right one, whole documents decode without a single one.",
    ),
    "TF924": Code(
        "text read in the wrong encoding",
        "Decoded text is full of pairs like Ã¼ or â€™: UTF-8 that was read as Latin-1 before it was tokenized. "
        "Modalities before 2024-02-06 did that to everything that is not ASCII. The tokens are what the model would "
        "learn; pack the text again with a newer version.",
    ),
    "TF925": Code(
        "ids that this tokenizer would not give",
        "Decoded with this tokenizer and encoded again, most documents give other ids. A tokenizer is deterministic, "
        "so they were made with another one, or with another version of its merges. Decoded text may look right all "
        "the same when vocabularies resemble each other.",
    ),
    "TF926": Code(
        "not the tokenizer that the manifest names",
        "The manifest beside the dataset has the checksum of the tokenizer.json that it was made with; the one named "
        "now has another.",
    ),
}

_AGAINST = {
    "TF931": Code(
        "documents of the corpus are missing",
        "The corpus has documents that the dataset has not. All missing from one point on: the packer met an empty "
        "text, a missing field or a text that is none, and since 2024-06-18 Modalities' packer then silently drops "
        "that batch and everything that follows, with exit code 0 (only a warning in its log). Some in between: "
        "earlier versions dropped the document, or its batch of ten. Remove such lines (tokfmt check corpus.jsonl "
        "names them) and pack again.",
    ),
    "TF932": Code(
        "documents that the corpus has not",
        "The dataset holds documents that are not in the corpus, or not there: something was packed twice, or the "
        "corpus was changed since.",
    ),
    "TF933": Code(
        "a document differs",
        "A document is not what the tokenizer makes of its line. Cut at one length: a tokenizer with truncation=True. "
        "Different from the first token on: another tokenizer, another order, or text that was changed before it was "
        "tokenized.",
    ),
    "TF934": Code(
        "documents are shifted",
        "Documents begin and end some bytes away from where they should: the mark of a program that read a merged pack "
        "(TF107) by its shifted offsets, and wrote what it saw. Every document has lost its end, and begins with the "
        "end of the one before. The pack is well-formed, so nothing else tells. Make it again from the parts that were "
        "merged, or from the merged pack converted by tokfmt.",
    ),
    "TF935": Code(
        "documents in another order",
        "All these documents are in the corpus, and stand in another order in the dataset: it was shuffled, or its "
        "parts were put together otherwise. --ignore-order compares without the order; where the manifest says that "
        "tokfmt shuffled it, that happens by itself.",
    ),
}

CODES: Mapping[str, Code] = {**_OPENING, **_MANIFEST, **_TOKENIZER, **_AGAINST}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means.

    Attributes:
        code: `TF107`.
        owner: The format it is of, or "any format".
        title: In a few words. text: A paragraph. unsafe: As in `core.findings.Code`.
    """

    code: str
    owner: str
    title: str
    text: str
    unsafe: bool = False


def all_codes() -> dict[str, Explanation]:
    """Every code there is, in order: those of all formats installed, and of checks across formats."""
    found: dict[str, Explanation] = {}
    owned: list[tuple[str, Mapping[str, Code]]] = [(format_.name, format_.codes()) for format_ in registry.formats()]
    for owner, codes in (*owned, ("any format", CODES)):
        for code, meaning in codes.items():
            found[code] = Explanation(code, owner, meaning.title, meaning.text, meaning.unsafe)
    return dict(sorted(found.items()))


def explain(code: str) -> Explanation:
    """What one code means.

    Raises:
        OptionError: There is none of that name; names the nearest.
    """
    known = all_codes()
    found = known.get(code.upper())
    if found is None:
        alike = [other for other in known if other[:3] == code.upper()[:3]]  # of the same format
        near = nearest(code.upper(), alike) or nearest(code.upper(), known)
        raise OptionError(f"no finding has the code {code!r}", name=code, nearest=near)
    return found


def meanings(format_: Format | None) -> Mapping[str, Code]:
    """The codes that findings in a dataset of this format may have."""
    return {**(format_.codes() if format_ is not None else {}), **CODES}
