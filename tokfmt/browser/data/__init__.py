"""What the browser shows, without a terminal: only these modules know the rest of tokfmt.

opening      datasets, opened as far as a screen needs them
session      one dataset or split, or one that cannot be read, opened in stages, with its tokenizer
rows         rows and windows of a token axis or of records, cached
layout       tokens to glyphs, glyphs to lines, a row of any length as lines
facts        the facts about a token, with the frequency of its ID in a small dataset
cells        the cells of tables, and the models of tables
lines        the lines of a table: facts, lengths, token IDs, groups of equal rows
overview     what is counted of a dataset, and its facts
outline      the parts of files with their findings and fields, and the bytes with their tokens
search       the words of a search, a running search, its hits
excerpts     the words around the first hit of a search
columns      columns beside those of every dataset, and the order of the list
batch        the samples of a training step
packing      how full samples are, and what a recipe takes of its sources
prompts      the tokens at the end of prompts, and samples whose loss begins elsewhere
parts        the parts of a row: its documents with their sources, its padding
check        the check of a dataset
catalog      the datasets below a folder or a bucket, and their facts
answers      the places that a typed line names
spots        places: as words, as a command that opens the browser there, and the way back
copies       copies of rows, and rows that are written to a file
saving       files that the browser writes: pictures, lists
state        facts kept between runs: the tokenizer, the last place, queries
workers      long work in a thread, with progress
types        the types of tokfmt that screens pass on
"""
