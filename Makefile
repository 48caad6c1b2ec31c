# make help     lists the recipes
# Everything they need beyond Rust, Go, Java and Maven they install themselves or name.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: help build dist release test test-fast demo bench bench-autoscaler bench-looking image sbom chart format clean

help: ## list the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the program (target/debug/kubectl-flink)
	$(CARGO) build --locked

release: ## build what is released (target/release/kubectl-flink)
	$(CARGO) build --locked --release --features jemalloc

image: ## the operator's image, FROM nothing: target/operator-image.tar
	$(CARGO) rustc --locked --release --features jemalloc --bin kubectl-flink -- -C target-feature=+crt-static
	target/release/kubectl-flink operator image --file target/operator-image.tar

dist: ## archives, Debian packages, checksums and the krew manifest: target/dist
	CARGO="$(CARGO)" dist/package.sh

# Of the image, which is made for Linux.
sbom: ## what the program is made of, as CycloneDX: target/sbom.cdx.json
	mkdir -p target
	$(CARGO) metadata --locked --format-version 1 --features jemalloc --filter-platform x86_64-unknown-linux-gnu \
		> target/metadata.json
	$(CARGO) run --locked --example sbom -- target/metadata.json Cargo.lock target/sbom.cdx.json

chart: build ## the Helm chart: target/chart/kubectl-flink-operator-VERSION.tgz
	helm/package.sh

format: ## format the code
	$(CARGO) fmt --all

test-fast: ## format, lints, unit, property, golden and command line tests, documentation
	$(CARGO) fmt --all --check
	CARGO="$(CARGO)" tests/features.sh
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) test --locked --workspace
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --workspace --no-deps --document-private-items
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check bans licenses sources; \
	else echo "cargo-deny is not installed: deny.toml is not checked"; fi

# Of each random simulation 24 seeds, so that the whole run stays short on two cores: fewer than by default of session
# jobs (64) and of stores that go back unseen (48), and about as many of all others (16 to 32).
# One more, for them and for the fuzz targets, is the same in every run, so that a change fails by what it did alone:
# `make test KUBECTL_FLINK_ANOTHER_SEED=$(date +%s)` looks for others. What a failure prints tries the same again.
# Of the crash matrix a quarter of the points, another one for the next commit. `tests/cluster.sh faults::` tries all.
fault_share := $(shell echo $$(($$(git rev-list --count HEAD 2>/dev/null || echo 0) % 4))/4)
test: export KUBECTL_FLINK_SIMULATION_CASES ?= 24
test: export KUBECTL_FLINK_ANOTHER_SEED ?= 1795303101
test: export KUBECTL_FLINK_FAULT_SHARE ?= $(fault_share)
test: test-fast ## all tests: also against a real API server, and end to end with real Flink
	tests/artifacts.sh
	tests/stores.sh
	tests/helm.sh
	tests/monitoring.sh
	tests/cluster.sh

demo: ## from nothing to a running job; CONTEXT=name uses a cluster that is there
	CONTEXT="$(CONTEXT)" examples/demo.sh

bench: release ## figures of 200 deployments, beside the Java operator's
	bench/run.sh

bench-looking: release ## start-up, completion and lists of 5,000 deployments; KUBECONFIG=… for a real API server
	$(CARGO) run --locked --release --features jemalloc --example bench -- looking target/release/kubectl-flink $(KUBECONFIG)

bench-autoscaler: ## what 2,000 jobs of 20 vertices take of the autoscaler each minute
	$(CARGO) run --locked --release --features jemalloc --example bench -- autoscaler 2000 20 30

clean: ## remove what was built
	$(CARGO) clean
