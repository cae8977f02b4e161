# Two commands are all a newcomer needs: `make compare` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: compare test lint clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

.venv/bin/python:
	@echo "Setting up .venv (one time, about a minute)"
	@$(PYTHON) -m venv .venv

.venv/.compare: .venv/bin/python pyproject.toml constraints.txt
	@$(PIP) -e '.[compare]' && touch $@

.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	@$(PIP) -e '.[dev]' && touch $@

compare: .venv/.compare ## Set up, then train, test and report: which encoding holds past its training length
	@$(BIN)/posenc compare --preset quick --output study

test: .venv/.dev ## Set up, then run the tests
	@$(BIN)/python -m pytest

lint: .venv/.dev ## Check style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

clean: ## Remove the environment and everything built
	@rm -rf .venv study site .pytest_cache .mypy_cache .ruff_cache .hypothesis
