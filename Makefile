# Everything one runs here, and all that CI runs. Each target sets up what it needs, once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Two test processes on two cores: one thread of arithmetic each.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: help setup demo test slow cluster browser gpu sanitize bench bench-gpu bench-color bench-steps examples faces check format dist clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## the environment in .venv, made anew when its requirements change

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: $(READY) ## the paper's experiments in small, all variants; ends in report/index.html
	$(BIN)/slicewise reproduce all --preset quick --store report/runs.db --out report

test: $(READY) ## the tests
	$(PYTEST) -m 'not slow and not cluster and not browser'

slow: $(READY) ## the tests that take longer
	$(PYTEST) -m 'slow and not cluster and not browser'

cluster: $(READY) ## the tests on a Ray cluster of two nodes, which are started here
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist -m cluster tests/lab/study/test_ray.py

browser: $(READY) ## the report in Chromium, if there is one on the path; of report/runs.db, if that is there
	$(BIN)/python -m pytest -p no:xdist -m browser tests/lab/report/test_browser.py

gpu: ## the tests that need a CUDA device, with the python on the path
	PYTHONPATH=src python3 -m pytest $$(grep -rl 'mark\.gpu' tests --include='test_*.py') -m gpu -p no:xdist -v

# torch's own kernels are left out: racecheck finds hazards in its reduction for max().
sanitize: ## the CUDA kernels under compute-sanitizer: no access out of bounds, no race
	for tool in memcheck racecheck; do PYTHONPATH=src compute-sanitizer --tool $$tool --report-api-errors no \
		--kernel-name-exclude kns=at6native --error-exitcode 9 python3 -m pytest tests/kernels/test_cuda.py -m gpu -p no:xdist -q \
		-k 'not triton and not torch-nvrtc and not costs_and and not single and not 70001' || exit 1; done

bench: $(READY) ## a step against POT, OTT-JAX (if installed) and a plain sort; BENCH=--quick for a glance
	$(BIN)/python -m benchmarks.speed --out $(or $(OUT),benchmarks/results) $(BENCH)

bench-gpu: ## the same on a CUDA device, with the python on the path; POT=folder of its source
	PYTHONPATH=src python3 -m benchmarks.gpu --out $(or $(OUT),benchmarks/results) \
		$(if $(POT),--pot $(POT)) $(BENCH)

bench-color: $(READY) ## colour transfer against what people use; IMAGES=folder of more pairs, BENCH=--quick for a glance
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.color --out $(or $(OUT),benchmarks/results) \
		$(if $(IMAGES),--images $(IMAGES)) $(BENCH)

bench-steps: $(READY) ## how many steps flows take, each beside its promise; BENCH=--quick for a glance
	$(BIN)/python -m benchmarks.steps --out $(or $(OUT),benchmarks/results) $(BENCH)

examples: $(READY) ## run them; STEPS=20 for a glance
	$(BIN)/python examples/train_generator.py --steps $(or $(STEPS),500)
	$(BIN)/python examples/train_on_ranks.py --processes 2 --steps $(or $(STEPS),200)

faces: $(READY) ## OpenVINO and random-face, to look at faces that were generated; for non-commercial use
	@$(PIP) openvino
	@$(PIP) --no-deps random-face
	@$(BIN)/python -c 'from slicewise.lab.latents import faces; print(faces.TERMS)'

check: $(READY) ## style, types, layers
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

format: $(READY) ## put the source in order
	$(BIN)/ruff format src tests benchmarks examples
	$(BIN)/ruff check --fix src tests benchmarks examples

dist: $(READY) ## sdist and wheel; the wheel is installed into an empty environment and used
	rm -rf dist build/empty
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt dist/*.whl
	cd build && empty/bin/python -W error ../.ci/use_wheel.py

clean: ## remove all that was made
	rm -rf $(VENV) dist build report .pytest_cache .mypy_cache .ruff_cache .hypothesis
