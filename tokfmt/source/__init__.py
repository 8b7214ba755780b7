"""Open the datasets that a request names. Each module imports only those above it:

content    what a manifest states of a dataset
request    the request: paths, format, options, selection; and what a command reads of them
partial    the sequences of a damaged dataset that are certain to be complete
endings    the last token IDs of sequences, read in a few places
manifest   the manifest beside a dataset
discover   the datasets that a request names, their formats and files
stored     an opened dataset, its separator and its tokenizer
ingest     records as a token axis
open       `open_dataset`, which every command calls; its docstring lists the steps

`open_dataset` returns a `stored.Source`.
"""
