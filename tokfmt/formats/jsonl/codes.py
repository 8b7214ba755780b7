"""What the codes of findings in JSON lines mean, and which of them writing the lines again puts right."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.core.audit import Code, Repair

_DROP = "--drop invalid-lines leaves such lines out of a conversion and counts them."

CODES: Mapping[str, Code] = {
    "TF501": Code(
        "a line that is no record",
        "A line is empty, not JSON, no object, or lacks the field that is read, or holds something else there than a "
        "text (or a list of ids). Upstream's packers stop at it, or silently drop everything that follows. Correct the "
        "line, or name the field with --text-field. " + _DROP,
    ),
    "TF502": Code(
        "cannot be read to its end",
        "The file is not there, is compressed and damaged or cut, or its disk reports an error. Copy it again.",
    ),
    "TF503": Code(
        "a line that is not UTF-8",
        "JSON is UTF-8, strictly. Latin-1 or UTF-16 text, a character cut in two, or surrogates encoded one by one. "
        "iconv converts a whole file. " + _DROP,
    ),
    "TF504": Code(
        "a lone surrogate",
        "An escape like \\ud83d without its second half is no character: a text was cut in the middle of an emoji by a "
        "program that counts in UTF-16. Tokenizers refuse it, or replace it. " + _DROP,
    ),
    "TF505": Code(
        "nested too deep",
        "More than 512 levels of brackets make parsers run out of stack. No text dataset needs them. " + _DROP,
        unsafe=True,
    ),
    "TF506": Code(
        "a token id of 2^32 or more",
        "Token datasets hold 32 bits an id at most. The list does not hold token ids, or is damaged.",
    ),
    "TF507": Code(
        "a byte order mark",
        "The file begins with EF BB BF, as some editors write it. tokfmt skips it; Modalities' index counts it into "
        "the first line, whose JSON many parsers then refuse. tokfmt check --fix OUT.jsonl writes the lines without "
        "it.",
    ),
    "TF508": Code(
        "line ends of two kinds",
        "Some lines end with CR LF, others with LF: files of two systems were joined. Indexes of some versions of "
        "Modalities count them differently. tokfmt check --fix OUT.jsonl writes LF throughout.",
    ),
    "TF509": Code(
        "empty texts",
        "A record whose text is empty. Since 2024-06-18 Modalities' packer silently drops its batch and everything "
        "that follows, and exits with code 0 (earlier versions drop the document, or its batch of ten). Remove such "
        "lines before you pack with it, and compare packs with --against.",
    ),
    "TF510": Code(
        "a field that occurs twice",
        "A record has the field that is read more than once. JSON leaves open which counts; tokfmt and Python take the "
        "last one, others the first.",
    ),
    "TF511": Code(
        "the index cannot be read",
        "X.idx beside X.jsonl is no pickled list of pairs of integers. tokfmt index writes a new one; "
        "--from-opt index=none reads all lines without one.",
    ),
    "TF512": Code(
        "entries that begin no line",
        "Offsets in the index are not where lines begin: the text was changed after the index was made, or it "
        "belongs to another file. Readers would return pieces of lines. tokfmt index writes a new one.",
    ),
    "TF513": Code(
        "lines without an entry",
        "The index lists fewer lines than there are, so readers skip the others. That may be meant (invalid lines were "
        "dropped), or lines were appended after the index was made. tokfmt index writes a new one.",
    ),
    "TF514": Code(
        "an index of an older version",
        "Versions of Modalities counted lengths in characters instead of bytes (2024-02-06 to 2024-12-11), counted the "
        "last line feed, or left out a last line without one. Today's packer cuts UTF-8 sequences with such an index: "
        "its reader process dies and packing hangs for ever. Offsets are right in all of them, so tokfmt reads them; "
        "tokfmt index (or check --fix OUT.jsonl) writes one of today.",
    ),
    "TF515": Code(
        "lengths that fit no version",
        "Lengths in the index are neither bytes nor characters of their lines. The text was changed without moving "
        "line borders, or another program wrote the index. tokfmt index writes a new one.",
    ),
    "TF516": Code(
        "unsafe",
        "Reading on would take memory without bounds (a line of hundreds of megabytes, or of compressed data that "
        "inflates to it), or the index, a pickle, would execute something. tokfmt has done none of it. --from-opt "
        "max_line=BYTES accepts longer lines; never load such an index with pickle.",
        unsafe=True,
    ),
    "TF517": Code(
        "texts that spell a special token",
        "A text holds a literal <|endoftext|>. Packers that let the tokenizer parse special tokens make a separator of "
        "it, in the middle of a document. tokfmt takes it as text, unless --special-tokens parse.",
    ),
    "TF518": Code(
        "an index that is out of order",
        "An entry of the index begins at or before the one before it: two indexes were joined, or it was shuffled. "
        "Which order was meant is for you to say; tokfmt index writes one in the order of the lines.",
    ),
}

_INDEX = "the index was made anew from the lines"
_NONE = {"index": "none"}

REPAIRS: Mapping[str, Repair] = {
    "TF507": Repair("the byte order mark is gone"),
    "TF508": Repair("all lines end with LF"),
    "TF511": Repair(_INDEX, _NONE),
    "TF512": Repair(_INDEX, _NONE),
    "TF514": Repair(_INDEX),
    "TF515": Repair(_INDEX),
}
