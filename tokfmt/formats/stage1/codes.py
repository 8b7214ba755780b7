"""What the codes of findings in stage-1 blocks mean."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.core.audit import Code

_ANEW = "Nothing in a block tells what is missing, so tokfmt does not repair it."

CODES: Mapping[str, Code] = {
    "TF201": Code(
        "no blocks in the directory",
        "Blocks are named stage1_block_0000.bin, stage1_block_0001.bin and so on, directly in the directory. There is "
        "none. Name the right directory, or the files themselves.",
    ),
    "TF202": Code(
        "a block cannot be read",
        "A block is no regular file, may not be read, or the disk reports an error while it is. Check permissions, or "
        "copy it again.",
    ),
    "TF203": Code(
        "two blocks of one number",
        "Two files have the same number (stage1_block_1.bin beside stage1_block_0001.bin). The stream is the "
        "concatenation in order of number, so one of them would be read twice or in the wrong place. Keep one.",
    ),
    "TF204": Code(
        "a block is missing",
        "Numbers of blocks do not follow on each other. Documents run on across blocks, so the stream is broken there: "
        "a download that was not finished. Fetch the missing block. Naming blocks one by one reads them as they are.",
    ),
    "TF205": Code(
        "an empty block",
        "A block without a byte: an interrupted copy, or a packer that had nothing more to write. Copy it again, or "
        "remove it if it is the last one.",
    ),
    "TF206": Code(
        "a block ends inside a token",
        "A block is whole int32 tokens, and the size is no multiple of 4: a copy was cut. " + _ANEW + " Copy it again; "
        "--drop tail reads up to the last whole token.",
    ),
    "TF207": Code(
        "a block ends with a partial sample",
        "A block is whole samples of 8,192 tokens. This one ends within one: it was cut at a token border, or its "
        "samples have another length (--from-opt seq_len=N).",
    ),
    "TF208": Code(
        "a block that is not the last is short",
        "Only the last block may be shorter than the others. An earlier one that is shorter was cut, and the document "
        "at its end runs on into the wrong tokens. Copy it again.",
    ),
    "TF209": Code(
        "a block of zeros",
        "Everything that was looked at is 0: a file that was allocated and never written, or a sparse file whose holes "
        "were not copied. Copy it again.",
    ),
    "TF210": Code(
        "zeros at the end of a block",
        "Padding is the separator, never 0. Zeros at the end are space that a copy or a download had reserved and not "
        "filled. Copy it again.",
    ),
    "TF211": Code(
        "big-endian ids",
        "Tokens are little-endian int32. Here most are 2^24 or more as they stand, and plausible when their bytes are "
        "swapped: written on, or for, a big-endian machine. numpy.fromfile(f, '>i4').astype('<i4').tofile(g) swaps.",
    ),
    "TF212": Code(
        "uint16 ids read as int32",
        "Most ids are 65,536 or more, of the form a*65536+b: two 16-bit ids in each. The file is a stream of uint16 "
        "(as nanoGPT writes it) under the name of a block. Convert it from the format that it is in.",
    ),
    "TF213": Code(
        "negative ids",
        "An id below 0: 2^31 or more was wrapped by a cast to int32, or the file is damaged, or an ignored label "
        "(-100) got in. A trainer would index its embedding from the end, or crash. Write the block again.",
    ),
    "TF214": Code(
        "ids beyond GPT-2's vocabulary",
        "Stage-1 blocks are made with GPT-2's tokenizer, whose last id is the separator 50256. Higher ids beside that "
        "separator come from another tokenizer or from damage. --tokenizer NAME compares with the right vocabulary.",
    ),
    "TF215": Code(
        "no separator",
        "No token that was looked at is the separator (50256 unless --eos says otherwise), so documents cannot be told "
        "apart. Either another id separates them (--eos ID), or the packer joined documents without one: then a model "
        "learns to run on from one document into the next, and the text has to be packed again.",
    ),
    "TF216": Code(
        "too many separators",
        "A quarter of the tokens or more are the separator. Samples were padded with it one by one, or most documents "
        "are empty: a large share of training time goes into padding. Pack the text again.",
    ),
    "TF217": Code(
        "two blocks are the same",
        "Two blocks hold the same bytes: one was copied to the wrong name, and what belongs there is missing; or a "
        "packer was run twice over the same text. Without --deep three places of each are compared.",
    ),
    "TF218": Code(
        "padding inside",
        "Runs of the separator are padding, and only the end of the last sample is padded, since what does not fill a "
        "sample is carried into the next. A long run elsewhere means that samples were padded one by one, or documents "
        "are empty; reading drops such runs.",
    ),
}
