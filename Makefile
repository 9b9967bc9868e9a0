# Each target does all of its own set-up, in .venv; nothing outside of this directory is changed.

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= auto

# What is compiled to bytecode is kept, whatever the environment says: the tests start a hundred interpreters.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check rocq docs clean
.DELETE_ON_ERROR:

help: ## Says what can be made
	@echo "make <target>, with one of these targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Needed: Python 3.11 or newer and a C compiler. PYTHON=/path/to/python chooses the one, CC=... the other."

demo: $(VENV)/.demo ## Runs the demonstration
	$(warn_of_namesake)
	$(BIN)/atl demo

# Each process takes neighbours, which share what was derived and built for them, and helps out where it is done.
# Threads that wait for work are not to spin, on the core of another process: OpenBLAS's do for 100 ms after each use.
PYTEST = OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive \
    $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --maxprocesses=8 --dist worksteal

test: $(VENV)/.dev ## Runs some tests of each file, the doctests too (PYTEST_WORKERS=2 limits the processes)
	$(warn_of_namesake)
	$(PYTEST) -m 'not long and not slow'

test-all: test ## Runs the tests that `make test` leaves out, after those that it runs
	$(PYTEST) -m 'long and not slow'

check: $(VENV)/.dev ## Checks style, formatting, types and the layers of the packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

rocq: $(VENV)/.dev ## Proves the rules by Rocq, where coqc is found
	$(BIN)/python -m proofs_tests.rocq

docs: $(VENV)/.docs ## Builds the documents as a site, strictly, into out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

clean: ## Removes everything that was made here
	rm -rf $(VENV) build dist out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What each target needs is installed again only when pyproject.toml has changed.
$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,egraph,sparse,layouts,dev]'
	@touch $(VENV)/.demo $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(BIN)/python:
	@for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "$$python -m venv $(VENV)"; \
	        exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	    tried="$$tried\n  $$python: $$("$$python" -c 'import sys; print(sys.version.split()[0]); import venv, ensurepip' \
	        2>&1 | tail -n 2 | tr '\n' ' ')"; \
	done; \
	printf "No Python 3.11 or newer with its venv module was found. Tried:$$tried\n"; \
	echo "Install one (Debian: apt install python3 python3-venv; Fedora: dnf install python3; macOS: brew install python),"; \
	echo "or name one that you have: make PYTHON=/path/to/python3.12 ..."; \
	exit 1

# PyData's package is imported as `sparse` too, as a room of this project is: in one environment one hides the other.
define namesake
	@echo "NOTE: PyData's package sparse is installed in $(VENV). The room sparse/ of this project has the same import name,"
	@echo "and the two cannot share an environment. Run: $(BIN)/python -m pip uninstall sparse"
endef
warn_of_namesake = $(if $(wildcard $(VENV)/lib/python3*/site-packages/sparse/__init__.py),$(namesake))
