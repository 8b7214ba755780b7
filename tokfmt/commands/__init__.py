"""The commands as functions that return data. Each package imports only those above it:

    guards       refuse to replace or overwrite what a command must not touch
    compare      `tokfmt diff`
    search       the queries of `tokfmt show` and of the browser
    show         `tokfmt show`, and records and samples as JSON
    info         `tokfmt info`
    convert      `tokfmt convert`
    stats        `tokfmt stats`
    check        `tokfmt check`

What they need of recipes, they import from `tokfmt.mix`. `tokfmt.dataset`, `tokfmt.recipe_dataset` and `tokfmt.api`
import this package. They are the Python interface.
"""
