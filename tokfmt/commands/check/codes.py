"""The meanings of finding codes. Those of a format are in the module of the format, TF9xx of every dataset are here.

    TF1xx   modalities        formats/modalities/check.py      TF70x   olmo         formats/olmo.py
    TF2xx   stage1            formats/stage1/check.py          TF72x   datatrove    formats/datatrove.py
    TF3xx   hdf5              formats/hdf5/check.py            TF74x   litdata      formats/litdata.py
    TF4xx   flat-tokens       formats/flat_tokens/check.py     TF76x   mds          formats/mds.py
    TF5xx   jsonl             formats/jsonl/check.py           TF78x   levanter     formats/levanter.py
                                                               TF79x   array        formats/array
                                                               TF84x   internevo    formats/internevo.py
                                                               TF86x   litgpt-packed  formats/litgpt_packed.py
                                                               TF82x   webdataset   formats/webdataset.py
                                                               TF88x   tfrecord     formats/tfrecord.py
                                                               TF89x   arrayrecord  formats/arrayrecord.py
    TF57x   text              formats/text.py                  TF80x   recipe       mix/format.py
    TF60x   megatron          formats/megatron.py              TF90x   any dataset  opening
    TF61x   megatron          formats/megatron.py              TF91x   any dataset  its manifest and its directory
    TF62x   llmc              formats/llmc.py
    TF64x   nanogpt           formats/nanogpt.py               TF92x   any dataset  --tokenizer
    TF66x   parquet           formats/arrow/check.py           TF93x   any dataset  --against
    TF68x   arrow             formats/arrow/check.py           TF94x   any dataset  its content

`Format.codes` returns the codes of a format. Each entry has the text that `check --explain` prints. The inspection of a
format (`Format.inspect`) yields its findings. The findings TF91x to TF94x are made in `commands/check/cross_checks.py`.
Plug-ins have codes of their own, without TF.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokfmt import registry
from tokfmt.base.options import nearest
from tokfmt.core.findings import Code
from tokfmt.core.format import Format
from tokfmt.core.losses import LOSSES
from tokfmt.errors import OptionError

_OPENING = {
    "TF900": Code(
        "cannot be opened at all",
        "The path does not exist, you may not read it, it is neither a file nor a directory, or no format recognizes "
        "its content, or several do. Give the format with --from NAME.",
    ),
    "TF901": Code(
        "cannot be read as it is",
        "The dataset breaks no rule of its format, but the reader that every command uses cannot return its "
        "sequences. The message has the reason, and the option that supplies what is missing. Often the dataset is "
        "valid, and states too little: the samples are shuffled, or too few to infer how they continue each other.",
    ),
    "TF902": Code(
        "unsafe to read",
        "The reader stopped because reading on could execute code, leave the dataset, or exhaust memory. Find out "
        "where the dataset comes from.",
        unsafe=True,
    ),
    "TF903": Code(
        "token IDs of another width",
        "The first IDs of a file show that it was read with a wrong number of bytes per token. Every second ID is 0 if "
        "wider IDs are read in halves; IDs that no tokenizer has are narrower ones read as one. Give the right dtype "
        "or width; if a file states the wrong one, write it again.",
    ),
}

_MANIFEST = {
    "TF910": Code(
        "the manifest is missing or cannot be read",
        "The manifest of a dataset X is X.tokfmt.json: what was converted, with counts and checksums. An error: the "
        "manifest of another split names this dataset, which has none. The manifests of splits are written last, when "
        "all of them are there, so the conversion was interrupted. Repeat it with --overwrite. A warning: the file is "
        "not such JSON, or has a number that cannot be a count or an ID, so nothing was compared with it. Remove it, "
        "or copy it again with the dataset.",
    ),
    "TF911": Code(
        "another size than the manifest states",
        "The dataset has more or fewer bytes or files than when it was written: a copy was cut, files are missing, or "
        "it was changed since. Copy it again; if the change was meant, remove the manifest.",
    ),
    "TF912": Code(
        "another checksum than the manifest states",
        "The bytes are not those that were written, though the size is the same: a disk or a transfer damaged them, or "
        "a program changed them in place. xxhsum -H128 prints the same checksum. Copy the dataset again; if the change "
        "was meant, remove the manifest.",
    ),
    "TF913": Code(
        "other counts than the manifest states",
        "The dataset has another number of sequences or tokens, another largest ID, or another format than the "
        "manifest states. The manifest belongs to another dataset of that name, or the dataset was changed.",
    ),
    "TF914": Code(
        "a source has changed since",
        "The manifest lists the sources of the dataset, and one of them has another size now. The dataset itself may "
        "be fine; convert again if it should follow its source.",
    ),
    "TF916": Code(
        "a ledger does not fit its dataset",
        "The ledger of the dataset is missing, damaged, cut, or belongs to another dataset. With --deep, its rows are "
        "also compared with the sequences of the dataset. The dataset itself may be fine, but --origin would report "
        "wrong places. Convert the recipe again with --ledger, or remove the ledger.",
    ),
    "TF919": Code(
        "an empty file",
        "A file of the dataset has no bytes. Its copy or its writer failed, or it was created before its content came. "
        "Its tokens are missing, and no header states how many there were. numpy cannot map an empty file either.",
    ),
    "TF918": Code(
        "files are missing, or there are two sets of them",
        "Names such as train-00001-of-00003.parquet state how many files there are. One of them is missing, or the "
        "directory also holds files of another number, as a second upload leaves them. Keep the files of one upload: "
        "otherwise each document would be read twice.",
    ),
    "TF915": Code(
        "a directory holds more than its dataset",
        "The directory has directories below it, or files of another kind or spelling, that are not read as part of "
        "the dataset. convert, stats, show and diff refuse such a directory; info and browse read it. --recursive also "
        "reads the directories below; --allow-loss other-files leaves out files that do not belong to the dataset.",
    ),
    "TF917": Code(
        "numbers of files that are left out",
        "The numbers in the names of the files of a directory count them, and a number between the first and the last "
        "has no file: a copy was interrupted, or the file was removed. No index lists the files, so nothing else shows "
        "that it is missing. If files were left out on purpose, nothing is wrong.",
    ),
}

_TOKENIZER = {
    "TF921": Code(
        "IDs that the tokenizer does not have",
        "An ID is not in the vocabulary of the given tokenizer. The dataset was made with another tokenizer (or with "
        "tokens added later), or it is damaged. A model with that vocabulary crashes on the ID.",
    ),
    "TF922": Code(
        "the separator is not the tokenizer's end of text",
        "The ID between documents is not the tokenizer's end-of-text token. Some trainers mask or split at the "
        "tokenizer's ID, and would not find it. If the separator is right, give it with --eos ID.",
    ),
    "TF923": Code(
        "text full of replacement characters",
        "Decoded with this tokenizer, most sequences hold bytes that are not UTF-8: the IDs were made with another "
        "tokenizer. With the right one, complete documents decode without a single replacement character.",
    ),
    "TF924": Code(
        "text read in the wrong encoding",
        "Decoded text is full of pairs like Ã¼ or â€™: UTF-8 that was read as Latin-1 before it was tokenized. "
        "Modalities before 2024-02-06 did that to all text that is not ASCII. A model would learn these tokens; pack "
        "the text again with a newer version.",
    ),
    "TF925": Code(
        "IDs that this tokenizer would not return",
        "Decoded with this tokenizer and encoded again, most documents have other IDs. A tokenizer is deterministic, "
        "so they were made with another one, or with another version of its merges. If the vocabularies resemble each "
        "other, the decoded text may still look right.",
    ),
    "TF926": Code(
        "not the tokenizer that the manifest names",
        "The manifest of the dataset has the checksum of the tokenizer.json that it was made with. The given tokenizer "
        "has another checksum.",
    ),
    "TF927": Code(
        "IDs that wrapped around",
        "Documents end with the tokenizer's end of text modulo 65,536 (or 32,768, as flat-tokens stores an ID twice as "
        "large), and the dataset has no larger ID, although the tokenizer does. A writer stored the IDs of a large "
        "vocabulary as uint16: every ID above 65,535 is another one now. The lost bits are not in the dataset. Encode "
        "the text again, and store 32-bit IDs.",
    ),
    "TF928": Code(
        "files of different tokenizers",
        "The metadata of the files of one dataset name different tokenizers: runs with several wrote into one folder, "
        "and an ID stands for another token in some files. Commands that join them refuse it. Convert the files of "
        "each tokenizer alone. If the names are those of one tokenizer, --allow-loss tokenizers accepts them.",
    ),
}

_AGAINST = {
    "TF931": Code(
        "documents of the corpus are missing",
        "The corpus has documents that the dataset does not have. If all are missing from one point on, the packer "
        "read an empty text, a missing field or a value that is not text. Since 2024-06-18, Modalities' packer then "
        "silently drops that batch and everything that follows, with exit code 0 (only a warning in its log). If some "
        "are missing in between, an earlier version dropped the document, or its batch of ten. Remove such lines "
        "(tokfmt check corpus.jsonl lists them) and pack again.",
    ),
    "TF932": Code(
        "documents that the corpus does not have",
        "The dataset holds documents that are not in the corpus, or holds them more often: something was packed twice, "
        "or the corpus was changed since.",
    ),
    "TF933": Code(
        "a document differs",
        "A document does not have the IDs that the tokenizer returns for its line. If documents are cut at one length, "
        "the tokenizer had truncation=True. If they differ from the first token on, look for another tokenizer, "
        "another order, or text that was changed before it was tokenized.",
    ),
    "TF934": Code(
        "documents are shifted",
        "Documents begin and end some bytes away from where they should. A program that reads a merged pack (TF107) by "
        "its shifted offsets writes such documents: each has lost its end, and begins with the end of the one before. "
        "The pack is well-formed, so no other check finds this. Make it again from the packs that were merged, or from "
        "the merged pack converted by tokfmt.",
    ),
    "TF935": Code(
        "documents in another order",
        "All these documents are in the corpus, but the dataset has them in another order: it was shuffled, or its "
        "files were joined in another order. --ignore-order compares without the order. If the manifest states that "
        "tokfmt shuffled the dataset, the order is ignored without the option.",
    ),
}

_CONTENT = {
    "TF941": Code(
        "no tokens",
        "The dataset is well-formed and holds no tokens, or no records. This may be intended. But a packer whose child "
        "process failed leaves the same, and exits with code 0. Many trainers cannot read an empty dataset: they stop "
        "with an error on opening it, or wait for a sample. Compare it with its source.",
    ),
    "TF942": Code(
        "sequences without a token that counts",
        "The dataset stores a loss mask or labels, and these leave out every token of some sequences: a model learns "
        "nothing from them, and a batch of such sequences alone has the loss NaN. Often the prompt filled the row, so "
        "that the answer was cut off. Remove the sequences, or raise the length at which rows are cut.",
    ),
    "TF943": Code(
        "files with tokens of several widths",
        "The files of the dataset store tokens with different numbers of bytes, for example uint16 and uint32. tokfmt "
        "reads each file in its own width. Most trainers take one width for all files, and read wrong IDs. The files "
        "may come from two tokenizers. Find out which tokenizer made each file; a conversion writes one width.",
    ),
    "TF944": Code(
        "documents without the separator",
        "The separator ends other documents of the dataset, but not these; or none ends with the one that --eos, a "
        "manifest or the tokenizer states. They may be cut, or the writer adds no separator to some. A trainer that "
        "reads them as one stream sees no boundary after them. A conversion to a format that stores separators adds "
        "one, and counts it.",
    ),
    "TF945": Code(
        "documents that end with the separator twice",
        "The tokenizer adds the end of text, and the packer adds another one. In an index only the last is the "
        "separator, and tokfmt keeps the other as content; in a stream each second one is an empty document. A model "
        "learns to end a text twice. Pack the text again with one of both; or --deep --fix OUT writes a copy without "
        "the second one. It changes no document that ends with one, and no other command does this.",
    ),
    "TF946": Code(
        "separators inside documents",
        "The separator occurs before the end of a document: the text held its literal spelling, or rows are pieces of "
        "a stream. A format that marks boundaries by the separator cannot store such documents. If all rows have one "
        "length, formats with rows=blocks read them as the stream that they were cut from.",
    ),
    "TF947": Code(
        "the last document is not finished",
        "No separator follows the last document of a stream. It was cut with its file or its last sample, or the "
        "writer adds no separator at the end. A conversion adds one, and counts it.",
    ),
    "TF948": Code(
        "a BOS in front of some documents",
        "A part of the documents begin with a BOS: their files were written before and after a change of the tokenizer "
        "or of its options, or long documents were cut. A model sees both kinds. The BOS is that of --bos, of the "
        "manifest or of the tokenizer, or an ID that begins several documents, is nowhere else in those that were "
        "looked at, and is less or greater than all others. --bos ID --to-bos ID of tokfmt convert adds it where it is "
        "missing; --bos ID --to-bos none leaves it out.",
    ),
}

CODES: Mapping[str, Code] = {**_OPENING, **_MANIFEST, **_TOKENIZER, **_AGAINST, **_CONTENT}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a finding code, as `tokfmt check --explain` prints it.

    Attributes:
        code: The code, such as `TF107`.
        owner: The name of the format that defines the code, or "any format".
        title: The finding in a few words.
        text: One paragraph: the finding, its causes, and the remedy.
        unsafe: True if reading on could execute code, leave the dataset, or exhaust memory.
    """

    code: str
    owner: str
    title: str
    text: str
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of findings, or the loss that was asked for."""

    codes: list[Explanation]


def all_codes() -> dict[str, Explanation]:
    """Return the explanations of all codes, sorted by code: those of every installed format, and TF9xx."""
    explanations: dict[str, Explanation] = {}
    owned: list[tuple[str, Mapping[str, Code]]] = [(one.name, one.codes()) for one in registry.list_formats()]
    for owner, codes in (*owned, ("any format", CODES)):
        for code, meaning in codes.items():
            explanations[code] = Explanation(code, owner, meaning.title, meaning.text, meaning.unsafe)
    return dict(sorted(explanations.items()))


def explain(code: str) -> Explanation:
    """Return the explanation of a code, or of a word of `--allow-loss`, in upper or lower case."""
    if code.lower() in LOSSES:
        title, _, text = LOSSES[code.lower()].partition(". ")
        return Explanation(code.lower(), "--allow-loss", title, text)
    explanations = all_codes()
    explanation = explanations.get(code.upper())
    if explanation is None:
        alike = [other for other in explanations if other[:3] == code.upper()[:3]]  # of the same format
        near = nearest(code.lower(), LOSSES) or nearest(code.upper(), alike) or nearest(code.upper(), explanations)
        raise OptionError(f"no finding and no loss has the name {code!r}", name=code, nearest=near)
    return explanation


def meanings(format_: Format | None) -> Mapping[str, Code]:
    """Return the codes that findings of a format can have; without a format, only TF9xx."""
    return {**(format_.codes() if format_ is not None else {}), **CODES}
