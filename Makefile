# Playmeter. `make run` starts it with a demo game; `make test` runs every test.
SHELL := /bin/bash
.DEFAULT_GOAL := help

LISTEN ?= 127.0.0.1:8080
DATA ?= data
CARGO ?= cargo
BINARY := target/release/playmeter

# Targets share target/release, so they run one after the other.
.NOTPARALLEL:
# An interrupted installation is started again.
.DELETE_ON_ERROR:
.PHONY: help run build release web letters sdk geo sql-library test torture bench clean

help: ## List the targets.
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## /  make \1\t/' | expand -t 20

# DuckDB's library, if `make sql-library` has installed it.
SQL_LIBRARY = $(firstword $(wildcard $(CURDIR)/sql/node_modules/@duckdb/*/libduckdb.so))

run: build ## Build the server and run it on 127.0.0.1:8080 with a demo game.
	$(if $(SQL_LIBRARY),PLAYMETER_SQL__LIBRARY=$(SQL_LIBRARY)) $(BINARY) serve --data $(DATA) --listen $(LISTEN) --demo

# The commit is part of `playmeter --version`.
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
build release: export PLAYMETER_COMMIT = $(COMMIT)
build release: export PLAYMETER_VERSION = $(VERSION)$(if $(COMMIT), ($(COMMIT)))

build: web letters sdk geo ## Build the server and its worker for SQL.
	$(CARGO) build --release --locked --bin playmeter --bin playmeter-sql

release: build ## Pack a tarball, a Debian package, the image's context, an SBOM and checksums in target/dist.
	scripts/release $(BINARY) target/dist

web: web/dist/index.html ## Build the dashboard.

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-fund --no-audit
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(shell find web/src web/index.html web/vite.config.ts 2>/dev/null)
	cd web && npm run build

letters: examples/letters/dist/index.html ## Build the demo game.

examples/letters/node_modules/.package-lock.json: examples/letters/package.json examples/letters/package-lock.json
	cd examples/letters && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-fund --no-audit
	@touch $@

examples/letters/dist/index.html: examples/letters/node_modules/.package-lock.json $(shell find examples/letters/src examples/letters/public examples/letters/index.html examples/letters/vite.config.ts sdk/js/src 2>/dev/null)
	cd examples/letters && npm run build

sdk: sdk/js/dist/playmeter.js ## Build the JavaScript client.

sdk/js/node_modules/.package-lock.json: sdk/js/package.json sdk/js/package-lock.json
	cd sdk/js && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-fund --no-audit
	@touch $@

sdk/js/dist/playmeter.js: sdk/js/node_modules/.package-lock.json $(shell find sdk/js/src sdk/js/build.mjs 2>/dev/null)
	cd sdk/js && npm run build

geo: geo/node_modules/.package-lock.json ## Download the country database.

geo/node_modules/.package-lock.json: geo/package.json geo/package-lock.json
	cd geo && npm ci --no-fund --no-audit
	@touch $@

sql-library: sql/node_modules/.package-lock.json ## Download DuckDB's library, which runs SQL.

sql/node_modules/.package-lock.json: sql/package.json sql/package-lock.json
	cd sql && npm ci --no-fund --no-audit
	@touch $@

# scripts/gate/stages.py lists the stages: deps lint build rust sql web sdk compat websocket packages s3 torture.
test: ## Run every check; installs what the checks need.
	@scripts/check

test-%: ## Run one stage of the checks and what it needs, such as `make test-rust`.
	@scripts/check $*

torture: ## Run the long crash, model and fuzz tests.
	@scripts/check long

# Published third-party clients that the compatibility tests run.
compat/%/node_modules/.package-lock.json: compat/%/package.json compat/%/package-lock.json
	cd compat/$* && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --ignore-scripts --no-fund --no-audit
	@touch $@

# The linter of the Godot client.
GDTOOLKIT := target/gdtoolkit

$(GDTOOLKIT)/installed: sdk/godot/requirements.txt
	python3 -m venv $(GDTOOLKIT)
	$(GDTOOLKIT)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# The type checker of the Python client.
MYPY := target/mypy

$(MYPY)/installed: sdk/python/requirements-dev.txt
	python3 -m venv $(MYPY)
	$(MYPY)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

bench: build ## Run the benchmarks against peers; see bench/README.md.
	python3 bench/run.py

clean: ## Remove build outputs; keeps the data folder.
	$(CARGO) clean
	rm -rf compat/*/node_modules compat/s3/jars web/dist web/node_modules geo/node_modules sql/node_modules sdk/js/dist sdk/js/node_modules examples/letters/dist examples/letters/node_modules
