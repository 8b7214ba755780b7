"""What the codes of findings in flat tokens mean, and which of them are put right in a copy."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.core.audit import Code, Repair

_COPY = "Copy the store again."

CODES: Mapping[str, Code] = {
    "TF401": Code(
        "no store of flat tokens, or metadata that cannot be read",
        "The directory or zip holds no encoded_tokens and seq_starts, or an array's metadata are damaged or of a kind "
        "that the format does not have (other types, shapes, filters); or chunks are missing whose content nothing "
        "tells. The example in the format's documentation calls the first array tokens; trainers look for "
        "encoded_tokens. " + _COPY,
    ),
    "TF402": Code(
        "big-endian items",
        "seqax demands exactly <u4 and <u8, so it stops at this store; any other zarr reader gets the right numbers. "
        "tokfmt convert writes it again.",
    ),
    "TF403": Code(
        "max_token_id is missing or no whole number from 0 to 2^31-1",
        "Trainers compare max_token_id with their vocabulary before they start. It is absent, text, a float, or beyond "
        "what the encoding has room for. A bound of 2^31 or more means that the writer wrapped ids, which loses them: "
        "then there is nothing to repair. Otherwise tokfmt check --fix OUT sets it to the largest id.",
    ),
    "TF404": Code(
        "seq_starts is not what it must be",
        "seq_starts begins with 0, never decreases, and ends at the number of tokens. Half an append is the usual "
        "cause: the reference writer appends to both arrays at the same time and drops exceptions, so after a crash or "
        "a full disk there are tokens without starts, or starts without tokens. What was to be appended is lost; "
        "write the store again.",
    ),
    "TF405": Code(
        "start bits contradict seq_starts",
        "The lowest bit of an encoded token says that a sequence begins there, and must be set exactly at the entries "
        "of seq_starts. None set, or about half of them: ids that were stored as they are, without encoding (2 * id + "
        "start bit), so every id is half of what it was. A few: a damaged chunk (there is no checksum), or a writer "
        "that sets a bit for empty sequences. Where the largest id is exactly max_token_id, which proves that "
        "ids are encoded, and no more bits are wrong than there are sequences, tokfmt check --fix OUT sets them by "
        "seq_starts.",
    ),
    "TF406": Code(
        "ids above max_token_id",
        "Some ids are larger than the bound that the store states: a trainer with a vocabulary of that size crashes or "
        "reads beyond its embedding. Tokens were appended without raising the bound, ids wrapped, or a chunk is "
        "damaged. --tokenizer tells which of them can be; --from-opt bound=ignore reads them.",
    ),
    "TF407": Code(
        "max_token_id above every id",
        "An upper bound suffices, so this is legal; but a trainer may demand a vocabulary larger than it need be.",
    ),
    "TF408": Code(
        "absent chunks",
        "Chunk files are not there, and the metadata have a fill value, so they read as that. Writers leave out chunks "
        "of zeros on purpose; a copy that lost files looks the same.",
    ),
    "TF409": Code(
        "a damaged chunk",
        "A chunk file is shorter or longer than its header says, does not decode, or decodes to another size than a "
        "whole chunk. zarr 2 returns uninitialised memory for some of these. " + _COPY,
    ),
    "TF410": Code(
        "unsafe",
        "Reading on could execute code (numcodecs' pickle codec), leave the store (a symbolic link, a key with ..), or "
        "exhaust memory (shapes or chunks that almost no bytes stand for). tokfmt has done none of it. Do not open the "
        "store with zarr; find out where it comes from.",
        unsafe=True,
    ),
    "TF411": Code(
        "consolidated metadata out of date",
        "A copy of all metadata in one file shows another shape than the array's own. Appending leaves it behind; "
        "zarr-python 3 believes it and silently shows the old length, zarr 2 does not look at it. Remove it "
        "(.zmetadata, or consolidated_metadata in zarr.json), or consolidate again.",
    ),
    "TF412": Code(
        "chunk files beyond the shape",
        "Files that no reader looks at, left by an append that was undone or that crashed before it wrote the shape.",
    ),
    "TF413": Code(
        "a group without metadata",
        "A directory lacks its .zgroup (or zarr.json), so zarr does not open it; the arrays in it are whole. "
        "`cp X.zarr/* Y.zarr` leaves such files behind.",
    ),
    "TF414": Code(
        "an array without splits",
        "A bare array is legal, but seqax opens root['train'] and root['validation']. "
        "tokfmt convert ... --split train writes one.",
    ),
    "TF415": Code(
        "ids that seem to have wrapped",
        "max_token_id is 32,768 or more, and no id reaches that. The reference writer takes uint16 ids as they are, "
        "and doubling them in 16 bits loses the highest bit: id 40000 is stored as 7232, silently. What was lost is "
        "not in the store. Encode uint32 ids, and write it again.",
    ),
    "TF417": Code(
        "a zip",
        "zarr 2 opens a zipped store by its suffix, zarr 3 only as a ZipStore; trainers do not.",
    ),
    "TF418": Code(
        "a split without tokens",
        "seqax stops at a split that does not fill one read block. Leave the split out, or fill it.",
    ),
}

PATCHES: Mapping[str, Repair] = {
    "TF403": Repair("max_token_id was set to the largest id"),
    "TF405": Repair("start bits were set by seq_starts"),
    "TF407": Repair("max_token_id was set to the largest id"),
}
