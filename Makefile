# Two commands do everything: `make demo` and `make test`. `make help` lists the rest.

# Where tests find real files; the only path outside the repository.
STEPAHEAD_TESTDATA ?= $(wildcard ../shared/data)
ifneq ($(STEPAHEAD_TESTDATA),)
export STEPAHEAD_TESTDATA := $(abspath $(STEPAHEAD_TESTDATA))
endif

# One set of flags for all, so that Go compiles each package once for programs, wheel and checks.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -buildvcs=false)

PYTHON ?= python3
export PYTHON
VENV := .venv
PY := $(VENV)/bin/python
GO_TEST := go test -race -timeout 15m
PROGRAMS := stepahead stepahead-agent stepahead-controller stepahead-worker
# Everything that the wheel is made of.
SOURCES := $(shell git ls-files '*.go' '*.c' '*.h' 'go.mod' 'go.sum' setup.py pyproject.toml cmd/version/version.txt 'pybind/python/stepahead/*' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup system peers build wheel test test-go test-python lint soak fuzz-worker bench bench-images bench-loader bench-hdfs bench-checkpoint bench-start bench-eval bench-sampler demo demo-hdfs demo-controller hdfs hdfs-jars generate golden-megatron golden-checkpoints clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: system ## install system libraries and the local Python environment (quick when nothing is missing)
	@internal/setup/python.sh

system:
	@internal/setup/system.sh

peers: setup # what the benchmarks compare with, into build/peers
	@internal/setup/peers.sh

build: system ## build the programs into bin/
	@go build -o bin/ $(addprefix ./cmd/,$(PROGRAMS))

wheel: setup build/wheel.stamp ## build the wheel and install it into .venv

build/wheel.stamp: $(SOURCES) | setup
	@echo "wheel: building"
	@rm -rf build/lib* build/bdist* build/temp* build/wheel && mkdir -p build/wheel
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel .
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheel/*.whl
	@touch $@

test: setup lint test-go test-python ## everything that CI runs

test-go: build
	@internal/setup/system.sh test
	@$(MAKE) --no-print-directory hdfs-jars
	$(GO_TEST) ./...

test-python: build wheel
	$(PY) -m pytest

lint: setup wheel ## gofmt, go vet, staticcheck, ruff, mypy, generated code
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	PYTHON=$(PY) internal/protogen/generate.sh --check
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

soak: build wheel ## the long tests: fuzzing, kill series, leaks (at most 60 minutes)
	@internal/setup/system.sh test
	@$(MAKE) --no-print-directory hdfs-jars
	internal/setup/soak.sh

fuzz-worker: ## fuzz all that a worker does to an image: TIME=1h (default 90s), JOBS=2 processes (default 1)
	internal/setup/fuzz.sh $(TIME)

bench: build wheel ## the benchmarks with their bars, each met or missed
	$(PY) benchmarks/run.py

bench-images: peers ## decoding and cropping images on one core, beside other libraries (about 10 minutes)
	$(PY) benchmarks/run.py images

bench-loader: build wheel peers ## whole loaders beside DALI, ffcv and others, with their bars (about 15 minutes)
	$(PY) benchmarks/run.py loader

bench-hdfs: setup hdfs-jars ## reading from HDFS beside other clients, on a real cluster (about 8 minutes)
	@internal/setup/peers.sh hdfs
	$(PY) benchmarks/run.py hdfs

bench-checkpoint: build wheel hdfs-jars ## checkpoints beside torch, safetensors and hdfs-native, on a real cluster and a delayed link (about 11 minutes)
	@internal/setup/peers.sh hdfs
	$(PY) benchmarks/run.py checkpoint

bench-start: build wheel hdfs-jars ## ranks that read one file at the start of a job, on nine throttled DataNodes, with the controller and without (about 15 minutes)
	$(PY) benchmarks/run.py start

bench-eval: build wheel hdfs-jars ## an evaluator in another datacenter reads a checkpoint: as torch does, with the range engine, and from the controller's copy (about 6 minutes)
	@internal/setup/peers.sh hdfs
	$(PY) benchmarks/run.py evaluation

bench-sampler: build wheel peers ## orders, mixtures, token samples and indexing beside other loaders, with their bars (about 8 minutes)
	$(PY) benchmarks/run.py sampler tokens index

demo: build wheel ## train on real photographs with agents off, on, killed, and resumed (about 5 minutes); FORMAT=tar: from WebDataset shards
	$(PY) examples/demo/demo.py $(if $(DATA),--data "$(DATA)") $(if $(FORMAT),--format $(FORMAT))

demo-hdfs: build wheel hdfs-jars ## the same on a real HDFS; a DataNode is killed with its agent (about 6 minutes)
	@go build -o build/minihdfs ./internal/hdfstest/minihdfs
	$(PY) examples/demo/demo.py --hdfs $(if $(DATA),--data "$(DATA)")

demo-controller: build wheel hdfs-jars ## two datacenters, a real HDFS each: an evaluation at the other one and a restart, without the controller and with it (about 5 minutes)
	@go build -o build/minihdfs ./internal/hdfstest/minihdfs
	$(PY) examples/demo_controller/demo.py

hdfs: hdfs-jars ## a real HDFS on this machine until Ctrl-C: HDFS="--datanodes 9 --namenodes 2" (--help lists all)
	@go run ./internal/hdfstest/minihdfs $(HDFS)

hdfs-jars: # Hadoop from Maven and our program around it, into the user's cache (quick when it is there)
	@internal/setup/system.sh hdfs
	@go run ./internal/hdfstest/minihdfs --prepare

generate: setup ## regenerate committed code
	PYTHON=$(PY) internal/protogen/generate.sh

golden-megatron: setup ## regenerate Megatron's golden orders with megatron-core itself (about a minute)
	@mkdir -p build
	$(PY) -W ignore sampler/megatron/testdata/golden.py > build/golden-megatron.json
	mv build/golden-megatron.json sampler/megatron/testdata/golden.json

golden-checkpoints: setup ## regenerate what torch, safetensors and Python's pickler say of checkpoints (half a minute)
	@mkdir -p build
	$(PY) checkpoint/safetensors/testdata/golden.py > build/golden-safetensors.json
	mv build/golden-safetensors.json checkpoint/safetensors/testdata/golden.json
	$(PY) checkpoint/dcp/pickle/testdata/golden.py > build/golden-pickle.json
	mv build/golden-pickle.json checkpoint/dcp/pickle/testdata/golden.json
	$(PY) checkpoint/dcp/testdata/hostile.py > build/golden-hostile.json
	mv build/golden-hostile.json checkpoint/dcp/testdata/hostile.json
	$(PY) -W ignore checkpoint/dcp/testdata/golden.py checkpoint/dcp/testdata
	$(PY) -W ignore checkpoint/testdata/readers.py > build/golden-readers.json
	mv build/golden-readers.json checkpoint/testdata/readers.json
	$(PY) -W ignore checkpoint/testdata/readers_megatron.py > build/golden-readers.json
	mv build/golden-readers.json checkpoint/testdata/readers_megatron.json

clean: ## remove what the targets above made, but not .venv
	rm -rf bin build demo demo-controller wheelhouse *.egg-info pybind/python/*.egg-info
