"""The formats of tokfmt: one module or package each, with byte table, options, inspection, writer, codes and `FORMAT`.

The others are parts of several: `flat` and `shards` (files of token IDs, with an index or separators), `record_files`,
`folders`, `files_ahead`, `index_ends`, `npy`, `zstd_frames`, `pickled_index`, `chunks` and `codecs` (arrays in chunks),
`hdf5_arrays` and `zarr_arrays` (where these chunks are), and `cells` (such arrays as the files of a flat format).
`registry.BUILT_IN` says which files are shown to which format. `arrow` has Parquet too.
"""
