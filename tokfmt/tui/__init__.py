"""The terminal browser. What knows of Textual is in app, tabs, screens and widgets; the rest is tested without it.

Without Textual:
    opening      opening in stages: at once, then in full
    session      one opened dataset, or a split of it, or one that cannot be read: its views, its tokenizer (vocabulary)
    loading      the stages that come later; jobs: the threads they run in
    viewport     rows and windows of a token axis, cached; records: the same where there is no token axis
    letters      tokens to glyphs; layout: glyphs to lines; scroll: a row of any length as lines
    headings     a row in a line; facts: a token in full
    comparison   a walk through two datasets; pairing: which rows belong together; marks, matching: which tokens differ
    verdict      a comparison in words

With it:
    app          datasets, tabs, what is loaded      tabs          a module each; `tabs.TABS` lists them
    widgets      list, reader, detail, ...           screens       what lies over everything for a moment
    about        a dataset, and the keys, in words   *.tcss        every colour
    screenshot   a state without a terminal                 web           the same in a page
"""
