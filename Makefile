# Every target sets up what it needs. PYTHON picks the interpreter that makes the environments.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
GPJAX := .venv-gpjax
TABLES := .venv-tables
EXTRAS := .venv-extras
DOCS := .venv-docs
DIST := .venv-dist
BIN := $(VENV)/bin

# What the optional dependencies are for, one after the other; torch first, so that nothing else chooses its version.
OPTIONAL := mcmc botorch export serve conformal registry duckdb
define install_optional
	$(1)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	for extra in $(OPTIONAL); do \
		$(1)/bin/pip install --quiet --disable-pip-version-check --editable ".[$$extra]" || exit 1; done
endef

.PHONY: help demo test test-quick test-extras lint format peers reproduce pages oil million bench bench-quick bench-gpboost bench-tables bench-convergence bench-optimiser bench-blocks bench-precision bench-gplvm neighbours parity docs docs-peers figures dist soak soak-quick threads fuzz clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tightgp needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.ready ## Compare the bounds on synthetic data, fit a synthetic table, write its report
	$(BIN)/tightgp demo

test: $(VENV)/.ready ## Run the tests and the examples in docstrings, in two processes with one BLAS thread each
	OPENBLAS_NUM_THREADS=1 XLA_FLAGS="$$($(BIN)/python tests/xla_flags.py)" $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

test-quick: $(VENV)/.ready ## Run the tests of files that take no more than a few seconds, in about a minute
	OPENBLAS_NUM_THREADS=1 XLA_FLAGS="$$($(BIN)/python tests/xla_flags.py)" $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" tests

$(EXTRAS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]' httpx
	$(call install_optional,$(EXTRAS))
	touch $@

test-extras: $(EXTRAS)/.ready ## Run the tests of what the optional dependencies are for, in an environment that has them
	OPENBLAS_NUM_THREADS=1 XLA_FLAGS="$$($(EXTRAS)/bin/python tests/xla_flags.py)" $(EXTRAS)/bin/pytest tests/extras

lint: $(VENV)/.ready ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.ready ## Fix format, and what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

NAME ?= all --quick

reproduce: $(VENV)/.ready ## Run the paper's experiments: small versions of all (minutes), or NAME=snelson in full (most need TIGHTGP_DATA)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m experiments $(NAME)

pages: $(VENV)/.ready ## Draw the tables and figures of docs/reproduction from stored results
	$(BIN)/python -m experiments all --draw

$(DOCS)/.ready: pyproject.toml docs/requirements.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --no-deps -r docs/requirements.txt
	$(call install_optional,$(DOCS))
	touch $@

docs: $(DOCS)/.ready ## Run all code of the README and the site's pages, build the site in site/, check its links (minutes)
	$(DOCS)/bin/python -m website.examples
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict
	$(DOCS)/bin/python -m website.links site

docs-peers: $(DOCS)/.ready $(PEERS)/.ready ## Run the guides for users of other libraries against these, and compare the numbers
	$(DOCS)/bin/python -m website.migration --peers $(PEERS)/bin/python

figures: $(VENV)/.ready ## Draw the figures of the documentation again, from stored results
	$(BIN)/python -m docs.figures

$(DIST)/.ready:
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/pip install --quiet --disable-pip-version-check 'build>=1.2,<2' 'twine>=6,<7'
	touch $@

