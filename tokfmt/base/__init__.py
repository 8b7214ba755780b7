"""What all parts stand on: options, seeds, threads, the version, and the resources of the process."""
