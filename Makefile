# Everything here starts from nothing but python3 (3.11 or later), its venv module and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo study test test-all lint format bench mutants docs clean

demo: $(VENV)/.installed
	rm -rf build/demo
	$(BIN)/psephos demo --output build/demo

study: $(VENV)/.installed-watch
	$(BIN)/psephos study try

# What takes long; pyproject.toml says what each of them is.
TIERS := browser or nats or site or packaging or soak or statistical or mutants

test: $(VENV)/.installed-test
	$(BIN)/pytest -n auto --dist worksteal -m "not ($(TIERS))"

test-all: $(VENV)/.installed-test
	$(BIN)/pytest -n auto --dist worksteal

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.run

mutants: $(VENV)/.installed-mutants
	$(BIN)/python -m tests.mutation run $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict -f docs/config/mkdocs.yml

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Psephos needs Python 3.11 or later; run make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml setup.py protocol/paillier/ifma.c
	@echo "Installing into $(VENV), once; one to three minutes, most of it for NumPy, SciPy, pandas and scikit-learn:"
	$(BIN)/python -m pip install --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-%: $(BIN)/python pyproject.toml setup.py protocol/paillier/ifma.c
	@echo "Installing into $(VENV), with what 'make $*' needs, once; some minutes:"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