dist: $(DIST)/.ready ## Build sdist and wheel, check them, and use the wheel in an empty environment
	rm -rf dist
	$(DIST)/bin/python -m build
	$(DIST)/bin/twine check --strict dist/*
	$(PYTHON) tools/try_wheel.py dist

$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

$(GPJAX)/.ready: benchmarks/peers-gpjax.txt
	$(PYTHON) -m venv $(GPJAX)
	$(GPJAX)/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers-gpjax.txt
	touch $@

$(TABLES)/.ready: benchmarks/peers-tables.txt
	$(PYTHON) -m venv $(TABLES)
	$(TABLES)/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers-tables.txt
	touch $@

peers: $(PEERS)/.ready $(GPJAX)/.ready $(TABLES)/.ready ## Install GPyTorch, GPflow and GPBoost in one environment, GPJax in another, boosted trees in a third

bench-tables: $(VENV)/.ready $(TABLES)/.ready ## Compare with boosted trees and other GPs on sixteen real tables (an hour; most need no TIGHTGP_DATA); goes on where it stopped
	$(BIN)/python -m benchmarks.table_suite --peers $(TABLES)/bin/python

bench: $(VENV)/.ready $(PEERS)/.ready $(GPJAX)/.ready ## Compare time and memory with GPyTorch, GPflow and GPJax (an hour or more on two cores)
	$(BIN)/python -m benchmarks --peers $(PEERS)/bin/python --gpjax $(GPJAX)/bin/python --out benchmarks/results/suite.json

bench-quick: $(VENV)/.ready $(PEERS)/.ready $(GPJAX)/.ready ## Run bench in tiny sizes, to see that it works
	$(BIN)/python -m benchmarks --quick --peers $(PEERS)/bin/python --gpjax $(GPJAX)/bin/python

parity: $(VENV)/.ready $(PEERS)/.ready ## Check bounds and predictions against GPflow and GPyTorch, to 1e-6
	$(BIN)/python -m benchmarks.parity --peers $(PEERS)/bin/python

MINUTES ?= 60

soak: $(VENV)/.ready ## Fit, kill, resume, predict and load random tables in real processes: an hour, or MINUTES=5
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m soak --minutes $(MINUTES)

soak-quick: $(VENV)/.ready ## The same for five minutes
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m soak --quick

threads: $(VENV)/.ready ## Predict in 8 threads and fit in 4 at once for a minute; every answer must be the serial one
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m soak.threads

fuzz: $(VENV)/.ready ## Read 100 000 wild tables, model files, cells and command lines (minutes)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m soak.fuzz

bench-gpboost: $(VENV)/.ready $(PEERS)/.ready ## Compare blocks and neighbours with GPBoost's Vecchia: time and quality (needs TIGHTGP_DATA)
	$(BIN)/python -m benchmarks.gpboost --peers $(PEERS)/bin/python

bench-convergence: $(VENV)/.ready $(PEERS)/.ready ## Compare how far L-BFGS gets in 50 and 200 steps with GPflow (needs TIGHTGP_DATA)
	$(BIN)/python -m benchmarks.convergence --peers $(PEERS)/bin/python

bench-optimiser: $(VENV)/.ready ## Time L-BFGS itself, as a ratio to SciPy's
	$(BIN)/python -m benchmarks.optimiser

bench-blocks: $(VENV)/.ready ## Time blocks of neighbours, as a ratio to the diagonal bound
	$(BIN)/python -m benchmarks.blocks

bench-precision: $(VENV)/.ready ## Measure the error of mixed precision, from well to badly conditioned
	$(BIN)/python -m benchmarks.precision

bench-gplvm: $(VENV)/.ready $(PEERS)/.ready ## Compare the Bayesian GP-LVM with GPflow's: bound, time, memory (needs TIGHTGP_DATA)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.gplvm --peers $(PEERS)/bin/python --memory

neighbours: $(VENV)/.ready ## Measure the worth of blocks and neighbours on 4000 rows of every set (needs TIGHTGP_DATA; an hour)
	$(BIN)/python -m experiments.neighbours --rows 4000 --test-rows 2000 --inducing 128 --steps 150

million: $(VENV)/.ready ## Train the collapsed bound on 1.3 million rows, read from disk (needs TIGHTGP_DATA; minutes)
	$(BIN)/python -m experiments.million --inducing 256 --steps 15 --mapped experiments/results/rows

oil: $(VENV)/.ready ## Train a Bayesian GP-LVM on the oil flow data under three bounds (needs TIGHTGP_DATA; half an hour)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m experiments.oil

clean: ## Remove environments and caches
	rm -rf $(VENV) $(PEERS) $(GPJAX) $(TABLES) $(EXTRAS) $(DOCS) $(DIST) .docs site dist .tables .pytest_cache .mypy_cache .ruff_cache .hypothesis
