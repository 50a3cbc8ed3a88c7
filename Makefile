# Playmeter. `make run` starts it with a demo game; `make test` runs every test.
SHELL := /bin/bash
.DEFAULT_GOAL := help

LISTEN ?= 127.0.0.1:8080
DATA ?= data
CARGO ?= cargo
BINARY := target/release/playmeter

.PHONY: help run build web geo test test-rust test-web test-torture lint bench torture tools clean

help: ## Say what there is.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: build ## Build and serve on 127.0.0.1:8080 with a demo game.
	$(BINARY) serve --data $(DATA) --listen $(LISTEN) --demo

build: web geo ## Build the program.
	$(CARGO) build --release --locked --bin playmeter

$(BINARY):
	$(MAKE) build

web: web/dist/index.html ## Build the dashboard.

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-fund --no-audit
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(shell find web/src web/index.html web/vite.config.ts 2>/dev/null)
	cd web && npm run build

geo: geo/node_modules/.package-lock.json ## Fetch the table of countries.

geo/node_modules/.package-lock.json: geo/package.json geo/package-lock.json
	cd geo && npm ci --no-fund --no-audit
	@touch $@

# The Rust tests build the program as well: it is built once.
test: test-rust ## Run every test; installs what it needs.
	$(MAKE) test-torture test-web
	@echo "all tests passed"

test-rust: web geo
	$(CARGO) test --release --locked --workspace

test-torture: | $(BINARY)
	python3 -m unittest discover -s torture -p 'test_*.py'
	python3 torture/kill.py --binary $(BINARY) --cycles 20 --seconds-max 1.0
	python3 torture/plants.py

test-web: tools | $(BINARY)
	cd web && npm run check && npm test && npm run size
	scripts/with-server $(BINARY) -- npm --prefix web run e2e

tools: ## Install Debian packages that the tests use, where they are missing.
	@scripts/tools

lint: web geo ## Formatting, lints, licences and advisories.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny --locked check bans licenses sources
	cd web && npm run check

bench: build ## Side-by-side runs against peers; see bench/README.md.
	python3 bench/run.py

torture: build ## The long versions of the crash tests.
	python3 torture/kill.py --binary $(BINARY) --cycles 1000
	python3 torture/plants.py

clean: ## Remove what was built, not the data.
	$(CARGO) clean
	rm -rf web/dist web/node_modules geo/node_modules
