"""Commands as functions that return data, and what they share. Each package imports only those above it:

    source       get from a request to an opened dataset
    destination  what a command may replace, and what it must not touch
    prepare      recipes of text made tokens
    ledger       the file that says where each sequence came from
    compare      `tokfmt diff`
    look         `tokfmt show`, search and export
    convert      `tokfmt convert`
    stats        `tokfmt stats`
    check        `tokfmt check`

`tokfmt.dataset`, `tokfmt.recipe_dataset` and `tokfmt.api` stand above this package: they are the Python interface.
"""
