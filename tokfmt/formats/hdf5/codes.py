"""What the codes of findings in HDF5 samples mean, and which of them are put right in a copy."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.core.audit import Code, Repair

_COPY = "Copy the file again, or write it again."

_FILES = {
    "TF301": Code(
        "no file to check",
        "Trainers read the *.h5 files at the top level of a directory, case-sensitive: .hdf5, .H5 and sub-directories "
        "are not seen. There is none. Name the files one by one, or rename them.",
    ),
    "TF302": Code(
        "not named *.h5",
        "Trainers look for *.h5 only, so they do not find this file, without a word when others are beside it. Rename "
        "it.",
    ),
    "TF303": Code(
        "damaged, or no HDF5 file",
        "The signature, the superblock or the headers of the dataset are not what HDF5 writes, or chunks are missing, "
        "which would read as zeros. A failed copy, or a writer that was killed. " + _COPY,
    ),
    "TF304": Code(
        "the file was cut",
        "The superblock says how long the file is, and it is shorter: a copy was cut, or the writer did not finish. "
        + _COPY,
    ),
    "TF305": Code(
        "unsafe",
        "Reading 'data' would reach out of the file, or take far more memory than the file has bytes: a soft or "
        "external link, a virtual dataset, external storage, chunks that inflate without bounds. h5py would return "
        "bytes of any file on the machine as tokens. tokfmt does not. Find out where the file comes from; h5repack "
        "makes one self-contained file of a good one.",
        unsafe=True,
    ),
    "TF306": Code(
        "a kind of data that is not read",
        "'data' is not an integer array of rank 3 (samples) or 1 (a corpus), or is compressed with a filter that "
        "needs a plug-in. h5repack -f GZIP=4 changes the filter; anything else needs its own conversion.",
    ),
    "TF307": Code(
        "samples of another kind",
        "The rows are not GPT samples (3 fields) or packed sequences (5): DPO has 6, MLM 2 beside /labels, and so on. "
        "Their fields mean other things. --from-opt view=samples reads the first field as it is.",
    ),
    "TF308": Code(
        "n_examples is missing or wrong",
        "The attribute n_examples says how many samples a file holds. Without it iterable trainers stop with KeyError; "
        "if it is too large, with IndexError; if it is too small, they silently drop the rest. A writer that was "
        "killed leaves it out. The samples that are there decode, so their number is certain: "
        "tokfmt check --fix OUT sets it.",
    ),
    "TF309": Code(
        "no samples, or samples of no tokens",
        "The dataset has a dimension of length 0. A file without samples comes from a rank that got no documents; "
        "samples without tokens are damage.",
    ),
    "TF310": Code(
        "tokfmt's own attributes are not true",
        "Files that tokfmt writes carry stride, eos_id, first_token and stream_tokens, so that documents can be put "
        "together again without guessing. Here they contradict the samples: a file was changed after it was written. "
        "Delete them, or say --from-opt stride=overlap or disjoint.",
    ),
    "TF311": Code(
        "files with rows of different shapes",
        "Files of a directory differ in sample length or number of fields. Map-style trainers refuse the directory, "
        "iterable ones fail when a batch mixes both. Keep datasets of one shape in a directory.",
    ),
    "TF312": Code(
        "files with ids of different types",
        "Files of a directory hold integers of different width, sign or byte order. Map-style trainers refuse that.",
    ),
    "TF313": Code(
        "a corpus beside samples",
        "A corpus (rank 1) and samples (rank 3) in one directory are two datasets; no trainer reads both. Separate "
        "them.",
    ),
}

_LAYOUT = {
    "TF321": Code(
        "chunks that are not one sample",
        "Trainers read samples at random, and a chunk is decoded whole. h5py's automatic chunks made files 1.8 times "
        "as large and cost 76 times the CPU a sample, (1000, 3, n) 450 times. h5repack -l changes the chunks.",
    ),
    "TF322": Code(
        "not compressed",
        "Labels repeat input_ids, so deflate halves samples and more. Nothing is wrong with the tokens. "
        "h5repack -f GZIP=4 compresses them.",
    ),
    "TF323": Code(
        "ids of an unusual type",
        "Samples are int32. Trainers cast whatever they find to int32 without a look at what is lost: int64 is cut, "
        "uint16 wastes nothing but is not expected.",
    ),
    "TF324": Code(
        "needs the newest HDF5",
        'The file was written with libver="latest" (or in SWMR mode): older HDF5 libraries, as in trainers\' '
        "containers, cannot open it. h5repack --low=0 --high=1 writes the old superblock.",
    ),
    "TF325": Code(
        "numbers in names are not padded",
        "Trainers sort names as text and read -1, -10, -11, -2; a document that goes on in the next file is cut then. "
        "tokfmt reads in the order of the numbers (order=writer); order=trainer reads as they do.",
    ),
    "TF326": Code(
        "no sample in any file",
        "All files of the directory are empty; iterable trainers stop with OverflowError. Usually every document was "
        "filtered out, or none was found: look at the log of the preprocessing.",
    ),
    "TF327": Code(
        "one file for several tasks",
        "HDF5IterableDataset deals out whole files to tasks (files[rank::tasks]): with one file all tasks but one have "
        "nothing. Write at least as many files as tasks, of nearly the same size: --to-opt samples=N.",
    ),
    "TF328": Code(
        "data_params.json cannot be read",
        "The file that says which ids are separator and padding, and how large the vocabulary is, is no JSON, or far "
        "too large. tokfmt goes on without it; name the separator with --eos.",
    ),
}

_CONTENT = {
    "TF331": Code(
        "a damaged chunk",
        "A chunk does not inflate to exactly one chunk, or its checksum is wrong. Plain h5py raises, or returns "
        "uninitialised memory as tokens when a chunk is short. " + _COPY,
    ),
    "TF332": Code(
        "negative ids",
        "An id below 0 among input_ids, or among labels other than -100: 2^31 or more was cast to int32, or the file "
        "is damaged. A trainer indexes its embedding from the end, or crashes.",
    ),
    "TF333": Code(
        "ids beyond the vocabulary",
        "An id is not in the vocabulary that data_params.json names: tokenized with another tokenizer, special tokens "
        "added later, or damage.",
    ),
    "TF334": Code(
        "mask values other than 0 and 1",
        "The mask row is a loss mask of zeros and ones. Fractional loss weights become 0 when they are stored as "
        "integers, so what was meant is lost.",
    ),
    "TF335": Code(
        "padding that counts",
        "After padding has begun the mask is 1 again: the loss counts padding. The writer, or a program that changed "
        "the mask, is wrong.",
    ),
    "TF336": Code(
        "labels that are not shifted",
        "labels repeat input_ids, as Hugging Face collators leave them for the model to shift. Trainers of this format "
        "do not shift: the model learns to copy its input. labels[k] must be input_ids[k + 1].",
    ),
    "TF337": Code(
        "labels that are not the next tokens",
        "A label is neither the next input nor -100 (no loss). The rows of a sample do not belong together: "
        "they were shuffled or cut apart from each other, or the file is damaged. Write it again.",
    ),
    "TF338": Code(
        "samples that count nowhere",
        "The mask leaves out every position: the sample costs a step and adds nothing. Fine-tuning data with a prompt "
        "longer than the sample looks like that.",
    ),
    "TF339": Code(
        "segments that are none",
        "In packed sequences (VSL) position_ids count up from 0 and attention_span counts down to 0 in each segment. "
        "Here they do not, so attention would reach across documents or beyond the sample.",
    ),
    "TF340": Code(
        "an inverted mask",
        "The mask is 1 on padding (inverted_mask=True in the writer). Trainers of today take 1 as counted: the loss "
        "counts only padding. Which is meant is for you to say: --from-opt mask=loss or mask=inverted.",
    ),
    "TF341": Code(
        "no separator",
        "The separator that data_params.json or --eos names does not occur: another id separates documents, or none "
        "does.",
    ),
    "TF342": Code(
        "separators only at the ends of samples",
        "The new preprocessing pipeline of ModelZoo R2.10 packs documents into disjoint windows without a separator "
        "between them, and overwrites the last token of a document's last full window with one. Documents cannot be "
        "told apart any more, and a token is lost in each of those windows; a model learns to run on from one document "
        "into the next. Preprocess the text again with split_text_to_tokenize, or with another tool.",
    ),
    "TF343": Code(
        "masks of both kinds",
        "Some samples have a mask that is 1 on padding, others one that is 0 there: files of two writers were mixed. "
        "No setting reads both right. Write the dataset again.",
    ),
}

CODES: Mapping[str, Code] = {**_FILES, **_LAYOUT, **_CONTENT}

PATCHES: Mapping[str, Repair] = {"TF308": Repair("n_examples was set to the number of samples")}
