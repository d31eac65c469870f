# Every command of development, and all that CI runs. Each target sets up the environment it needs, once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# What is formatted and checked; not the pages in docs, whose examples are laid out by hand.
CODE := src tests benchmarks examples docs/conf.py docs/check_site.py docs/_extensions docs/images
# Two test processes on two cores: one thread of arithmetic each.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: help setup demo test slow cluster browser pot-tests gpu sanitize bench bench-pot bench-threads bench-gpu bench-color bench-steps bench-networks bench-stats bench-laws torture audit claims examples faces check format docs dist lowest release-check clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## create the environment in .venv, again when its requirements change

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: $(READY) ## run the paper's experiments in small, all variants, and write report/index.html
	$(BIN)/slicewise reproduce all --preset quick --store report/runs.db --out report

test: $(READY) ## run the tests
	$(PYTEST) -m 'not slow and not cluster and not browser'

slow: $(READY) ## run the tests that take longer
	$(PYTEST) -m 'slow and not cluster and not browser'

cluster: $(READY) ## run the tests on a Ray cluster of two nodes, started here
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist -m cluster tests/lab/study/test_ray.py tests/stats/test_ray_tables.py

browser: $(READY) ## test the report, the page of a flow and the playground in Chromium, if it is on the path; that of report/runs.db, if it exists; the site, if it is built
	$(BIN)/python -m pytest -p no:xdist -m browser tests/lab/report/test_browser.py tests/lab/images/test_film_page.py tests/lab/test_site.py tests/lab/play

pot-tests: $(READY) ## run POT's own tests against slicewise.pot; SOURCE=a checkout of POT, whose test folder is used
	@test -d "$(SOURCE)/test/sliced" || { echo "skipped: no POT tests at SOURCE='$(SOURCE)'; give SOURCE=folder of a checkout of POT"; exit 0; }; \
	PYTHONPATH=tests/pot OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p as_pot -p no:xdist -p no:cacheprovider -c /dev/null \
		--rootdir $(SOURCE)/test -q -rs $(SOURCE)/test/sliced $(SOURCE)/test/unbalanced/test_sliced.py

gpu: ## run the tests that need a CUDA device, with the python on the path
	PYTHONPATH=src python3 -m pytest $$(grep -rl 'mark\.gpu' tests --include='test_*.py') -m gpu -p no:xdist -v

# torch's own kernels are left out: racecheck finds hazards in its reduction for max().
sanitize: ## run the CUDA kernels under compute-sanitizer: out-of-bounds accesses and races
	for tool in memcheck racecheck; do PYTHONPATH=src compute-sanitizer --tool $$tool --report-api-errors no \
		--kernel-name-exclude kns=at6native --error-exitcode 9 python3 -m pytest tests/kernels/test_cuda.py -m gpu -p no:xdist -q \
		-k 'not triton and not torch-nvrtc and not costs_and and not single and not 70001' || exit 1; done

bench: $(READY) ## time a step against POT, OTT-JAX (if installed) and a plain sort; BENCH=--quick is shorter
	$(BIN)/python -m benchmarks.speed --out $(or $(OUT),benchmarks/results) $(BENCH)

bench-pot: $(READY) ## time plans, spheres and unbalanced distances against POT, and the memory of a plan; BENCH=--quick
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.pot --out $(or $(OUT),benchmarks/results) $(BENCH)

bench-threads: $(READY) ## time one thread against two, alone and beside a busy process
	$(BIN)/python -m benchmarks.speed.threads --out $(or $(OUT),benchmarks/results)/threads.json $(BENCH)

bench-gpu: ## the same on a CUDA device, with the python on the path; POT=folder of its source
	PYTHONPATH=src python3 -m benchmarks.gpu --out $(or $(OUT),benchmarks/results) \
		$(if $(POT),--pot $(POT)) $(BENCH)

bench-color: $(READY) ## compare color transfer with other methods; IMAGES=folder of more pairs, BENCH=--quick is shorter
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.color --out $(or $(OUT),benchmarks/results) \
		$(if $(IMAGES),--images $(IMAGES)) $(BENCH)

