# Two commands for everybody: `make demo` and `make test`. Both set up .venv when it is missing.
# Paths stay relative, so that a checkout whose path has spaces works.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test lint bench bench-quick docs clean

help:
	@echo "make demo   set up .venv and run the demo"
	@echo "make test   set up .venv with development tools, check the code and run all tests"
	@echo "make lint   ruff, mypy --strict and the import layers"
	@echo "make bench  run the benchmarks and write benchmarks/results (DATA=FOLDER: public datasets)"
	@echo "make bench-quick  run a tiny version of each, and leave benchmarks/results alone"
	@echo "make docs   generate the reference pages and build the site into site/"
	@echo "make clean  remove .venv and caches"

demo: .venv/user
	@echo "== demo: the output goes to sottovoce-demo/"
	@$(BIN)/python -m sottovoce demo

test: lint
	@echo "== tests"
	@$(BIN)/python -m pytest -n auto --maxprocesses 4

lint: .venv/developer
	@echo "== ruff"
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@echo "== mypy --strict"
	@$(BIN)/python -m mypy
	@echo "== import layers"
	@$(BIN)/lint-imports

# Every benchmark runs, also after one that failed (see benchmarks/README.md). QUICK=1: tiny ones.
bench: .venv/developer
	@$(BIN)/python benchmarks $(if $(QUICK),--quick) $(if $(DATA),--data "$(DATA)")

bench-quick:
	@$(MAKE) --no-print-directory bench QUICK=1

docs: .venv/developer
	@$(BIN)/python -m docs.generators
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf site .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python:
	@echo "== making the virtual environment .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sottovoce needs Python 3.11 or newer; set PYTHON=...")'
	@$(PYTHON) -m venv .venv

.venv/user: pyproject.toml constraints.txt | .venv/bin/python
	@echo "== installing sottovoce into .venv (a few minutes the first time)"
	@$(PIP) install --quiet --constraint constraints.txt --editable ".[bert]"
	@touch $@

.venv/developer: pyproject.toml constraints.txt | .venv/bin/python
	@echo "== installing sottovoce and its development tools into .venv"
	@$(PIP) install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@ .venv/user
