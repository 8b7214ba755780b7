"""Show a dataset: its sequences, samples, training steps and the parts of its files; and export what was found."""
