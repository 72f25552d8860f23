# tomserve: `make eval` does the main job, `make test` the tests; both set up what they need. `make help` lists all.
# Variables: MODEL BASE_URL WEIGHTS BENCHMARK ITEMS STRATEGY RUN LIMIT PORT STUDY OUT QUICK ARGS (lists are separated by spaces).

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip --quiet --disable-pip-version-check install
LOCKED  = $(PIP) --no-deps --require-hashes --requirement

KNOWN   := MODEL BASE_URL WEIGHTS BENCHMARK ITEMS STRATEGY RUN LIMIT PORT STUDY OUT QUICK ARGS PYTHON VENV
UNKNOWN := $(filter-out $(KNOWN),$(foreach v,$(.VARIABLES),$(if $(filter command,$(origin $v)),$v)))
ifneq ($(strip $(UNKNOWN)),)
$(error unknown variable $(firstword $(UNKNOWN)); known: $(KNOWN))
endif

option = $(if $($(1)),--$(2) '$($(1))')
each   = $(foreach value,$($(1)),--$(2) '$(value)')

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-server serve web eval stability causal faithfulness functional search score analyze report test test-system test-long test-random bench lint docs release clean

help:
	@echo 'make eval          set up, ask a model, print tables (no GPU; or BASE_URL=)'
	@echo 'make serve         serve MODEL= (a preset, ORG/MODEL or ./FOLDER) with vLLM'
	@echo 'make web           the workbench: queue, watch and compare in a browser (PORT=)'
	@echo 'make stability     variants of each question: does the answer survive them?'
	@echo 'make causal        inside a model: a map of another perspective, and its effect'
	@echo 'make faithfulness  edit the chains of RUN= (the newest): do answers follow them?'
	@echo 'make functional    behaviour, mechanism (WEIGHTS=), stability, and one score'
	@echo 'make search        where MODEL= breaks: its weakest questions, confirmed on fresh ones'
	@echo 'make report        one HTML file to look at, from RUN= (the newest)'
	@echo 'make score         score the replies of RUN= (the newest) again, offline'
	@echo 'make analyze       compute the tables of RUN= (the newest), offline'
	@echo 'make test-system   real servers, browsers and clusters in depth (12 minutes)'
	@echo 'make test-long     every preset, soak, fuzz: before a release (an hour)'
	@echo 'make test-random   tests of properties, with new random examples (minutes)'
	@echo 'make docs          the documentation: build/site/index.html, opens offline'
	@echo 'make bench         the figures of bench/README.md (hours; QUICK=1: half of one)'
	@echo 'make release       wheel, source, SBOMs (CycloneDX) and their sums in dist/'
	@echo 'make setup         set up all that is needed; also: make test, lint, clean'

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tomserve needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo 'the venv module is missing: install it (Debian: apt-get install python3-venv)'; exit 2; }

# Only files whose digests are listed in launch/locked/ are installed, also of what builds tomserve.
$(VENV)/.core: $(VENV)/bin/python pyproject.toml launch/locked/build.txt launch/locked/core.txt
	@echo 'installing the core into $(VENV) ...'
	@$(LOCKED) launch/locked/build.txt
	@$(LOCKED) launch/locked/core.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# Of the packages in schemas.txt tests read files; their own requirements are not met, so they lie beside the environment.
$(VENV)/.dev: $(VENV)/.core launch/locked/dev.txt launch/locked/schemas.txt
	@echo 'installing the tools for tests into $(VENV) ...'
	@$(LOCKED) launch/locked/dev.txt
	@$(LOCKED) launch/locked/schemas.txt --ignore-requires-python --upgrade --target $(VENV)/schemas
	@touch $@

setup: $(VENV)/.core

setup-dev: $(VENV)/.dev

setup-server: $(VENV)/.core
	@$(BIN)/tomserve setup

serve: $(VENV)/.core
	@$(BIN)/tomserve serve --setup $(call option,PORT,port) $(MODEL) $(ARGS)

web: $(VENV)/.core
	@$(BIN)/tomserve web $(call option,PORT,port) $(ARGS)

eval: $(VENV)/.core
	@$(BIN)/tomserve eval --setup $(call option,CONFIG,config) $(call option,MODEL,model) $(call each,BASE_URL,base-url) $(call option,BENCHMARK,benchmark) \
	  $(call each,STRATEGY,strategy) $(call option,RUN,run) $(call option,LIMIT,limit) $(ARGS)

stability: $(VENV)/.core
	@$(BIN)/tomserve stability --setup $(call option,MODEL,model) $(call each,BASE_URL,base-url) $(call option,BENCHMARK,benchmark) \
	  $(call each,STRATEGY,strategy) $(call option,RUN,run) $(call option,LIMIT,limit) $(ARGS)

causal: setup-server
	@$(BIN)/tomserve causal $(call option,ITEMS,items) $(call option,STRATEGY,strategy) $(call option,RUN,run) \
	  $(call option,LIMIT,limit) $(ARGS) $(if $(MODEL),'$(MODEL)')

faithfulness: $(VENV)/.core
	@$(BIN)/tomserve faithfulness --setup $(call each,BASE_URL,base-url) $(call each,STRATEGY,strategy) \
	  $(call option,LIMIT,limit) $(ARGS) $(RUN)

functional: $(if $(or $(WEIGHTS),$(if $(BASE_URL),,x)),setup-server,$(VENV)/.core)
	@$(BIN)/tomserve functional --setup $(call option,MODEL,model) $(call each,BASE_URL,base-url) $(call option,WEIGHTS,weights) \
	  $(call option,RUN,run) $(call option,LIMIT,limit) $(ARGS)

search: $(VENV)/.core
	@$(BIN)/tomserve search --setup $(call each,BASE_URL,base-url) $(call option,BENCHMARK,benchmark) \
	  $(call option,STRATEGY,strategy) $(call option,RUN,run) $(ARGS) $(if $(MODEL),'$(MODEL)')

score: $(VENV)/.core
	@$(BIN)/tomserve score $(call option,OUT,out) $(ARGS) $(RUN)

analyze: $(VENV)/.core
	@$(BIN)/tomserve analyze $(call option,STUDY,study) $(call option,OUT,out) $(ARGS) $(RUN)

report: $(VENV)/.core
	@$(BIN)/tomserve report $(call option,OUT,out) $(ARGS) $(RUN)

PYTEST = $(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev setup-server
	@$(PYTEST) $(ARGS)

test-system: $(VENV)/.dev setup-server
	@$(PYTEST) -m system $(ARGS)

test-long: $(VENV)/.dev setup-server
	@$(BIN)/python -m pytest -m long --timeout 1800 $(ARGS)

test-random: $(VENV)/.dev
	@$(BIN)/python -m pytest --hypothesis-profile random $(ARGS) \
	  $$(grep --recursive --files-with-matches --include 'test_*.py' hypothesis tests)

bench: $(VENV)/.dev setup-server
	@$(BIN)/python bench/all.py $(if $(QUICK),--quick) $(call option,OUT,out) $(ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@if $(BIN)/python -c 'import torch' 2>/dev/null; then \
	  MYPYPATH=launch/reference $(BIN)/mypy launch/reference; \
	else echo 'mypy of launch/reference needs torch: after make test'; fi

docs: $(VENV)/.dev
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/site
	@echo 'written: build/site/index.html'

release: $(VENV)/.dev
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	@for list in core dev cpu cuda; do $(BIN)/cyclonedx-py requirements launch/locked/$$list.txt --pyproject pyproject.toml \
	  --output-reproducible --of JSON -o dist/sbom-$$list.json 2> /dev/null || exit 2; done
	@cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
