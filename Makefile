# Every target sets up what it needs. PYTHON picks the interpreter that makes the environments.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
GPJAX := .venv-gpjax
BIN := $(VENV)/bin

.PHONY: help demo test lint format peers reproduce pages oil million bench bench-quick bench-gpboost bench-convergence bench-optimiser bench-blocks bench-precision bench-gplvm neighbours parity clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tightgp needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.ready ## Compare the bounds on made-up data, fit a made-up table, write its report
	$(BIN)/tightgp demo

test: $(VENV)/.ready ## Run the tests, on two processes with one BLAS thread each
	OPENBLAS_NUM_THREADS=1 XLA_FLAGS="$$($(BIN)/python tests/xla_flags.py)" $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.ready ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.ready ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

NAME ?= all --quick

reproduce: $(VENV)/.ready ## The paper's experiments: small versions of all in minutes, or one in full by NAME=snelson (most need TIGHTGP_DATA)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m experiments $(NAME)

pages: $(VENV)/.ready ## Draw every table and figure of docs/reproduction from the results there are
	$(BIN)/python -m experiments all --draw

$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

$(GPJAX)/.ready: benchmarks/peers-gpjax.txt
	$(PYTHON) -m venv $(GPJAX)
	$(GPJAX)/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers-gpjax.txt
	touch $@

peers: $(PEERS)/.ready $(GPJAX)/.ready ## Install GPyTorch, GPflow and GPBoost in an environment of their own, GPJax in another

bench: $(VENV)/.ready $(PEERS)/.ready $(GPJAX)/.ready ## Time and memory against GPyTorch, GPflow and GPJax, in one run (an hour or more on two cores)
	$(BIN)/python -m benchmarks --peers $(PEERS)/bin/python --gpjax $(GPJAX)/bin/python --out benchmarks/results/suite.json

bench-quick: $(VENV)/.ready $(PEERS)/.ready $(GPJAX)/.ready ## The same in tiny sizes, to see that everything runs
	$(BIN)/python -m benchmarks --quick --peers $(PEERS)/bin/python --gpjax $(GPJAX)/bin/python

parity: $(VENV)/.ready $(PEERS)/.ready ## The same bounds and predictions as GPflow and GPyTorch, to 1e-6
	$(BIN)/python -m benchmarks.parity --peers $(PEERS)/bin/python

bench-gpboost: $(VENV)/.ready $(PEERS)/.ready ## Blocks and neighbours against GPBoost's Vecchia: time and quality (needs TIGHTGP_DATA)
	$(BIN)/python -m benchmarks.gpboost --peers $(PEERS)/bin/python

bench-convergence: $(VENV)/.ready $(PEERS)/.ready ## How far L-BFGS comes in so many steps, against GPflow (needs TIGHTGP_DATA)
	$(BIN)/python -m benchmarks.convergence --peers $(PEERS)/bin/python

bench-optimiser: $(VENV)/.ready ## What L-BFGS itself takes, as a ratio to SciPy's
	$(BIN)/python -m benchmarks.optimiser

bench-blocks: $(VENV)/.ready ## What blocks of neighbours cost, as a ratio to the diagonal bound
	$(BIN)/python -m benchmarks.blocks

bench-precision: $(VENV)/.ready ## How far mixed precision is off, over a sweep of conditioning
	$(BIN)/python -m benchmarks.precision

bench-gplvm: $(VENV)/.ready $(PEERS)/.ready ## The Bayesian GP-LVM against GPflow's: the same bound, time, memory (needs TIGHTGP_DATA)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.gplvm --peers $(PEERS)/bin/python --memory

neighbours: $(VENV)/.ready ## What each step nearer to the exact GP is worth, on 4000 rows of every set (needs TIGHTGP_DATA; an hour)
	$(BIN)/python -m experiments.neighbours --rows 4000 --test-rows 2000 --inducing 128 --steps 150

million: $(VENV)/.ready ## The collapsed bound on 1.3 million rows, read from disk (needs TIGHTGP_DATA; minutes)
	$(BIN)/python -m experiments.million --inducing 256 --steps 15 --mapped experiments/results/rows

oil: $(VENV)/.ready ## Oil flow: a Bayesian GP-LVM under three bounds, its table and figure (needs TIGHTGP_DATA; half an hour)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m experiments.oil

clean: ## Remove environments and caches
	rm -rf $(VENV) $(PEERS) $(GPJAX) .pytest_cache .mypy_cache .ruff_cache .hypothesis
