# make demo   sets up and runs the main job on files in fixtures/
# make test   sets up and passes all tests, lint, types and import contracts
# make fuzz   the fuzzers and the survival harness at length (FUZZ=1000000 mutations, every fault at every moment)
# make bench  prints ratios against the peers' methods
# make lint   ruff, mypy, import-linter

UV_VERSION := 0.13.8
BIN := .venv/bin
UV := .venv/uv/bin/uv
STAMP := .venv/.synced
export PYTHONDONTWRITEBYTECODE :=
PYTEST_JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: demo test fuzz bench lint format clean setup

setup: $(STAMP)

$(UV):
	@command -v $${PYTHON:-python3} >/dev/null || { echo "tokfmt needs python3 (3.11 or newer) on PATH"; exit 1; }
	@$${PYTHON:-python3} -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tokfmt needs Python 3.11 or newer; set PYTHON=/path/to/python3.x"; exit 1; }
	$${PYTHON:-python3} -m venv .venv
	$${PYTHON:-python3} -m venv .venv/uv
	.venv/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(STAMP): $(UV) pyproject.toml uv.lock
	$(UV) sync --quiet --frozen --all-extras --python $(BIN)/python
	@touch $@

demo: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash fixtures/demo.sh

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: $(STAMP) lint
	@tests/system.sh
	$(BIN)/python -m pytest -n $(PYTEST_JOBS)

fuzz: $(STAMP)
	FUZZ=$(or $(FUZZ),1000000) $(BIN)/python -m pytest -n $(PYTEST_JOBS) tests/fuzz tests/survival tests/unit/test_pickled_index.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ONLY)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
