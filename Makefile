# Everything runs inside .venv, which the first target that needs it creates. Each target installs
# only what it needs: the package for `study` and `serve`, test tools, linters, documentation.
# PYTHON=… chooses the interpreter, PYTHONS=… those of test-pythons, WORKERS=… the number of test
# processes, TORCH=… a requirement for PyTorch (such as torch==2.13.0) that is installed first, and
# Opacus with it, held to the same torch; without it their tests are skipped.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null </dev/null \
	&& echo $$p && break; done)
# One more than the number of cores, because some tests wait for child processes.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
TORCH ?=
OPACUS := opacus>=1.5
BIN := .venv/bin
# One file per set of installed packages, newer than pyproject.toml exactly when the set fits it:
# a second run calls neither venv nor pip.
PACKAGE := .venv/.package
TESTS := .venv/.tests
LINT := .venv/.lint
PAGES := .venv/.pages
TOOLS := .venv/.tools
RIVALS := .venv/.rivals
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# Test processes already share the cores, so BLAS gets one thread each.  A file stays in one process,
# so that its fixtures are created once, and files keep the order of tests/conftest.py, slow ones
# (pages, faults) first: ordered by number of tests, one process would finish late.
SHARED_OUT := --dist loadfile --no-loadscope-reorder
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Keep bytecode between runs, so that commands started by tests need not recompile the package.
export PYTHONDONTWRITEBYTECODE :=
export NO_MKDOCS_2_WARNING := 1

.PHONY: help study serve test test-outside test-long test-mutants test-mutants-sample test-oldest test-pythons constraints check readme docs wheel release paper bench clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

study: $(PACKAGE) ## certify, audit and protect on the embedded data: reports/study/report.html
	@$(BIN)/python scripts/example_data.py examples/data
	@$(BIN)/memberbound study examples/data/patients.csv --target diagnosis \
		--bounds examples/data/patients.yaml --eta 0.05 --out reports/study --force
	@command -v memberbound >/dev/null || \
		echo "memberbound is not on your PATH; before that command: export PATH=\"\$$PWD/$(BIN):\$$PATH\""

serve: $(PACKAGE) ## the web calculator on this machine
	@$(BIN)/memberbound serve

# COVERAGE=1 also measures which lines of the package the tests run; that takes longer.
COVERAGE ?=
test: $(TESTS) ## the tests and the doctests of src, except the next two targets; deterministic
	$(BIN)/python -m pytest -n $(WORKERS) $(SHARED_OUT) $(if $(COVERAGE),--cov --cov-report=)
	@$(if $(COVERAGE),echo "coverage: $$($(BIN)/python -m coverage report --format=total) % of the lines",:)

# Tests that listen on ports or start other programs; skipped with a reason if one is missing.
test-outside: $(TESTS) ## the tests of the running server, in a browser (Chromium), on Spark (Java), on a dask cluster
	$(BIN)/python -m pytest -n $(WORKERS) --dist load -m "(browser or cluster or server) and not long"

test-long: $(TESTS) ## the tests marked long, and property tests with new random examples
	MEMBERBOUND_EXAMPLES=explore $(BIN)/python -m pytest -n $(WORKERS) $(SHARED_OUT) -m "long or hypothesis"

# Verdicts are kept in build/mutants, so that an interrupted run can resume.
test-mutants: export PYTHONPATH := $(CURDIR)/scripts
test-mutants: $(TESTS) ## small faults in the modules behind certificates: the tests detect 97 % (half an hour)
	$(BIN)/python -m mutants --skip-harmless --jobs $(WORKERS)

test-mutants-sample: export PYTHONPATH := $(CURDIR)/scripts
test-mutants-sample: $(TESTS) ## 40 of these faults, each with the test that detects it
	$(BIN)/python -m mutants --fixed --least 1 --jobs $(WORKERS)

# The oldest dependencies that pyproject.toml allows, with current test tools.
OLDEST := .venv-oldest/bin/python
test-oldest: $(TESTS) $(TOOLS) ## import and some of the tests with the oldest allowed dependencies
	@if [ ! -x $(OLDEST) ]; then $(BIN)/uv venv -q --python $(BIN)/python .venv-oldest; fi
	@$(BIN)/uv pip compile -q --resolution lowest-direct --no-header pyproject.toml \
		--extra web --extra skops --extra dask -o .venv-oldest/oldest.txt
	@$(BIN)/uv pip install -q --python $(OLDEST) -r .venv-oldest/oldest.txt \
		'pytest>=8.3' pytest-xdist hypothesis mpmath polars httpx jsonschema
	@$(BIN)/uv pip install -q --python $(OLDEST) --no-deps --editable .
	$(OLDEST) -m pytest -n $(WORKERS) tests/numerics tests/curve tests/iid tests/tables \
		tests/verbs/test_certify.py tests/verbs/test_explain.py tests/attacks/test_shadows.py \
		tests/release/test_saving.py tests/report/test_model.py

