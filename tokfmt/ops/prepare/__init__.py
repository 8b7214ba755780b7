"""Recipes of text made tokens: documents filtered, compared, drawn and tokenised, with nothing lost in silence."""
