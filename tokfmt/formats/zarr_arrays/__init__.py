"""One-dimensional arrays of integers in zarr stores, v2 and v3: what flat tokens and Levanter's caches are made of."""
