"""Side-by-side benchmarks against the peers' methods; `make bench` prints ratios of one run."""
