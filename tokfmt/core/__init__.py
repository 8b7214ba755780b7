"""The vocabulary: the token axis, readers and writers, options, files, publication, errors. Imports numpy only."""
