"""Read integer datasets of untrusted HDF5 files: those of the format hdf5 (Cerebras), and those of the format array.

container opens a file and locates the values, table reads rows of them, chunks decodes chunks, chunk_tree finds them.
"""
