# Shortcuts for common commands. The logic is in CMake and scripts/.

JOBS ?= $(shell nproc)
RELEASE := build/release

# One peer alone: make peers PEER=vllm
PEER ?=

# A few workloads and policies in a minute: make routing SHORT=1
SHORT ?=

# One fault alone, or those that begin so: make faults ONLY=events-
ONLY ?=

# Seconds for each fuzz target, and those to run: make fuzz SECONDS_EACH=600 TARGETS="zmtp http"
SECONDS_EACH ?= 60
TARGETS ?=

.PHONY: help build laboratory demo demo-cpu test peers cluster-test faults test-aarch64 bench bench-loadgen experiments routing routing-traces routing-learning routing-unstreamed routing-hold routing-overload routing-untuned routing-draws gateways endpoint-picker image format lint asan tsan fuzz clean

help:
	@echo "make demo         install what is missing, build, run the demo sweep, print the table"
	@echo "make demo-cpu     the same with two workers that compute a small random model"
	@echo "make test         install what is missing, build, run every test"
	@echo "make peers        the same against real vLLM, Dynamo, routers and load generators; writes docs/results/peers.md"
	@echo "make cluster-test against a real Kubernetes API server (needs Go); writes a page of results; ONLY=NAME: one test"
	@echo "make faults       workers, events, gateway and clients that fail, in real processes; writes docs/results/reliability.md; ONLY=NAME: one"
	@echo "make test-aarch64 the CPU engine's tests for 64-bit ARM, in QEMU"
	@echo "make bench        run the benchmarks and print one table; hold the simulator against the live system"
	@echo "make bench-loadgen  the load generator's errors beside other clients', and what it pays per event; on a quiet machine"
	@echo "make experiments  simulate the published experiments, write docs/results/experiments.md"
	@echo "make routing      simulate workloads, loads and routing policies, write docs/results/routing.md; SHORT=1: a first look"
	@echo "make routing-traces    the same on a production-like trace and fleets of 6 to 16 workers; TRACE=FILE: on another too"
	@echo "make routing-learning  how long kv needs to learn: wrong priors, workers that slow down, restart, change"
	@echo "make routing-unstreamed  what answers that are not streamed change: kv beside itself and beside other policies"
	@echo "make routing-hold  requests that wait until a cache has room: agents beyond memory, and what it changes elsewhere"
	@echo "make routing-overload  whom admission refuses, below and above the capacity"
	@echo "make routing-untuned  kv beside the other policies on workloads written after its weights"
	@echo "make routing-draws  kv beside the other policies on workloads and fleets that are drawn by chance"
	@echo "make gateways     several gateways against one, simulated and in real processes over NATS; writes docs/results/gateways.md"
	@echo "make endpoint-picker   a real Envoy before kvist epp: decisions, faults, costs; writes docs/results/endpoint-picker.md"
	@echo "make image        a container image of the stripped binary with its bill of materials, and its test"
	@echo "make build        build only            make format      format all sources"
	@echo "make lint         clang-tidy            make asan | tsan build and test with sanitizers"
	@echo "make fuzz         run each fuzz target under libFuzzer for a minute; SECONDS_EACH=600, TARGETS=zmtp"

build:
	@scripts/install-dependencies
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target kvist

# The simulated experiments, their acceptance criteria, and plots: not a part of the product.
laboratory: build
	@cmake --build --preset release -j $(JOBS) --target kvist-laboratory

demo: build
	@$(RELEASE)/bin/kvist sweep -f examples/sweeps/demo.yaml
	@echo
	@echo "look at it:       $(RELEASE)/bin/kvist dashboard out"
	@echo "see it live:      $(RELEASE)/bin/kvist up -f examples/deployments/live-demo.yaml --workload examples/sweeps/demo.yaml --baseline out"

demo-cpu: build
	@test -d out/small-model || $(RELEASE)/bin/kvist model create out/small-model --size small --seed 1
	@$(RELEASE)/bin/kvist sweep -f examples/sweeps/demo-cpu.yaml

