"""Prepare recipes of text: filter, compare, draw and tokenize documents, and report what is left out."""
