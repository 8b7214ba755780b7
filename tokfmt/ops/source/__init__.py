"""Get from a request to an opened dataset, as every command does. Each module imports only those above it:

request    what a user asks of sources: paths, format, options, selection
partial    the sequences of a damaged dataset that are certain to be whole
endings    how the sequences of a dataset end, from looks at a few places
manifest   the manifest beside a dataset
discover   the datasets that a request names, their formats and files
opened     an opened dataset, its separator and its tokenizer
ingest     records as a token axis
draft      a recipe of text before it is prepared
recipe     the sources of a recipe, and the reader of its result
open       the functions that commands call: `open_sources`, `open_one`, `open_recipe`

`opened.Source` is what the last of them return.
"""
