# Playmeter. `make run` starts it with a demo game; `make test` runs every test.
SHELL := /bin/bash
.DEFAULT_GOAL := help

LISTEN ?= 127.0.0.1:8080
DATA ?= data
CARGO ?= cargo
BINARY := target/release/playmeter
ECHO := target/release/examples/echo

# Targets share target/release, so they run one after the other.
.NOTPARALLEL:
.PHONY: help run build release web letters sdk geo sql-library test test-build test-rust test-sql test-s3 test-packages test-web test-sdk test-websocket test-torture lint bench torture tools telegraf go-tools clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

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

test: test-rust test-sql test-torture test-websocket test-packages test-s3 test-web test-sdk ## Run every test; installs what the tests need.
	@echo "all tests passed"

# One build for everything that is tested: the program, the examples and the tests share their crates. Injected faults
# are compiled in and stay off unless a test sets PLAYMETER_INJECTED_FAULT; `make build` compiles them out.
CARGO_TEST := $(CARGO) test --release --locked --workspace --features playmeter/fault-injection,playmeter/sftp

test-build: web letters sdk geo sql-library
	$(CARGO_TEST) --no-run

test-rust: test-build tools go-tools
	$(CARGO_TEST) --no-fail-fast

test-sql: test-build tools
	python3 compat/sql/run.py

test-torture: test-build tools
	python3 -m unittest discover -s torture -p 'test_*.py'
	python3 -m unittest discover -s bench
	python3 torture/kill.py --binary $(BINARY) --cycles 20 --seconds-max 1.0
	python3 torture/watch.py --binary $(BINARY) --subscribers 500 --seconds 5
	python3 torture/slow.py --binary $(BINARY) --connections 1000
	python3 torture/queries.py --binary $(BINARY) --events 100000
	python3 torture/fill.py --binary $(BINARY) --cycles 1
	python3 torture/loss.py --binary $(BINARY) --packets 4000
	python3 torture/fault_injection.py --binary $(BINARY)

test-packages: test-build tools go-tools web/node_modules/.package-lock.json
	python3 packaging/test.py --binary $(BINARY)

test-websocket: test-build
	python3 compat/autobahn/run.py $(ECHO)

test-s3: test-build tools
	python3 compat/s3/run.py $(BINARY)

# Published third-party clients that the compatibility tests run.
CLIENTS := $(patsubst %,compat/%/node_modules/.package-lock.json,ddp collectors capture openapi)

compat/%/node_modules/.package-lock.json: compat/%/package.json compat/%/package-lock.json
	cd compat/$* && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --ignore-scripts --no-fund --no-audit
	@touch $@

test-web: test-build tools telegraf sdk letters $(CLIENTS)
	cd web && npm run check && npm test && npm run size
	cd examples/letters && npm run check && npm test
	scripts/with-server $(BINARY) -- npm --prefix web run e2e
	scripts/with-server $(BINARY) -- npm --prefix examples/letters run e2e
	node --test compat/playtomic/
	cd compat/ddp && npm test
	node --test compat/prometheus/
	python3 compat/datadog/run.py $(BINARY)
	cd compat/collectors && npm test
	cd compat/capture && npm test
	cd compat/openapi && npm test
	python3 compat/python/run.py
	python3 compat/archive/run.py target/release/examples/archive_events
	python3 compat/questions/run.py

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

test-sdk: test-build tools sdk $(GDTOOLKIT)/installed $(MYPY)/installed
	cd sdk/js && npm run check && npm test && npm run size
	scripts/with-server $(BINARY) -- npm --prefix sdk/js run e2e
	scripts/with-server $(BINARY) -- env PYTHONPATH=sdk/python/src python3 -W error -m unittest discover -s sdk/python/tests
	$(MYPY)/bin/mypy --strict sdk/python/src
	scripts/with-server $(BINARY) -- scripts/test-unity
	$(GDTOOLKIT)/bin/gdparse sdk/godot/addons/playmeter/*.gd
	$(GDTOOLKIT)/bin/gdlint sdk/godot/addons/playmeter/*.gd

tools: ## Install the Debian packages that the tests need, if they are missing.
	@scripts/tools

telegraf: ## Build Telegraf for the compatibility test, if Go is installed.
	@scripts/telegraf

go-tools: ## Build the Go programs that the tests of TLS use, if Go is installed.
	@scripts/go-tools

lint: web letters sdk geo ## Check formatting, lints, licences and sources of dependencies.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets --features playmeter/fault-injection,playmeter/sftp -- -D warnings
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny --locked check bans licenses sources
	cd web && npm run check

bench: build ## Run the benchmarks against peers; see bench/README.md.
	python3 bench/run.py

torture: test-build tools ## Run the long crash, model and fuzz tests.
	$(CARGO_TEST) -- --ignored --nocapture
	python3 torture/kill.py --binary $(BINARY) --cycles 1000
	python3 torture/watch.py --binary $(BINARY) --subscribers 10000 --seconds 60
	python3 torture/slow.py --binary $(BINARY) --connections 10000 --seconds 10
	python3 torture/queries.py --binary $(BINARY) --events 720000
	python3 torture/fill.py --binary $(BINARY) --cycles 10
	python3 torture/loss.py --binary $(BINARY) --packets 100000
	python3 torture/fault_injection.py --binary $(BINARY)

clean: ## Remove build outputs; keeps the data folder.
	$(CARGO) clean
	rm -rf compat/*/node_modules compat/s3/jars web/dist web/node_modules geo/node_modules sql/node_modules sdk/js/dist sdk/js/node_modules examples/letters/dist examples/letters/node_modules
