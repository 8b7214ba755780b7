"""The terminal browser, of modules without Textual, which are tested without a terminal, and modules with it.

Without Textual:
    data         the only door to the rest of tokfmt: datasets, opened in two stages
    session      one dataset or split, or one that cannot be read, opened in stages, with its tokenizer
    state        facts kept between runs: the tokenizer, the last place, queries
    rows         rows and windows of a token axis or of records, cached
    layout       tokens to glyphs, glyphs to lines, a row of any length as lines
    search       the words of a search, a running search, its hits
    pairing      two aligned datasets, their rows in step, and the tokens that differ between two rows
    catalog      the datasets below a folder or a bucket, and their facts
    saving       files that the browser writes: pictures, lists
    workers      long work in a thread, with progress
    signals      the ends of the browser: signals, a lost terminal, a lost server
    history      the places before jumps, back and forward
    clipboard    the programs that take a copied text
    widths       characters whose width terminals disagree on
    columns      columns beside those of every dataset, and the order by one
    parts        the parts of a row: its documents with their sources, its padding
    packing      how full samples are, and what a recipe takes of its sources
    prompts      the tokens at the end of prompts, and samples whose loss begins elsewhere
    links        the place in a dataset as a command that opens the browser there
    excerpts     the words around the first hit of a search
    frequency    how often each token ID is in a small dataset

With Textual:
    colors       the colors of any theme, with the contrast that text needs
    keys         the tables of keys, and which of them are of use
    app          datasets, tabs and loading; pictures of the screen, with a terminal and without
    tabs         one module per tab, listed in `tabs.TABS`; `tabs.base` defines a tab and its view of the app
    widgets      widgets that several tabs use: lists, the reader, the bars around the tabs
    dialogs      screens above the browser
    datasets     the screen of a catalog
    tokenizers   the choice of a tokenizer, and two of them side by side
    typeahead    keys that are typed ahead reach the right screen
    health       the cheap check that runs as soon as a dataset is loaded
    pictures     the screen as an SVG file
    web          the browser in a web page
    export       copies of rows, and rows written to a file
    browse.tcss  layout and colors
    web          the browser in a web page
"""
