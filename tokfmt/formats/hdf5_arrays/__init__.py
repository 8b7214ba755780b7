"""Read integer datasets of untrusted HDF5 files: `data` of Cerebras, and arrays of any name.

container opens a file and locates the values, table reads rows of them, chunks decodes chunks, chunk_tree finds a few.
"""
