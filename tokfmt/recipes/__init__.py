"""A recipe is a dataset that is computed, not stored: sources, how they are mixed, cut into samples and ordered.

language     the TOML file as frozen dataclasses; every error a sentence
order        permutations, the even tree of weights, which samples a rank takes at a step
axis         the sequences of a list of sources in one row, each with its separator
packing      which intervals of that row a sample is made of: stream, document, bestfit, stored
fields       input_ids, labels, loss_mask, position_ids, document_ids, cu_seqlens of some samples
samples      the reader: sequence k is sample k
documents    the reader of a recipe without `seq_len`
explain      what each source gives to the whole, as a tree
cache        arrays that are computed once a machine, and mapped by all processes
"""
