# Everything here starts from nothing but python3 (3.11 or later), its venv module and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := report parquet onnx dask nats watch ray
ALL_EXTRAS := [$(shell echo $(EXTRAS) | tr ' ' ,)]

.PHONY: demo study test test-all test-floors lint format bench docs wheels sbom clean

demo: $(VENV)/.installed
	rm -rf build/demo
	$(BIN)/psephos demo --output build/demo

study: $(VENV)/.installed-watch
	$(BIN)/psephos study try

# What takes long; pyproject.toml says what each of them is.
TIERS := browser or nats or site or packaging or soak or statistical or mutants or slow

# Processes run tests side by side; threads of linear algebra in each would only wait for each other.
test test-all test-floors: export OMP_NUM_THREADS := 1
# The tests start some hundred processes; without stored bytecode each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

# Its properties are tried on fixed cases (tests/conftest.py); those of `make test-all` are drawn anew.
test: $(VENV)/.installed-test
	$(BIN)/pytest -n auto --dist worksteal --randomly-seed=1 -m "not ($(TIERS))"

test-all: $(VENV)/.installed-test
	$(BIN)/pytest -n auto --dist worksteal

# The tests with the oldest versions that pyproject.toml allows of what the package depends on. Some of these warn about
# the newest versions of what they depend on themselves, which is not pinned: it has to suit the tests' tools, too.
FLOORS := build/floors
test-floors: $(VENV)/.installed-floors
	mkdir -p build
	$(BIN)/uv pip compile --quiet --upgrade --no-deps --resolution lowest-direct --python-version 3.11 $(EXTRAS:%=--extra %) \
	  --output-file $(FLOORS).txt pyproject.toml
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(FLOORS)
	$(BIN)/uv pip install --python $(FLOORS) --constraint $(FLOORS).txt --editable '.$(ALL_EXTRAS)' --group test httpx
	$(FLOORS)/bin/pytest -n auto --dist worksteal -W ignore::DeprecationWarning -m "not ($(TIERS))"

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.run $(if $(DATA),--data-dir $(DATA))

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict -f docs/config/mkdocs.yml

# For this machine, and one without C extensions for every other; `cibuildwheel` builds those of other platforms.
wheels: $(VENV)/.installed-wheels
	$(BIN)/python -m build
	PSEPHOS_PURE=1 $(BIN)/python -m build --wheel

# What an installation consists of, in the format of CycloneDX.
sbom: $(VENV)/.installed-sbom
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/sbom
	$(BIN)/uv pip install --quiet --python build/sbom '.$(ALL_EXTRAS)'
	mkdir -p dist
	$(BIN)/cyclonedx-py environment build/sbom --mc-type library --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/psephos.cdx.json

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Psephos needs Python 3.11 or later; run make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)

INSTALLED := $(BIN)/python pyproject.toml setup.py protocol/paillier/ifma.c protocol/proofs/field.c

$(VENV)/.installed: $(INSTALLED)
	@echo "Installing into $(VENV), once; one to three minutes, most of it for NumPy, SciPy, pandas and scikit-learn:"
	$(BIN)/python -m pip install --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-watch: $(INSTALLED)
	@echo "Installing into $(VENV), with what 'psephos watch' needs, once; some minutes:"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[watch]'
	@touch $@

# Besides the package: the extras that a target uses, and the dependency group of its name.
EXTRAS_test := $(ALL_EXTRAS)
EXTRAS_lint := [report,dask,nats,watch]
EXTRAS_bench := [report]

$(VENV)/.installed-%: $(INSTALLED)
	@echo "Installing into $(VENV), with what 'make $*' needs, once; some minutes:"
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --upgrade 'pip>=25.1' # reads dependency groups
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.$(EXTRAS_$*)' --group $*
	@touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
