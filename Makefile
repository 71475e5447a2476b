# Everything a developer or CI runs. `make help` lists the targets; each can be run again at no cost when
# nothing changed. CONTRIBUTING.md explains the choices.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
export PYTHON

# More for pytest: `make test-python PYTEST_ARGS="-k slices -x"`, or `-n 2` for both cores.
PYTEST_ARGS ?=
# More for cargo test: `make test-rust CARGO_TEST_ARGS="-- slices"`.
CARGO_TEST_ARGS ?=

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# In CI a Cargo.lock that is behind is an error; a developer who adds a dependency wants it updated.
LOCKED := $(if $(CI),--locked)
# Always the whole workspace, never one package: another selection means other features of shared
# dependencies, and cargo would build these once more.
WORKSPACE := --workspace $(LOCKED)

VENV := .venv/bin
BENCH_VENV := .venv-bench/bin
NATIVE := python/lacus/_native.abi3.so

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# ---------------------------------------------------------------- tests

.PHONY: test
test: tools format lint build servers torch spark test-rust stubs test-python ## all that CI runs: format, lints, Rust and Python tests

.PHONY: tools
tools:
	@for tool in cargo cc $(PYTHON); do command -v $$tool >/dev/null || { \
	  echo "make: no '$$tool' here; needed are Rust (rustup), a C compiler and Python 3.11 with venv" >&2; exit 1; }; done

.PHONY: format
format: ## is the code formatted? (cargo fmt changes it)
	cargo fmt --all --check

.PHONY: lint
lint: lint-python ## clippy on all targets, ruff and mypy on the package: a warning is an error
	cargo clippy $(WORKSPACE) --all-targets -- -D warnings

.PHONY: lint-python
lint-python: .venv/.made
	$(VENV)/ruff check --no-cache --config python/pyproject.toml python/lacus
	MYPY_CACHE_DIR=.cache/mypy $(VENV)/python -m mypy --config-file python/pyproject.toml python/lacus

# Plain cargo and a copy instead of `maturin develop`: maturin sets variables that pyo3 is rebuilt for, and
# selects one package, so that cargo's own builds and maturin's would keep rebuilding each other's.
# The module is replaced, not overwritten: a process that has the old one mapped keeps it.
define copy_native
	@cmp -s $(TARGET_DIR)/debug/lib_native.so $(NATIVE) || { \
	  cp $(TARGET_DIR)/debug/lib_native.so $(NATIVE).new && mv -f $(NATIVE).new $(NATIVE); }
endef

.PHONY: build
build: .venv/.made ## the libraries, the `lacus` command, all tests, and the Python package in .venv
	cargo build $(WORKSPACE) --all-targets
	$(copy_native)

.PHONY: package
package: .venv/.made
	cargo build $(WORKSPACE)
	$(copy_native)

.PHONY: test-rust
test-rust: servers ## Rust tests and doctests, servers of object stores beside them
	scripts/with-s3 scripts/with-gcs scripts/with-azure cargo test $(WORKSPACE) --no-fail-fast $(CARGO_TEST_ARGS)

.PHONY: slt
slt: ## DataFusion's own logic tests, with every table in a dataset of ours: fetched, once, and run
	@scripts/setup-slt
	scripts/with-slt cargo test $(WORKSPACE) --test slt $(CARGO_TEST_ARGS)

.PHONY: test-damage
test-damage: ## every byte of a small dataset flipped, one at a time (long: not timed yet)
	LACUS_TEST_DAMAGE=all cargo test $(WORKSPACE) --test it -- damage_is_never_data --nocapture

.PHONY: test-python
test-python: build servers ## Python tests
	scripts/run-pytest $(PYTEST_ARGS)

.PHONY: stubs
stubs: build ## do the type stubs agree with the native module?
	@if compgen -G 'python/lacus/_native*.pyi' >/dev/null || compgen -G 'python/lacus/_native/*.pyi' >/dev/null; then \
	  echo "stubtest lacus._native"; MYPY_CACHE_DIR=.cache/mypy $(VENV)/python -m mypy.stubtest lacus._native; fi

.PHONY: s3
s3: .venv/.made ## the S3 server of the tests: builds MinIO, once
	@scripts/setup-s3

.PHONY: gcs
gcs: .venv/.made ## the server of Google's protocol: builds fake-gcs-server, once
	@scripts/setup-gcs

.PHONY: azure
azure: ## the server of Azure's protocol: installs Azurite, once
	@scripts/setup-azure

.PHONY: servers
servers: s3 gcs azure

# ---------------------------------------------------------------- documentation, demo and benchmarks

.PHONY: docs
docs: tools package ## docs/cli-reference.md, from the help of the command, and docs/functions.md, from the functions
	LACUS_TEST_CLI="$(abspath $(TARGET_DIR))/debug/lacus" $(VENV)/python scripts/cli-reference
	$(VENV)/python -c "import pathlib, lacus._native as n; pathlib.Path('docs/functions.md').write_text(n.functions_page())"

.PHONY: demo
demo: tools package ## the guided tour
	$(VENV)/python examples/demo.py

.PHONY: release
release: tools ## the `lacus` command for others, in target/shipped: small, its line tables beside it
	cargo build $(WORKSPACE) --profile shipped
	scripts/split-debug $(TARGET_DIR)/shipped/lacus

.PHONY: wheel
wheel: tools .venv/.made ## a release wheel in .cache/wheels
	rm -rf .cache/wheels
	$(VENV)/maturin build --release --manifest-path python/Cargo.toml --out .cache/wheels

.PHONY: bench
bench: wheel .venv-bench/.made ## against the peers, on a release wheel; results in docs/benchmarks.md
	$(BENCH_VENV)/python -m pip install --quiet --no-input --force-reinstall --no-deps .cache/wheels/lacus-*.whl
	$(BENCH_VENV)/python bench/run.py $(BENCH_ARGS)

# ---------------------------------------------------------------- environments

# The package is used from its sources: a line in a .pth file is all an editable install would add.
.venv/.made: python/requirements-test.txt scripts/setup-venv
	scripts/setup-venv .venv -r python/requirements-test.txt
	@$(VENV)/python -c 'import pathlib, sysconfig; \
	  pathlib.Path(sysconfig.get_path("purelib"), "lacus-sources.pth").write_text("$(CURDIR)/python\n")'
	@touch $@

.venv-bench/.made: bench/requirements.txt bench/requirements-compute.txt scripts/setup-venv
	scripts/setup-venv .venv-bench -r bench/requirements.txt
	@grep -v '^#' bench/requirements-compute.txt | while read -r peer; do \
	  $(BENCH_VENV)/python -m pip install --quiet --disable-pip-version-check --no-input "$$peer" </dev/null || \
	  printf '\n!!! %s could not be installed: it is LEFT OUT of the benchmark\n\n' "$$peer" >&2; done
	@touch $@

.PHONY: torch
torch: .venv/.made
	@scripts/setup-torch

.PHONY: spark
spark: .venv/.made
	@scripts/setup-spark

.PHONY: clean
clean: ## removes what was built; servers and Spark stay in .cache
	cargo clean --quiet
	rm -rf .venv .venv-bench .cache/wheels .cache/*.env $(NATIVE) python/.pytest_cache
	find python bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: clean-all
clean-all: clean ## and servers and Spark too
	rm -rf .cache
