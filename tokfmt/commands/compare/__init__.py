"""Compare two datasets: fingerprints of sequences, their alignment, and `tokfmt diff`."""