bench-steps: $(READY) ## count the steps of flows, against what is promised; BENCH=--quick is shorter
	$(BIN)/python -m benchmarks.steps --out $(or $(OUT),benchmarks/results) $(BENCH)

bench-laws: $(READY) ## time a step against a law, beside samples of it; PEERS=folder of other libraries, BENCH=--quick is shorter
	$(BIN)/python -m benchmarks.laws --out $(or $(OUT),benchmarks/results) $(if $(PEERS),--peers $(PEERS)) $(BENCH)

bench-networks: $(READY) ## train networks without a rate, against a search over Adam's rates; BENCH=--quick, BENCH='--device cuda'
	$(BIN)/python -m benchmarks.networks --out $(or $(OUT),benchmarks/results) $(BENCH)

bench-stats: $(READY) ## calibration, power and coverage of tests and intervals, speed, large tables (needs hyppo); BENCH=--quick is shorter
	$(BIN)/python -m benchmarks.stats --out $(or $(OUT),benchmarks/results) $(BENCH)

torture: $(READY) ## try to lose data, get wrong numbers, tracebacks: MINUTES=30, JOBS=2; the same seed and state file resume
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.torture --minutes $(or $(MINUTES),30) $(if $(JOBS),--jobs $(JOBS)) $(TORTURE)

audit: $(READY) ## check the pinned packages for known vulnerabilities, where pip-audit and its database can be reached
	@$(BIN)/python -m pip_audit --version >/dev/null 2>&1 || { echo "skipped: pip-audit is not installed (pip install pip-audit)"; exit 0; }; \
	$(BIN)/python -m pip_audit --requirement constraints.txt --no-deps --disable-pip

claims: $(READY) ## measure what training in a latent space promises; LATENTS=folder, BENCH='--device cuda'
	$(BIN)/python -m benchmarks.claims --out $(or $(OUT),claims.json) $(if $(LATENTS),--latents $(LATENTS)) $(BENCH)

examples: $(READY) ## run the examples; STEPS=20 is shorter
	$(BIN)/python examples/train_generator.py --steps $(or $(STEPS),500)
	$(BIN)/python examples/train_without_a_rate.py --steps $(or $(STEPS),1000) --out $(or $(OUT),build)/no-rate.png
	$(BIN)/python examples/toward_a_law.py --steps $(or $(STEPS),400) --out $(or $(OUT),build)/toward-a-law.png
	$(BIN)/python examples/train_on_ranks.py --processes 2 --steps $(or $(STEPS),200)

faces: $(READY) ## install OpenVINO and random-face, which decode latents to faces; for non-commercial use
	@$(PIP) openvino
	@$(PIP) --no-deps random-face
	@$(BIN)/python -c 'from slicewise.lab.latents import faces; print(faces.TERMS)'

check: $(READY) ## check style, types and the order of the rooms
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py tests/lab/test_rooms.py

format: $(READY) ## format the source
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

docs: $(VENV)/.docs ## build the documentation site into build/site, its examples executed and warnings as errors; open index.html
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs build/site
	$(BIN)/python docs/check_site.py build/site
	@echo "written: build/site/index.html"

$(VENV)/.docs: $(READY)
	@$(PIP) --editable '.[dev,docs]'
	@touch $@

dist: $(READY) ## build sdist and wheel; install the wheel into an empty environment and use it
	rm -rf dist build/empty
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt dist/*.whl
	cd build && empty/bin/python -W error ../.ci/use_wheel.py

lowest: ## test with the lowest versions that pyproject.toml admits, in an environment of their own
	@test -x build/lowest/bin/python || $(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt torch
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
		--editable '.[lab,metric,tables]' pytest pytest-xdist hypothesis
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -n 2 -m 'not slow and not cluster and not browser' $(TESTS)

release-check: check dist ## all checks of a release that need no network; TAG=v0.2.0 compares it with the versions
	$(BIN)/python .ci/release_check.py $(if $(TAG),--tag $(TAG))

clean: ## remove everything that was built
	rm -rf $(VENV) dist build report docs/gallery docs/reference/api docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
