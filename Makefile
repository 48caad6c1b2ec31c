# make help     lists the recipes
# Beyond Rust, Go, Java and Maven they install what they need, or say what is missing.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: help build dist docs release rehearse test test-all test-fast demo recording pictures bench bench-autoscaler bench-dashboard bench-looking image sbom chart format clean

help: ## list the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the program (target/debug/kubectl-flink)
	$(CARGO) build --locked

release: ## build the program as released (target/dist/kubectl-flink)
	$(CARGO) build --locked --profile dist --features jemalloc

image: sbom ## the operator's image, from scratch, as OCI layout and for docker load: target/operator-image.tar
	$(CARGO) rustc --locked --profile dist --features jemalloc --bin kubectl-flink -- -C target-feature=+crt-static
	target/dist/kubectl-flink operator image --file target/operator-image.tar --sbom target/sbom.cdx.json

dist: ## archives, Debian packages, checksums and the krew manifest: target/packages
	CARGO="$(CARGO)" dist/package.sh

rehearse: ## a release on this machine, as far as it can: target/packages
	CARGO="$(CARGO)" dist/release.sh rehearse

# For the image, which is built for Linux.
sbom: ## a bill of materials of the program, as CycloneDX: target/sbom.cdx.json
	mkdir -p target
	$(CARGO) metadata --locked --format-version 1 --features jemalloc --filter-platform x86_64-unknown-linux-gnu \
		> target/metadata.json
	$(CARGO) run --locked --example sbom -- target/metadata.json Cargo.lock target/sbom.cdx.json

chart: build ## the Helm chart: target/chart/kubectl-flink-operator-VERSION.tgz
	helm/package.sh

format: ## format the code
	$(CARGO) fmt --all

test-fast: ## format, lints, unit, property, golden and command line tests, documentation
	CARGO="$(CARGO)" tests/all.sh fast

test: ## also the tests against a real API server, and end to end with real Flink; half an hour to an hour
	CARGO="$(CARGO)" tests/all.sh

test-all: ## also all points of the crash matrix, new seeds, long runs, documentation and mutations; hours
	CARGO="$(CARGO)" tests/all.sh all

demo: ## from nothing to a running job; CONTEXT=name uses an existing cluster
	CONTEXT="$(CONTEXT)" examples/demo.sh

recording: build ## record the terminal in README.md, in the sandbox of `make demo` or with CONTEXT=name
	CONTEXT="$(CONTEXT)" examples/recording.sh

pictures: ## take the pictures of the console in docs/images, with its tests; as root
	CARGO="$(CARGO)" tests/pictures.sh

docs: ## build the documents as a searchable book: target/book
	CARGO="$(CARGO)" book/build.sh

bench: release ## measure 200 deployments, and compare with the Java operator
	bench/run.sh

bench-looking: release ## measure start-up, completion and lists of 5,000 deployments; KUBECONFIG=… for a real API server
	$(CARGO) run --locked --profile dist --features jemalloc --example bench -- looking target/dist/kubectl-flink $(KUBECONFIG)

bench-dashboard: release ## measure the console with 10,000 deployments: pages, changes, memory
	$(CARGO) run --locked --profile dist --features jemalloc --example bench -- dashboard target/dist/kubectl-flink

bench-autoscaler: ## measure the autoscaler with 2,000 jobs of 20 vertices: CPU per minute, memory
	$(CARGO) run --locked --profile dist --features jemalloc --example bench -- autoscaler 2000 20 30

clean: ## remove the build output
	$(CARGO) clean
