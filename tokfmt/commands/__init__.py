"""The commands as functions that return data. Each package imports only those above it:

    source       open the datasets that a request names
    destination  refuse to replace or overwrite what a command must not touch
    prepare      filter, draw and tokenize recipes of text
    provenance   the ledger, which records where each sequence comes from
    compare      `tokfmt diff`
    search       `tokfmt search`
    show         `tokfmt show`, and records and samples as JSON
    info         `tokfmt info`
    convert      `tokfmt convert`
    stats        `tokfmt stats`
    check        `tokfmt check`

`tokfmt.dataset`, `tokfmt.recipe_dataset` and `tokfmt.api` import this package. They are the Python interface.
"""
