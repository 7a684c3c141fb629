# On a machine with Python 3.11 or newer, pip and make:  make demo,  make test.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:
# Where an image sets it, each process that the tests start compiles our modules anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
# Three times the cores of a small machine: most of the time tests wait for processes.
JOBS ?= 6
HOURS ?= 1
# Errors only: pip warns of each mirror that lacks a package.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input
PYTEST := $(BIN)/python -m pytest

# The first Python that the locked wheels are for; PYTHON=… names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	2>/dev/null && { command -v $$python; break; }; done)

.PHONY: help install demo test coverage browser lint types docs bench compat field interop guards soak size check dist smoke lock clean

help: ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

install: $(STAMP) ## .venv with locked wheels; compiles nothing

$(STAMP): requirements/dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12, 3.13 or 3.14 with venv is needed: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): about 180 wheels"
	@$(PIP) --only-binary :all: --require-hashes -r requirements/dev.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

demo: install ## a meeting service whose parts are killed (ACT=outbox: that act alone)
	$(BIN)/python -m example_project.demo $(if $(ACT),--act $(ACT))

# Native tracebacks: pytest's own parse the source of each frame, and Python 3.11 may end
# that with a SystemError, and the whole run with it, if another thread parses too.
test: install ## the tests, on embedded servers and on those of this machine
	$(PYTEST) -n $(JOBS) $(if $(RERUNS),--reruns $(RERUNS)) --tb=native -m "not soak"

coverage: install ## which branches the tests run in their own process; build/coverage
	$(PYTEST) -n $(JOBS) -q --tb=native -m "not soak" --cov --cov-report=html:build/coverage \
		--cov-report=term:skip-covered $(TESTS)

lint: install ## style, spelling, and which room may import which
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell
	$(BIN)/lint-imports

types: install ## mypy, strict
	$(BIN)/mypy

browser: install ## Flower's pages in a real browser (needs chromium, chromedriver)
	$(PYTEST) -n 0 tests/browser

docs: install ## docs/_build/html; a broken reference is an error
	$(BIN)/sphinx-build -n -W --keep-going -q docs docs/_build/html

bench: install ## ours and the peers', side by side, with charts
	$(BIN)/python -m benchmarks

VERSIONS ?= 5.5 5.6
compat: install ## tests on other versions: VERSIONS="5.5 django-6.1 flower-2.0", QUICK=1
	$(BIN)/python -m tests.compat --jobs $(JOBS) $(if $(QUICK),--quick) $(VERSIONS)

field: install ## adopts public applications from the registry, as their operators would (long; NAMES="nautobot")
	$(BIN)/python -m tests.field $(NAMES)

interop: install ## Celery's integration suite, plain and with all of our steps (long)
	$(BIN)/python -m tests.interop

soak: install ## all tests, longer chaos and more examples, for HOURS; lists flaky tests
	$(BIN)/python -m tests.soak --hours $(HOURS) --jobs $(JOBS) $(TESTS)

GUARD_JOBS ?= 2
guards: install ## takes out each guard in turn: a test must go red (WORDS: of their names; PART=1/8; RESUME=1)
	$(BIN)/python -m tests.guards --jobs $(GUARD_JOBS) $(if $(PART),--part $(PART)) $(if $(RESUME),--resume) $(WORDS)

size: install ## how many lines of code there are, by room
	$(BIN)/python -m tests.size

smoke: install # the README's commands, once, as a newcomer types them
	$(BIN)/python -m tests.smoke.bare
	$(BIN)/python tests/smoke/readme.py

check: ## all that CI does
	$(MAKE) install
	$(MAKE) docs
	$(MAKE) types
	$(MAKE) lint
	$(MAKE) smoke
	$(MAKE) compat VERSIONS=5.5 QUICK=1
	$(MAKE) test

# The second time from what git has, in a folder of its own: neither a file that was not
# committed nor a path may get in.
dist: install ## sdist and wheel, built twice and compared byte for byte (TAG=v0.1.0: it must be this version)
	rm -rf dist build/again && mkdir -p build/again
	$(BIN)/python -m build --no-isolation --outdir dist . > build/dist.log
	git archive HEAD | tar -x -C build/again
	$(BIN)/python -m build --no-isolation --outdir build/again/dist build/again >> build/dist.log
	diff -r dist build/again/dist
	$(if $(TAG),test -f dist/celery_pecker-$(patsubst v%,%,$(TAG)).tar.gz)

lock: ## the newest versions that go together (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras \
		--group test --group bench --group lint --group docs --group build \
		--upgrade --only-binary :all: --generate-hashes --no-annotate --no-strip-extras --custom-compile-command "make lock" \
		--quiet -o requirements/dev.lock

clean: ## remove what was made here
	rm -rf $(VENV) build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache *.egg-info
