# The commands of this repository. A machine needs make and Python 3.11 or newer with venv; all
# else goes into .venv, once, and again when pyproject.toml changes.

.PHONY: install demo fmt lint test coverage check bench generate pyz screenshots clean
# `check` reads what `test` has measured.
.NOTPARALLEL:

usable := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3.13 python3.12 python3.11 python3; do \
	$$each -c '$(usable)' 2>/dev/null && echo $$each && break; done)
BIN := .venv/bin
CODE := src tests scripts $(wildcard examples benchmarks)
# The rooms in which every line and branch is tested.
WHOLE := core model tools sessions agent

# One more than processors: many tests wait for a terminal or a server.
WORKERS = $(shell $(BIN)/python -c 'import os; print(1 + os.cpu_count())')

comma := ,
empty :=
rooms := $(subst $(empty) $(empty),$(comma),$(WHOLE:%=src/bantam/%/*))

install: .venv/installed

demo: .venv/installed
	$(BIN)/bantam --demo

fmt: .venv/ready
	$(BIN)/ruff check --quiet --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

lint: .venv/ready
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE) extras/microbantam
	$(BIN)/mypy $(CODE)

test: .venv/ready
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses $(WORKERS) --dist worksteal
	$(BIN)/coverage combine --quiet

coverage: .venv/ready
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='$(rooms)'

check: lint test coverage

bench: .venv/ready
	$(BIN)/python benchmarks/table.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/interrupts.py 10
	$(BIN)/python benchmarks/sessions.py
	$(BIN)/python benchmarks/markdown.py
	$(BIN)/python benchmarks/editor.py
	$(BIN)/python benchmarks/dialects.py

generate: .venv/ready
	$(BIN)/python scripts/generate.py

pyz: .venv/ready
	$(BIN)/python scripts/pyz.py dist/bantam.pyz

screenshots: .venv/ready
	$(BIN)/python scripts/screenshots.py

clean:
	rm -rf .venv dist .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml
	@'$(PYTHON)' -c '$(usable)' 2>/dev/null || { echo 'Bantam needs Python 3.11 or newer with' \
		'venv (Debian: apt-get install python3-venv); name yours with make PYTHON=...' >&2; exit 1; }
	'$(PYTHON)' -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/ready: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
