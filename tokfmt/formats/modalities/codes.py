"""What the codes of findings in packs mean, and which of them writing a pack again puts right."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.core.audit import Code, Repair

_CONVERT = "tokfmt check --fix OUT.pbin writes it as Modalities reads it today."

CODES: Mapping[str, Code] = {
    "TF101": Code(
        "cannot be opened, is empty, or is another format",
        "The file cannot be read, holds no byte, or begins like a format that only shares its name (an index of "
        "Megatron-LM, a multimodal pack of a development version). A packer that was killed early leaves an empty "
        "file. Write it again, or name its format with --from.",
    ),
    "TF102": Code(
        "no index, or not one of pairs of integers",
        "A pack ends with a pickled list of (offset, length), one pair a document. There is none, or what stands there "
        "is damaged or of another program. Without the index nobody can tell documents from each other, except by the "
        "separator. Copy the file again, or pack the text again.",
    ),
    "TF103": Code(
        "the file ends too early",
        "The header promises more bytes than there are: a copy that was cut, a full disk, or a packer that was killed "
        "before it wrote the index. Copy the file again, or pack the text again.",
    ),
    "TF104": Code(
        "the index would execute something or take memory",
        "The index is a pickle, and Python's pickle runs what a file tells it to. This one holds more than a list of "
        "pairs of integers: it names a function, or makes an unpickler allocate gigabytes. tokfmt has not executed "
        "any of it. Do not open the file with Modalities or pickle; find out where it comes from.",
        unsafe=True,
    ),
    "TF105": Code(
        "the header says 0 bytes: its writer was killed",
        "A packer writes the length of the data into the header at its very end. This one was killed just before, with "
        "data and index complete. Modalities finds no documents in it. The index tells the right length, so the repair "
        f"is certain: {_CONVERT} Make sure that the corpus was packed to its end: --against corpus.jsonl.",
    ),
    "TF106": Code(
        "the header's length is not that of the data",
        "The data length in the header does not lead to the index, while header, data and index fit together without "
        "it: a development version of 2023-12, or a program that filtered a pack of layout C. "
        f"Lengths in the index are right: {_CONVERT}",
    ),
    "TF107": Code(
        "offsets shifted by a merge",
        "Modalities' merge_packed_data (since 2024-02, any version) subtracts 12 bytes from the offsets of every "
        "further file that it joins; nested merges subtract more. Data and lengths are right, the offsets are not: "
        "its readers return documents that begin 12 bytes early and end 12 bytes early, and filtering or shuffling "
        "such a pack writes those documents down. Training on the continuous view is not affected. tokfmt reads "
        f"documents by their lengths. {_CONVERT} Check packs made from it: their documents do not end with the "
        "separator (TF116, TF117), and --against corpus.jsonl names the shift.",
    ),
    "TF108": Code(
        "documents overlap or leave gaps",
        "An offset in the index is neither where the lengths before it lead to, nor off by a merge. The index is "
        "damaged or belongs to another file, and it is not certain what it should say. Pack the text again.",
    ),
    "TF109": Code(
        "the index is in another order than the data",
        "The stored intervals cover the data without gaps, but the index lists them in another order. No Modalities "
        "program writes this: which order was meant is for you to say. Sort the index by offset for the order of the "
        "data.",
    ),
    "TF110": Code(
        "lengths that are no whole tokens",
        "A document's length in bytes is no multiple of the token width. Either the width is wrong (layouts A and P do "
        "not store it: --from-opt width=N), or the index is damaged or belongs to another file.",
    ),
    "TF111": Code(
        "every length is one token too large",
        "A development version of 2023-12-19 (three hours of one day) counted one token too many in every length. "
        f"The error is the same everywhere, so tokfmt undoes it. {_CONVERT}",
    ),
    "TF112": Code(
        "all offsets are the same",
        "A development version of 2023-12 did not add up the offsets: all are 8. Lengths are right, and documents lie "
        f"in the order of the index. {_CONVERT}",
    ),
    "TF113": Code(
        "tokens of 3 bytes, which Modalities never reads",
        "For some hours of 2024-12-16 the writer chose 3 bytes a token for vocabularies above 65,536; no reader of any "
        f"version opens such a pack. Ids are right. {_CONVERT}",
    ),
    "TF114": Code(
        "big-endian layout, no longer read by Modalities",
        "Layouts A (2023-12 to 2024-03) and B (2024-03 to 2024-04) store header and tokens big-endian. Modalities "
        f"since 2024-04 reads them as garbage or refuses them. {_CONVERT}",
    ),
    "TF115": Code(
        "layout C, read 12 bytes late since 2024-07",
        "From 2024-04 to 2024-07 (v0.2.0) offsets counted from the start of the file, 12 bytes before the data. "
        "Today's Modalities counts from the data, and so returns every document 12 bytes late, without an error. "
        f"{_CONVERT}",
    ),
    "TF116": Code(
        "documents that do not end as most others do",
        "The separator ends most documents, but not these. They may be cut: by a program that used shifted offsets "
        "(TF107), or by a tokenizer that truncates. Or the text was packed by code that adds no separator to some. "
        "Compare them with their source: --against corpus.jsonl --tokenizer NAME.",
    ),
    "TF117": Code(
        "most documents do not end alike",
        "Every Modalities packer ends documents with a separator; here there is no id that most documents end with. "
        "That is what filtering or shuffling a merged pack (TF107) leaves: documents cut at shifted offsets. Compare "
        "with the source: --against corpus.jsonl --tokenizer NAME.",
    ),
    "TF118": Code(
        "documents of no tokens",
        "A document in the index has length 0, without even a separator. Modalities always writes one, so another "
        "program wrote this pack; its readers may fail on such a document.",
    ),
    "TF119": Code(
        "the token width is not stored",
        "Layouts A and P have no room for the number of bytes a token takes; it was inferred from how documents end. "
        "--from-opt width=N says it.",
    ),
    "TF120": Code(
        "a version that was never released",
        "Development versions of 2023-11 and 2023-12 had a header of 4 bytes, or none, or wrong offsets. tokfmt reads "
        f"them; no released Modalities does. {_CONVERT}",
    ),
    "TF121": Code(
        "separators inside documents",
        "The separator's id occurs before the end of a document: the text held a literal <|endoftext|>, and the packer "
        "parsed it. That is legal, and tokfmt keeps such documents whole, by the index; but a format that marks "
        "boundaries by the separator cannot hold them, and a trainer sees one more boundary.",
    ),
    "TF122": Code(
        "many documents of exactly the greatest length",
        "From 2024-04-02 to 2024-06-10 (v0.2.0) the tokenizer's default was truncation=True, and the configuration "
        "that came with it said max_length 512: longer documents lost everything behind. What was cut is not in the "
        "pack. Compare with the source (--against corpus.jsonl), and pack the text again.",
    ),
    "TF123": Code(
        "documents that are padded",
        "Many documents hold a run of one id before their separator. In v0.2.0 the tokenizer's default was "
        'padding="max_length", so short documents were filled up with the padding id, which training then learns. '
        "Pack the text again with padding=False.",
    ),
    "TF124": Code(
        "no documents",
        "A well-formed pack without documents. It may be meant; but packers whose child process fails (layouts A to C) "
        "leave the same and exit with code 0. Compare with the source.",
    ),
}

_INDEX = "the index was made anew from the lengths of the documents"
_HEADER = "the data length in the header was made anew from the index"
_AGAIN = "it was written in today's layout (D), little-endian"

REPAIRS: Mapping[str, Repair] = {
    "TF105": Repair(_HEADER),
    "TF106": Repair(_HEADER),
    "TF107": Repair(_INDEX),
    "TF111": Repair("every length in the index is one token less"),
    "TF112": Repair(_INDEX),
    "TF113": Repair("tokens take 4 bytes"),
    "TF114": Repair(_AGAIN),
    "TF115": Repair("offsets count from the data section, as Modalities reads them today"),
    "TF119": Repair("the token width is stored"),
    "TF120": Repair(_AGAIN),
}
