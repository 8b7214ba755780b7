"""How much the fuzzers do: 10,000 mutations in `make test`, FUZZ of them in `make fuzz`."""

import os

NIGHTLY = bool(os.environ.get("FUZZ"))
MUTATIONS = int(os.environ.get("FUZZ") or 10_000)
