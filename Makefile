# The commands of this project; the README's two are `make up` and `make test`. Needs Python 3.11 or newer and nothing else.
.DEFAULT_GOAL := help
.PHONY: help up setup check test fmt bench demo-reset worker beat redis-up postgres-up secrets lock venv runtime tools weights

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

# For a machine with the servers but without Docker; both keep to 127.0.0.1. Then: REDIS_URL=… DATABASE_URL=… make up
redis-up:  ## start a Redis on 127.0.0.1:6379 that keeps nothing on disk
	@redis-cli -h 127.0.0.1 ping >/dev/null 2>&1 || redis-server --daemonize yes --bind 127.0.0.1 --port 6379 --save "" --appendonly no >/dev/null
	@echo "REDIS_URL=redis://127.0.0.1:6379/0"

postgres-up:  ## start the machine's PostgreSQL (Debian) and make the database signalbox
	@pg_isready -q -h 127.0.0.1 || pg_ctlcluster $$(pg_lsclusters -h | awk 'NR == 1 {print $$1, $$2}') start
	@psql -h 127.0.0.1 -U postgres -tAc "SELECT 1 FROM pg_database WHERE datname = 'signalbox'" | grep -q 1 || createdb -h 127.0.0.1 -U postgres signalbox
	@echo "DATABASE_URL=postgres://postgres@127.0.0.1:5432/signalbox"

secrets:  ## write the secrets of docker-compose.yml once, into ./secrets
	@mkdir -p secrets && chmod 700 secrets
	@test -s secrets/secret_key || $(PYTHON) -c "import secrets; print(secrets.token_urlsafe(48))" > secrets/secret_key
	@test -s secrets/postgres_password || $(PYTHON) -c "import secrets; print(secrets.token_urlsafe(24), end='')" > secrets/postgres_password
	@test -s secrets/database_url || echo "postgres://signalbox:$$(cat secrets/postgres_password)@postgres:5432/signalbox" > secrets/database_url
	@test -e secrets/openai_api_key || : > secrets/openai_api_key
	@echo "secrets/ holds them; a model's key goes into secrets/openai_api_key."

# Both files are made afresh in a virtual environment of their own. The run-time lock decides; the tools' one follows it.
LOCK := $(VENV)/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --annotation-style=line \
	--no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
lock:  ## resolve the dependencies again (add UPGRADE=--upgrade for newer releases)
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet pip-tools
	$(LOCK) $(UPGRADE) --extra fit --extra minilm --extra console --extra parquet -o requirements.lock pyproject.toml
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
