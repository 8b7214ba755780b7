"""The terminal browser.

Without Textual:
    data         what is shown, and the only door to the rest of tokfmt
    signals      the ends of the browser: signals, a lost terminal
    clipboard    the programs that take a copied text
    widths       characters whose width terminals disagree on
    pictures     the screen as an SVG file

With Textual:
    colors       the colors of any theme, with the contrast that text needs
    keys         the tables of keys, and which of them are of use
    app          datasets, tabs and loading; pictures of the screen, with a terminal and without
    tabs         one module per tab, listed in `tabs.TABS`; `tabs.base` defines a tab and its view of the app
    widgets      widgets that several tabs use: lists, the reader, the bars around the tabs
    dialogs      screens above the browser
    datasets     the screen of a catalog
    work         long work beside the screen, the last of each kind
    typeahead    keys that are typed ahead reach the right screen
    browse.tcss  layout and colors
"""
