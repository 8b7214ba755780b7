"""The terminal browser. What knows of Textual is in app, screens and widgets; everything else is tested without it.

    remembered   what is kept of a dataset between runs              session    one opened dataset, and its views
    opening      opening in stages: at once, then in full            viewport   rows and windows of a token axis, cached
    records      the same for records that have no token axis        letters    tokens to glyphs
    layout       glyphs to lines                                     scroll     a sequence of any length, as lines
    jobs         threads that load, and are forgotten when stale     app        puts it on the screen
    tabs         which tabs there are                                screenshot a state without a terminal
"""
