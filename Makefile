# Each target sets up .venv as needed. Nothing outside of this directory is changed.

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= auto

# Keep bytecode even if the environment disables it: the tests start a hundred interpreters.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check rocq docs clean
.DELETE_ON_ERROR:

help: ## List the targets
	@echo "make <target>, with one of these targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Required: Python 3.11 or newer (choose with PYTHON=...) and a C compiler (choose with CC=...)."

demo: $(VENV)/.demo ## Run the demonstration
	$(warn_of_namesake)
	$(BIN)/atl demo

# Neighbouring tests share derivations and builds, so each process gets a block of them; idle processes steal work.
# Idle threads must not spin on another process's core. Those of OpenBLAS spin for 100 ms after each use.
PYTEST = OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive \
    $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --maxprocesses=8 --dist worksteal

test: $(VENV)/.dev ## Run a selection of the tests, and all doctests (PYTEST_WORKERS=2 limits the processes)
	$(warn_of_namesake)
	$(PYTEST) -m 'not long and not slow'

# In two runs, since the memory of a test process is limited.
LONG := -m 'long and not slow' $(if $(PART),--part $(PART))
HALF := proofs_tests/[a-m]*
test-all: test ## Run all tests except very long ones (PART=1/2 runs the first of two parts of the long tests)
	$(PYTEST) $(LONG) $(HALF)
	$(PYTEST) $(LONG) --ignore-glob='$(HALF)'

check: $(VENV)/.dev ## Check style, formatting, types and the layers of the packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

rocq: $(VENV)/.dev ## Prove the rules by Rocq, if coqc is installed
	$(BIN)/python -m proofs_tests.rocq $(if $(PART),--part $(PART))

docs: $(VENV)/.docs ## Build the documentation as a web site in out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

clean: ## Remove everything that make has created
	rm -rf $(VENV) build dist out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Dependencies are installed again only if pyproject.toml has changed.
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
	echo "or choose one: make PYTHON=/path/to/python3.12 ..."; \
	exit 1

# PyData's package `sparse` has the same import name as ours, so one would hide the other.
define namesake
	@echo "NOTE: PyData's package sparse is installed in $(VENV). It has the same import name as sparse/ of this project,"
	@echo "so both cannot be in one environment. Run: $(BIN)/python -m pip uninstall sparse"
endef
warn_of_namesake = $(if $(wildcard $(VENV)/lib/python3*/site-packages/sparse/__init__.py),$(namesake))
