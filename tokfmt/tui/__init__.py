"""The terminal browser. What knows of Textual is in app, dialogs, export, tabs, widgets; the rest is tested without it.

Without Textual:
    session      one dataset, or a split of it, or one that cannot be read: opened in stages, with its tokenizer
    state        what is kept between runs: the tokenizer, bookmarks
    rows         rows and windows of a token axis, or of records; cached
    layout       tokens to glyphs, glyphs to lines, a row of any length as lines
    search       what is looked for, a search under way, its hits
    pairing      two datasets aligned as by diff, their rows in step; which tokens of two rows differ
    workers      long work in a thread, with progress
    signals      what ends the browser

With it:
    app          datasets, tabs, what is loaded; pictures of the screen, with a terminal and without
    tabs         a module each; `tabs.TABS` lists them; `tabs.base` is what a tab is, and what it sees of the app
    widgets      what several tabs have: lists, the reader, what frames the tabs
    dialogs      what lies over everything
    export       copies, and rows to a file
    browse.tcss  places and colours
    web          the same in a page
"""
