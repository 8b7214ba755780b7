"""`tokfmt stats --html`: one self-contained page, which asks nothing of the network.

    page.html  the frame    page.css  all looks, light and dark    page.js  draws the figures, keeps to the theme
    document   sections of a dataset    tables  rows and numbers    figures  what plotly.js draws, as plain JSON

The page's policy forbids every connection, so that a private dataset's page cannot leak, whatever text is in it.
"""

from tokfmt.cli.page.document import page

__all__ = ["page"]