test:
	@scripts/install-dependencies --tests
	@scripts/install-test-peers
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@ctest --preset release -LE '^(peers|cluster)$$' -j $(JOBS)

peers: build
	@scripts/install-dependencies --tests
	@cmake --build --preset release -j $(JOBS) --target paced_server
	@scripts/install-peers $(PEER)
	@scripts/run-peers $(RELEASE) $(PEER)

cluster-test: build
	@scripts/install-dependencies --tests
	@scripts/install-cluster-test
	@scripts/run-cluster-test $(RELEASE) $(ONLY)

endpoint-picker: build
	@scripts/install-dependencies --tests
	@cmake --build --preset release -j $(JOBS) --target paced_server
	@scripts/install-peers envoy
	@tests/peers/endpoint_picker_test.py $(RELEASE)/bin/kvist
	@benchmarks/envoy_picker.py $(RELEASE)/bin/kvist --markdown

image: build
	@scripts/install-dependencies --image
	@scripts/make-image $(RELEASE)
	@tests/image/image_test.py build/image

faults: build
	@scripts/install-dependencies --tests
	@scripts/run-faults $(RELEASE)/bin/kvist --markdown $(if $(ONLY),--only $(ONLY))

test-aarch64:
	@scripts/test-aarch64

asan tsan:
	@scripts/install-dependencies --tests
	@scripts/install-test-peers
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@ -j $(JOBS)
	@ctest --preset $@ -LE '^(peers|cluster)$$' -j $(JOBS)

bench: build
	@cmake --build --preset release -j $(JOBS) --target benchmarks
	@scripts/run-benchmarks $(RELEASE)/bin
	@benchmarks/live_vs_simulated.py $(RELEASE)/bin/kvist
	@benchmarks/what_if.py $(RELEASE)/bin/kvist

bench-loadgen: build
	@cmake --build --preset release -j $(JOBS) --target epoll_reader
	@benchmarks/loadgen_accuracy.py $(RELEASE)/bin/kvist
	@benchmarks/loadgen_beside_epoll.py $(RELEASE)/bin/kvist $(RELEASE)/bin/epoll_reader

experiments: laboratory
	@scripts/run-experiments $(RELEASE)/bin/kvist

routing: laboratory
	@scripts/run-routing $(RELEASE)/bin/kvist $(if $(SHORT),--short)

routing-traces: laboratory
	@scripts/routing/traces.py $(RELEASE)/bin/kvist $(if $(TRACE),--trace $(TRACE))

gateways: laboratory
	@scripts/install-dependencies --tests
	@scripts/routing/gateways.py $(RELEASE)/bin/kvist
	@benchmarks/gateways_live.py $(RELEASE)/bin/kvist

routing-learning: laboratory
	@scripts/routing/learning.py $(RELEASE)/bin/kvist

routing-unstreamed: laboratory
	@scripts/routing/unstreamed.py $(RELEASE)/bin/kvist

routing-hold: laboratory
	@scripts/routing/hold.py $(RELEASE)/bin/kvist

routing-untuned: laboratory
	@scripts/routing/untuned.py $(RELEASE)/bin/kvist

routing-draws: laboratory
	@scripts/routing/draws.py $(RELEASE)/bin/kvist

routing-overload: laboratory
	@scripts/routing/overload.py $(RELEASE)/bin/kvist --seeds 2

fuzz:
	@scripts/install-dependencies --tests --lint
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j $(JOBS)
	@SECONDS_EACH=$(SECONDS_EACH) scripts/run-fuzzers build/fuzz/bin $(TARGETS)

format:
	@scripts/install-dependencies --lint
	@git ls-files '*.h' '*.cc' | xargs clang-format-19 -i

lint:
	@scripts/install-dependencies --tests --lint
	@cmake --preset dev >/dev/null
	@git ls-files '*.h' '*.cc' | xargs clang-format-19 --dry-run --Werror
	@git ls-files 'src/*.cc' | xargs -P $(JOBS) -n 4 clang-tidy-19 -p build/dev --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument --extra-arg=-Wno-ignored-gch

clean:
	@rm -rf build
