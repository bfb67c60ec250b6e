# Everything runs inside .venv, which the first target that needs it creates.
# PYTHON=… chooses the interpreter, WORKERS=… the number of test processes, TORCH=… a requirement
# for PyTorch (such as torch==2.13.0) that is installed first, and Opacus with it, held to the same
# torch; without it their tests are skipped.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null </dev/null \
	&& echo $$p && break; done)
WORKERS ?= auto
TORCH ?=
OPACUS := opacus>=1.5
BIN := .venv/bin
STAMP := .venv/.installed
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# Several test processes share the cores already; BLAS must not multiply them.  A file stays in one
# process, so that what its tests share is made once.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Rewritten tests are kept between runs, and commands that tests start need not compile us again.
export PYTHONDONTWRITEBYTECODE :=
export NO_MKDOCS_2_WARNING := 1

.PHONY: help study serve test test-long test-oldest constraints check docs wheel paper bench clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

study: $(STAMP) ## certify, audit and protect on the embedded data: reports/study/report.html
	@$(BIN)/memberbound study --out reports/study --force

serve: $(STAMP) ## the web calculator on this machine
	@$(BIN)/memberbound serve

test: $(STAMP) ## the tests and the doctests of src (without those marked long); the same every time
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-long: $(STAMP) ## the tests marked long, and property tests with new random examples
	MEMBERBOUND_EXAMPLES=explore $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "long or hypothesis"

# The oldest versions that pyproject.toml allows of what memberbound needs, with today's test tools.
OLDEST := .venv-oldest/bin
test-oldest: ## import and a part of the tests with the oldest dependencies allowed
	@if [ ! -x $(OLDEST)/python ]; then "$(PYTHON)" -m venv .venv-oldest; fi
	@$(OLDEST)/python -m pip install -qq uv
	@$(OLDEST)/uv pip compile -q --resolution lowest-direct --no-header pyproject.toml \
		--extra web --extra skops --extra dask -o .venv-oldest/oldest.txt
	@$(OLDEST)/uv pip install -q --python $(OLDEST)/python -r .venv-oldest/oldest.txt \
		'pytest>=8.3' pytest-xdist hypothesis mpmath polars httpx jsonschema
	@$(OLDEST)/uv pip install -q --python $(OLDEST)/python --no-deps --editable .
	$(OLDEST)/python -m pytest -n $(WORKERS) tests/numerics tests/curve tests/iid tests/tables \
		tests/verbs/test_certify.py tests/verbs/test_explain.py tests/attacks/test_cache.py \
		tests/release/test_saving.py tests/report/test_model.py

constraints: ## resolve constraints.txt anew
	@if [ ! -x .venv-oldest/bin/uv ]; then "$(PYTHON)" -m venv .venv-oldest; \
		$(OLDEST)/python -m pip install -qq uv; fi
	@grep '^#' constraints.txt > .venv-oldest/head.txt
	@$(OLDEST)/uv pip compile -q --python-version 3.11 --no-header --no-annotate pyproject.toml \
		--extra web --extra skops --extra dask --extra accounting --extra mlflow \
		-o .venv-oldest/new.txt
	@cat .venv-oldest/head.txt .venv-oldest/new.txt > constraints.txt

check: $(STAMP) ## ruff, its formatter, mypy, the order of imports and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

docs: $(STAMP) ## the documentation, into site/
	$(BIN)/mkdocs build --strict 2>&1 | { grep -vE "^INFO" || true; }
	@echo "documentation: site/index.html"

wheel: $(STAMP) ## the wheel, tried in an environment of its own: dist/
	@rm -rf dist build/fresh
	@$(BIN)/python -m pip wheel -qq --no-deps --wheel-dir dist .
	@$(BIN)/python -m venv build/fresh
	@wheel=$$(ls dist/*.whl); build/fresh/bin/python -m pip install -qq "$$wheel[web,skops]"
	@cd build && fresh/bin/memberbound explain --epsilon 1 --json >/dev/null && \
		fresh/bin/memberbound study --out trial --force --shadows 8 >/dev/null 2>&1 && \
		fresh/bin/python -c "from memberbound.faces.web.application import application; application()"
	@echo "wheel: $$(ls dist/*.whl), tried: explain, study, the web application"

paper: ## the JOSS paper as a page, with pandoc: build/paper.html
	@mkdir -p build
	@pandoc paper/paper.md --citeproc --bibliography paper/paper.bib --fail-if-warnings -s -o build/paper.html
	@echo "paper: build/paper.html"

bench: $(STAMP) ## every script in benchmarks/, one after the other
	@shopt -s nullglob; scripts=(benchmarks/*.py); \
	if [ $${#scripts[@]} -eq 0 ]; then echo "benchmarks/ holds no script." >&2; exit 1; fi; \
	for script in "$${scripts[@]}"; do echo "── $$script"; $(BIN)/python "$$script"; done

clean: ## remove caches and everything that is built, but not .venv
	rm -rf build dist site reports .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache .grimp_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -path ./.venv -prune -o -name '*.egg-info' -type d -prune -exec rm -rf {} +

# The stamp is newer than pyproject.toml exactly when the environment fits it, so a second
# run calls neither venv nor pip.
$(STAMP): pyproject.toml
	@if [ ! -x $(BIN)/python ]; then \
		if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null; then \
			echo "memberbound needs Python 3.11 or newer; found: $$("$(PYTHON)" --version 2>&1 || true)." \
				"Install one, or name it: make PYTHON=/path/to/python3.11 …" >&2; \
			exit 1; \
		fi; \
		echo "── creating .venv with $$("$(PYTHON)" --version)"; \
		"$(PYTHON)" -m venv .venv || { rm -rf .venv; \
			echo "Python's venv module failed (on Debian and Ubuntu: install python3-venv)." >&2; \
			exit 1; }; \
	fi
	@$(BIN)/python -c '$(NEW_ENOUGH)' || { \
		echo ".venv holds $$($(BIN)/python --version), memberbound needs 3.11 or newer: remove .venv." >&2; \
		exit 1; }
	@echo "── installing memberbound and its tools into .venv (once, about a minute)"
	@$(BIN)/python -m pip install -qq 'pip>=25.1'
	@if [ -n "$(TORCH)" ]; then $(BIN)/python -m pip install -qq "$(TORCH)" && \
		$(BIN)/python -m pip install -qq "$(TORCH)" '$(OPACUS)' || \
		echo "$(TORCH) with Opacus cannot be installed here: tests that need them are skipped." >&2; fi
	@$(BIN)/python -m pip install -qq --editable . --group dev
	@touch $@
