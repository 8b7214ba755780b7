"""Read one-dimensional integer arrays of zarr stores, v2 and v3, for flat tokens and the caches of Levanter."""
