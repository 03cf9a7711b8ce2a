# Each target is a thin call of a command in .venv; `make` prints them.

SCENARIO ?= demo
ROOT     ?= data/built
QUERY    ?= select table_name, comment from duckdb_views() where not internal order by table_name
JOBS     ?= 2

# The first Python that runs and is new enough, as a real file (a version manager's stand-in may not run).
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' 2>/dev/null && break; done)
UV     := $(shell uv --version >/dev/null 2>&1 && echo uv)

BIN     := .venv/bin
GOODPUT := $(BIN)/goodput --root "$(ROOT)"
RUN     := .venv/.installed-run
DEV     := .venv/.installed-dev

# uv must neither fetch an interpreter of its own nor write into another active environment.
export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1

ifdef UV
VENV    = uv venv --quiet --allow-existing --python "$(PYTHON)" .venv
INSTALL = uv pip install --quiet --python $(BIN)/python
else
VENV    = "$(PYTHON)" -m venv .venv
INSTALL = $(BIN)/python -m pip install --quiet
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup report run batch ingest timelines replay paper sql test lint golden docs bench lock clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  SCENARIO=$(SCENARIO)  ROOT=$(ROOT)"

setup: $(RUN) ## build .venv from requirements.lock

report: $(RUN) ## set up, run SCENARIO, print the report's path and headline numbers
	$(GOODPUT) run "$(SCENARIO)"

run: $(RUN) ## all stages of SCENARIO, only what is stale
	$(GOODPUT) run "$(SCENARIO)"

batch: $(RUN) ## dropped logs and stale scenarios, as a timer does: BATCH=site.toml
	$(BIN)/goodput $(if $(filter file,$(origin ROOT)),,--root "$(ROOT)") run --batch "$(BATCH)"

ingest: $(RUN) ## a log into events: SOURCE=name FILES="path ..."
	$(GOODPUT) ingest $(SOURCE) $(FILES)

timelines: $(RUN) ## events of SCENARIO into timelines
	$(GOODPUT) timelines "$(SCENARIO)"

replay: $(RUN) ## timelines and policies of SCENARIO into ledgers
	$(GOODPUT) replay "$(SCENARIO)"

paper: $(RUN) ## published numbers recomputed, with verdicts
	$(GOODPUT) paper

sql: $(RUN) ## read-only SQL on the catalog: QUERY="select ..."
	@$(GOODPUT) sql "$$QUERY"

test: $(DEV) lint ## set up, then lint and all tests
	$(BIN)/python -m pytest -n $(JOBS)

lint: $(DEV) ## style, types and floors
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

golden: $(DEV) ## rewrite the golden files; read their diff before you commit it
	$(BIN)/python -m pytest tests/golden --snapshot-update

docs: $(DEV) ## rewrite the parts of the READMEs that say what the code says
	$(BIN)/python -m tests.docs

bench: $(DEV) ## timings; SIZES="5000 10000000": MB of syslog, rows of outages
	$(BIN)/python -m tests.bench $(SIZES)

lock: ## renew both lock files to the newest versions pyproject.toml allows (needs uv)
	$(call compile,build,requirements.lock,)
	$(call compile,dev,tests/requirements.lock,--constraint requirements.lock)

clean: ## remove what was built, not .venv
	rm -rf data/built reports/out build dist *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find pipeline tests -name __pycache__ -type d -prune -exec rm -rf {} +

# QUERY reaches the shell as a variable, so that quotes and dollars in it need no care.
export QUERY

# $(call compile,GROUP,LOCK,OPTIONS): one file for every Python from 3.11 on, with hashes and without addresses.
compile = uv pip compile pyproject.toml --group $(1) $(3) --upgrade --quiet --output-file $(2) --universal \
	--python-version 3.11 --generate-hashes --no-emit-index-url --no-header --annotation-style line

$(RUN): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python >= 3.11 found. Install one (Debian: python3 python3-venv)," \
		"or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PYTHON=$(PYTHON)" \
		"does not run or is older than 3.11. Name another: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Building .venv"; $(VENV) || { rm -rf .venv; exit 1; }; }
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): tests/requirements.lock $(RUN)
	$(INSTALL) --require-hashes -r tests/requirements.lock
	@touch $@