# The other Pythons named in pyproject.toml, each in its own environment (.venv-3.12, …) with the
# test tools but neither torch nor pyspark.  A failure does not stop the next one.
PYTHONS ?= $(shell sed -n 's/.*Python :: \(3\.[0-9]*\)".*/python\1/p' pyproject.toml)
NUMBER := import sys; print("%d.%d" % sys.version_info[:2]) if sys.version_info >= (3, 11) else exit(1)
test-pythons: $(TESTS) $(TOOLS) ## the tests under each other installed Python, or those named by PYTHONS=…
	@own=$$($(BIN)/python -c '$(NUMBER)'); absent=(); failed=(); \
	for python in $(PYTHONS); do \
		version=$$("$$python" -c '$(NUMBER)' 2>/dev/null </dev/null) || { absent+=("$$python"); continue; }; \
		if [ "$$version" = "$$own" ]; then continue; fi; \
		venv=.venv-$$version; \
		if [ ! -x $$venv/bin/python ]; then $(BIN)/uv venv -q --python "$$python" $$venv; fi; \
		if [ ! $$venv/.installed -nt pyproject.toml ]; then \
			$(BIN)/uv pip install -q --python $$venv/bin/python --editable . --group test; \
			touch $$venv/.installed; \
		fi; \
		echo "── $$($$venv/bin/python --version)"; \
		$$venv/bin/python -m pytest -n $(WORKERS) $(SHARED_OUT) || failed+=("$$version"); \
	done; \
	if [ $${#absent[@]} -gt 0 ]; then echo "not here or too old: $${absent[*]} (name others: make test-pythons PYTHONS=…)"; fi; \
	if [ $${#failed[@]} -gt 0 ]; then echo "failed: Python $${failed[*]}" >&2; exit 1; fi

constraints: $(TOOLS) ## resolve constraints.txt anew
	@mkdir -p build
	@grep '^#' constraints.txt > build/constraints.txt
	@$(BIN)/uv pip compile -q --python-version 3.11 --no-header --no-annotate pyproject.toml \
		--extra web --extra skops --extra dask --extra mlflow \
		-o build/resolved.txt
	@cat build/constraints.txt build/resolved.txt > constraints.txt

check: $(TESTS) $(LINT) ## ruff, its formatter, mypy, import layers, spelling and style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	@# .proselintrc.json disables typography and repeated words, because of code and tables.
	$(BIN)/proselint check README.md CONTRIBUTING.md CHANGELOG.md docs paper

SHOWN := README.md docs/tutorial.md docs/howto/explain.md docs/howto/certify-a-table.md docs/howto/make-a-table-safe.md \
	docs/howto/protect-a-model.md
readme: export PYTHONPATH := $(CURDIR)/scripts
readme: $(TESTS) ## update the command output shown in README.md and other pages
	$(BIN)/python -m documentation.shown $(SHOWN)

docs: export PYTHONPATH := $(CURDIR)/scripts
docs: $(TESTS) $(PAGES) ## the documentation: plain Markdown into build/docs, pages into site/
	$(BIN)/python -m documentation
	@echo "── site"
	$(BIN)/mkdocs build --strict 2>&1 | { grep -vE "^INFO" || true; }
	@echo "documentation: site/index.html"

# Every file of the package is in the wheel, and the installed wheel alone runs commands, studies a
# small table and serves.
TRIAL := BEGIN { print "age,smoker,ill"; for (i = 0; i < 300; i++) \
	print 18 + i * 7 % 70 "," i % 3 "," (i * 7 % 70 > 35 ? "yes" : "no") }
wheel: $(TOOLS) ## the wheel, tested in a fresh environment: dist/
	@rm -rf dist build/fresh build/trial*
	@mkdir -p build
	@$(BIN)/python -m pip wheel -qq --no-deps --wheel-dir dist .
	@missing=$$(comm -23 \
		<(cd src && find memberbound -type f -not -name '*.pyc' | sort) \
		<($(BIN)/python -m zipfile -l dist/*.whl | awk '{ print $$1 }' | sort)); \
		if [ -n "$$missing" ]; then echo "not in the wheel:" $$missing >&2; exit 1; fi
	@$(BIN)/uv venv -q --python $(BIN)/python build/fresh
	@wheel=$$(ls dist/*.whl); $(BIN)/uv pip install -q --python build/fresh/bin/python "$$wheel[web,skops]"
	@cd build && awk '$(TRIAL)' > trial.csv && fresh/bin/memberbound explain --epsilon 1 --json >/dev/null && \
		fresh/bin/memberbound theorems --json >/dev/null && \
		fresh/bin/memberbound study trial.csv --target ill --learner tree --shadows 8 --quick \
			--out trial >trial.log 2>&1 || { cat trial.log >&2; exit 1; }
	@cd build && fresh/bin/python -c "from memberbound.faces.web.application import application; application()"
	@echo "wheel: $$(ls dist/*.whl), tried: explain, theorems, study, the web application"

# What a release uploads, tried as its users get it: each file in a fresh environment of each Python.
release: $(TOOLS) ## sdist and wheel, checked by twine and tried on every Python that is here: dist/
	@rm -rf dist build/release
	@mkdir -p build/release
	@$(BIN)/uv build -q --out-dir dist .
	@$(BIN)/uv tool run -q twine check --strict dist/*.whl dist/*.tar.gz
	@awk '$(TRIAL)' > build/release/trial.csv
	@tried=(); for python in $(BIN)/python $(PYTHONS); do \
		version=$$("$$python" -c '$(NUMBER)' 2>/dev/null </dev/null) || continue; \
		case " $${tried[*]:-} " in *" $$version "*) continue;; esac; tried+=("$$version"); \
		for file in dist/*.whl dist/*.tar.gz; do \
			venv=build/release/$$version-$${file##*.}; \
			echo "── Python $$version, $${file##*/}"; \
			$(BIN)/uv venv -q --python "$$python" $$venv; \
			$(BIN)/uv pip install -q --python $$venv/bin/python "$$file[web,skops]"; \
			(cd build/release; command=$(CURDIR)/$$venv/bin/memberbound; model=$$version-$${file##*.}.skops; \
				{ $$command explain --epsilon 1 && \
					$$command protect trial.csv --target ill --eta 0.2 --out $$model && \
					$$command verify $$model; } >trial.log 2>&1 || { cat trial.log >&2; exit 1; }); \
		done; \
	done; \
	echo "release: $$(cd dist && echo *), tried on Python $${tried[*]}"

paper: ## the JOSS paper as a page, with pandoc: build/paper.html
	@mkdir -p build
	@pandoc paper/paper.md --citeproc --bibliography paper/paper.bib --fail-if-warnings -s -o build/paper.html
	@echo "paper: build/paper.html"

bench: $(TESTS) $(RIVALS) ## every script in benchmarks/, in sequence
	@shopt -s nullglob; scripts=(benchmarks/*.py); \
	if [ $${#scripts[@]} -eq 0 ]; then echo "benchmarks/ holds no script." >&2; exit 1; fi; \
	for script in "$${scripts[@]}"; do echo "── $$script"; $(BIN)/python "$$script"; done

clean: ## remove caches and build products, but not .venv
	rm -rf build dist site reports .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache .grimp_cache
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -path './.venv*' -prune -o -name '*.egg-info' -type d -prune -exec rm -rf {} +

# pip's lines as one line that changes, on a terminal; its errors as they are.
# Without compiling: Python compiles the modules that are imported, which are a fraction.
PIP := $(BIN)/python -m pip install --no-compile --progress-bar off
SHOW := awk -v tty="$$([ -t 2 ] && echo 1)" ' \
	/^ERROR/ { print > "/dev/stderr" } \
	tty && /^(Collecting|Downloading|Installing)/ { printf "\r\033[K%.76s", $$0 > "/dev/stderr" } \
	END { if (tty) printf "\r\033[K" > "/dev/stderr" }'

$(PACKAGE): pyproject.toml
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
	@echo "── installing memberbound into .venv (once, about half a minute)"
	@$(PIP) 'pip>=25.1' 2>&1 | $(SHOW)
	@$(PIP) --editable '.[web,skops]' 2>&1 | $(SHOW)
	@touch $@

$(TESTS): $(PACKAGE)
	@echo "── installing the test tools into .venv (once, about a minute)"
	@if [ -n "$(TORCH)" ]; then $(PIP) "$(TORCH)" 2>&1 | $(SHOW) && \
		$(PIP) "$(TORCH)" '$(OPACUS)' 2>&1 | $(SHOW) || \
		echo "$(TORCH) with Opacus cannot be installed here: tests that need them are skipped." >&2; fi
	@$(PIP) --group test 2>&1 | $(SHOW)
	@touch $@

$(LINT): $(PACKAGE)
	@echo "── installing the linters into .venv (once)"
	@$(PIP) --group lint 2>&1 | $(SHOW)
	@touch $@

$(PAGES): $(PACKAGE)
	@echo "── installing the documentation tools into .venv (once)"
	@$(PIP) --group docs 2>&1 | $(SHOW)
	@touch $@

$(TOOLS): $(PACKAGE)
	@$(PIP) --group tools 2>&1 | $(SHOW)
	@touch $@

$(RIVALS): $(PACKAGE)
	@echo "── installing the libraries that benchmarks compare with into .venv (once)"
	@$(PIP) --group bench 2>&1 | $(SHOW)
	@touch $@
