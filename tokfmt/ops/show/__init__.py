"""Looking at a dataset: sequences, samples, parts of files; searching it, and taking along what was found."""
