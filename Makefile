# The one entry point. `make help` lists what it can do.
.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/drydock
CARGO_DENY := $(CACHE)/cargo/bin/cargo-deny
CARGO_DENY_VERSION := 0.20.2
CLUSTER := cargo run --quiet --locked --package drydock-cluster --
# Values for `make install`, such as HELM_ARGS='--set controller.replicas=2'.
HELM_ARGS ?=
E2E_CLUSTER := $(or $(DRYDOCK_E2E_CLUSTER),e2e)
NAMESPACE ?= drydock-system
# Arguments for the test programs, such as TEST_ARGS=b097.
TEST_ARGS ?=
# Sections to measure, such as BENCH_ARGS='sequential rates'.
BENCH_ARGS ?=

step = @printf '\n==> %s\n' '$(1)'

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  DRYDOCK_CLUSTER=local|kind|current chooses the cluster of demo and e2e (local: built from source, needs root)."

.PHONY: demo
demo: setup ## Show the whole thing: a cluster, the chart, a monorepo, a tool run
	cargo run --locked --package drydock-e2e --bin demo

.PHONY: test
test: check unit api e2e ## Everything that can fail: check, unit, API and end-to-end tests

.PHONY: check
check: setup ## Formatting, lints, docs, licences, layers, generated files, chart
	$(call step,formatting)
	cargo fmt --all --check
	$(call step,lints)
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	$(call step,documentation)
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --all-features --quiet
	$(call step,licences$(comma) bans$(comma) sources)
	@$(MAKE) deny
	$(call step,generated files)
	cargo run --quiet --locked --package drydock-crds --bin crdgen -- --check .
	$(call step,layers and invariants)
	cargo test --quiet --locked --package drydock-tests --test architecture
	$(call step,chart and examples on a real API server)
	cargo test --quiet --locked --package drydock-tests --test chart --test examples

.PHONY: unit
unit: setup ## Unit tests of every crate
	$(call step,unit tests)
	cargo test --locked --no-fail-fast --workspace --all-features --exclude drydock-tests --exclude drydock-e2e --exclude drydock-cluster -- $(TEST_ARGS)

.PHONY: api
api: setup ## Tests on a real API server without nodes
	$(call step,API tests)
	cargo test --locked --no-fail-fast --package drydock-cluster --package drydock-tests -- $(TEST_ARGS)

.PHONY: e2e
e2e: setup ## Tests on a real cluster with real pods
	$(call step,end-to-end tests)
	@case "$(DRYDOCK_CLUSTER)" in ''|local) \
	  trap 'exit 130' INT; trap 'exit 143' TERM; trap '$(CLUSTER) down --name $(E2E_CLUSTER)' EXIT; \
	  $(CLUSTER) up --name $(E2E_CLUSTER) || exit;; \
	esac; \
	cargo test --locked --no-fail-fast --package drydock-e2e -- $(TEST_ARGS)

.PHONY: bench
bench: setup ## Measure it on a real cluster; BENCH_ARGS names sections (docs/benchmarks.md)
	cargo bench --quiet --locked --package drydock-e2e --profile image --bench drydock -- $(BENCH_ARGS)

.PHONY: deny
deny: $(CARGO_DENY)
	$(CARGO_DENY) --locked check --hide-inclusion-graph bans licenses sources

.PHONY: advisories
advisories: $(CARGO_DENY) ## Known vulnerabilities (fetches the RustSec database)
	$(CARGO_DENY) --locked check advisories

$(CARGO_DENY):
	$(call step,cargo-deny $(CARGO_DENY_VERSION)$(comma) once)
	cargo install --quiet --locked --debug --root $(CACHE)/cargo --version $(CARGO_DENY_VERSION) cargo-deny

.PHONY: generate
generate: setup ## Write what is generated: definitions, chart templates, reference, kustomize base
	cargo run --quiet --locked --package drydock-crds --bin crdgen -- .
	DRYDOCK_GENERATE=1 cargo test --quiet --locked --package drydock-tests --test chart the_kustomize_base

.PHONY: cluster-up
cluster-up: setup ## Start a real cluster on this machine and print its kubeconfig
	$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## Take it down again
	$(CLUSTER) down

.PHONY: install
install: setup ## Install the chart into the current kubeconfig, and the kubectl plugin
	@set -e; PATH="$$($(CLUSTER) tools | paste -s -d :):$$PATH"; \
	helm upgrade --install drydock charts/drydock --namespace $(NAMESPACE) --create-namespace --wait --timeout 5m $(HELM_ARGS)
	cargo install --quiet --locked --path kubectl-drydock

.PHONY: clean
clean: ## Take every cluster down and remove what was built here (the tools' cache stays)
	@if [ -d "$(or $(XDG_STATE_HOME),$(HOME)/.local/state)/drydock/clusters" ]; then $(CLUSTER) down --all; fi
	cargo clean

.PHONY: setup
setup:
	@.ci/setup

comma := ,
