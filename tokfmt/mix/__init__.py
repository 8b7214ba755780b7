"""Compute datasets from recipes: a recipe lists sources, and how they are mixed, cut into samples and ordered.

language     the TOML file as frozen dataclasses
documents    the joined axis of sources, quotas, and the reader of a recipe without `seq_len`
order        permutations, the tree of weights, and the samples that a rank takes at a step
packing      the intervals of the axis in a sample: stream, document, bestfit, stored
samples      the reader of a recipe with `seq_len`: sequence k is sample k
fields       the arrays of samples: input_ids, labels, loss_mask, position_ids, document_ids, cu_seqlens
amounts      the contribution of each source to a recipe, or to a range of it
tree         the same as the rows of `tokfmt recipe`, with the sources of recipes
cache        arrays that are computed once per machine, and mapped by all processes
"""
