# The front door: `make help`. The work is done by CMake, Ninja and the scripts in tools/.
BUILD ?= build
PREFIX ?= /usr/local
SEED ?= 1
HOURS ?= 200
FUZZ_SECONDS ?= 20
SOAK_SECONDS ?= 600
STAGES ?=
ARGS ?=
MODEL ?=
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

.PHONY: all setup build models demo experiment test check check-checkers arm64 abi python vllm lmcache sglang wheel trials bench fuzz soak sim fmt tidy install uninstall clean help
.DEFAULT_GOAL := all

help: ## this list
	@echo 'make VERB, with VERB one of:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile
	@echo 'The demo and the tests bring what they need; `make` alone uses what is there.'

all: ## build the programs and libraries into build/ (the default; with llama.cpp when it was fetched before)
	@tools/setup build
	@tools/build $(BUILD)

setup: ## install every Debian package, llama.cpp and the weights, so that the rest works offline
	@tools/setup dev
	@tools/get-llama
	@tools/get-model

models: ## fetch every model that has a name (skymem model ls), 1.9 GB
	@tools/get-model --all

demo: ## answer a long shared prompt cold, from memory, from disk and from the sky (MODEL=NAME, ARGS="--json" …)
	@tools/setup build
	@tools/get-llama >/dev/null
	@tools/get-model $(MODEL)
	@tools/build $(BUILD)
	@$(BUILD)/skymem demo --model "$$(tools/get-model --cached $(MODEL))" $(ARGS)

experiment: ## the authors' experiment: 30 tokens without a cache, and from ten satellites (MODEL=NAME, ARGS="--rounds 1" …)
	@tools/setup build
	@tools/get-llama >/dev/null
	@tools/get-model $(or $(MODEL),qwen2.5-coder-1.5b)
	@tools/build $(BUILD)
	@tools/experiment $(BUILD) --model "$$(tools/get-model --cached $(or $(MODEL),qwen2.5-coder-1.5b))" $(ARGS)

test: ## build, run every test and count (ARGS="-R disk" runs those whose name matches)
	@tools/setup build
	@tools/get-llama >/dev/null || true
	@tools/get-model >/dev/null || true
	@tools/build $(BUILD)
	@tools/test $(BUILD) $(ARGS)

check: ## sanitizers, long runs, mutations, the static analyser (60 to 90 minutes on two cores; STAGES="asan tidy": these alone)
	@tools/setup dev
	@tools/setup cross
	@tools/get-model qwen2.5-coder-0.5b >/dev/null || true
	@tools/check $(STAGES)

python: ## fetch torch and Transformers (300 MB); test the Python package with them, on real weights
	@tools/setup build
	@tools/get-model >/dev/null || true
	@tools/get-model qwen2.5-coder-0.5b >/dev/null || true
	@tools/build $(BUILD)
	@tools/transformers $(BUILD)
	@tools/test $(BUILD) -R 'integration/(python|transformers)'

vllm: ## fetch torch and vLLM for the CPU (a gigabyte); test the connector in real engines
	@tools/setup build
	@tools/build $(BUILD)
	@tools/vllm $(BUILD)
	@tools/test $(BUILD) -R 'integration/vllm'

check-checkers: ## build bugs on purpose, and see that the simulator's checkers find each (5 to 10 minutes)
	@tools/setup build
	@tools/check-checkers

arm64: ## build for arm64 with libraries of its own (130 MB to fetch), and let qemu run the tests in C (ARGS="-R codec": some)
	@tools/setup build
	@tools/setup cross
	@tools/arm64 build-arm64 $(ARGS)

lmcache: ## fetch torch and LMCache (1.9 GB on disk); test the plug-in in LMCache itself
	@tools/setup build
	@tools/build $(BUILD)
	@tools/venv $(BUILD) lmcache
	@tools/test $(BUILD) -R 'integration/lmcache'

sglang: ## fetch torch and SGLang's cache (2.4 GB on disk); test the storage backend under it
	@tools/setup build
	@tools/build $(BUILD)
	@tools/venv $(BUILD) sglang
	@tools/test $(BUILD) -R 'integration/sglang'

wheel: ## the Python package as a wheel with the libraries inside, for this and other machines
	@tools/setup build
	@tools/wheel $(BUILD) --repair

abi: ## write tools/*.abi again: what programs see of the libraries (make check compares)
	@tools/setup dev
	@tools/build $(BUILD)
	@tools/abi --write $(BUILD)

trials: ## install into a scratch folder and run the programs of tests/trials against it
	@tools/setup build
	@tools/build $(BUILD)
	@SKYMEM_BUILD=$(BUILD) bash tests/integration/trials_test.sh

bench: ## measure everything; tables go to bench/results/
	@tools/setup build
	@tools/build $(BUILD)
	@bench/codec_peers.py $(BUILD) || echo 'bench/codec_peers.py needs PyPI and the weights'
	@tools/bench $(BUILD)
	@bench/mooncake.py $(BUILD) || echo 'bench/mooncake.py needs PyPI'
	@bench/slot_file.py $(BUILD) || echo 'bench/slot_file.py needs llama.cpp and the weights: make demo fetches both'

fuzz: ## let libFuzzer loose on every parser, FUZZ_SECONDS=20 each
	@tools/setup dev
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

soak: ## 64 clients of a host, stopped and killed at random, for SOAK_SECONDS=600
	@tools/setup build
	@tools/build $(BUILD)
	@SKYMEM_SOAK_SECONDS=$(SOAK_SECONDS) $(BUILD)/host-soak_test

sim: ## run every scenario in virtual time with SEED=1, then random skies of that seed for HOURS=200
	@tools/setup build
	@tools/build $(BUILD)
	@tools/sim $(BUILD) $(SEED) $(HOURS)

fmt: ## format all C sources in place
	@tools/setup dev
	@tools/format -i

tidy: ## the shape of the sources: sizes, dependencies, forbidden calls, formatting
	@tools/setup dev
	@tools/tidy
	@tools/format --dry-run -Werror

install: ## install under PREFIX=/usr/local (DESTDIR is honoured; without it root tells the loader)
	@tools/setup build
	@tools/build $(BUILD)
	@cmake --install $(BUILD) --prefix "$(PREFIX)" --strip
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || /sbin/ldconfig

uninstall: ## remove what install put under PREFIX (DESTDIR is honoured)
	@tools/setup build
	@tools/build $(BUILD)
	@tools/uninstall $(BUILD) "$(PREFIX)"

clean: ## remove what was built (not what was fetched)
	@rm -rf build build-asan build-tsan build-fuzz build-bugs build-mutate build-arm64
