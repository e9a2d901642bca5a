# Everything starts from a Python 3.11 or newer and a C++ compiler; the set-up fetches and builds the rest into .venv.
# It runs before every target and takes a few milliseconds when nothing changed. PYTHON=... chooses another Python.

ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell for p in .venv/bin/python python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
endif

.PHONY: python setup run test attack lint docs bench lock clean help

python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer on the path; run: apt install python3 python3-venv python3-dev" \
		"(or dnf install python3-devel, brew install python), then make again" >&2; exit 1; }

setup: python
	@"$(PYTHON)" -I gaiad/bootstrap

run: python       # the daemon in the foreground, its home in GAIAD_HOME or .gaiad, the memory API on; Ctrl-C stops it;
                  # it serves as soon as the Python packages are there, and llama.cpp is built beside it
	@MEMORY_GAM_ENABLED="$${MEMORY_GAM_ENABLED:-true}" exec "$(PYTHON)" -I gaiad/bootstrap run \
		--home "$${GAIAD_HOME:-.gaiad}" --samples $(ARGS)

# Daemons that tests start import from bytecode, also where the environment keeps Python from writing it: half the time.
BYTECODE := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX="$(CURDIR)/.setup/pycache"

test: setup       # ARGS="-k name" and the like go to pytest
	@.venv/bin/python -m tests.makers.provided_vocabularies
	@$(BYTECODE) .venv/bin/pytest -q -n 4 --dist loadfile $(ARGS)

attack: setup     # the whole campaign of tests/attacks and its table; SHARE=0.1 tries a tenth as often
	@$(BYTECODE) GAIAD_ATTACK="$(or $(SHARE),1)" .venv/bin/pytest -q --timeout 3600 tests/attacks $(ARGS)

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

docs: setup       # rewrite the generated parts of README and docs
	@.venv/bin/python -m tests.makers.documents

bench: setup      # ARGS go to gaiad bench
	@.venv/bin/gaiad bench $(ARGS)

lock: setup       # resolve again; ARGS="--upgrade" or "--upgrade-package NAME" for newer versions
	@"$(PYTHON)" -I gaiad/bootstrap lock $(ARGS)

clean:            # what was built; never .gaiad, where the packets are
	rm -rf .venv .setup build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.gaiad/*' -prune -exec rm -rf {} +

help:
	@grep -E '^[a-z]+:' Makefile
