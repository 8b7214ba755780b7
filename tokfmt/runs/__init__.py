"""The samples that a training run of another framework read, in its order, as a dataset."""
