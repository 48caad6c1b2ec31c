#!/usr/bin/env bash
# Run the tests of `make test`, with `fast` those of `make test-fast`, with `all` those of `make test-all`. At the end print how
# long each part took, and which failed.
#
#   tests/all.sh [fast|all]
cd "$(dirname "$0")/.."
rm -rf target/tmp/seconds
. tests/phases.sh
finish() {
    status=$?
    trap - EXIT ERR
    outcome || [ "$status" -ne 0 ] || status=1
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM
cargo=${CARGO:-cargo}
what=${1:-}
if [ "$what" != fast ]; then
    if [ "$what" = all ]; then
        seed=$(date +%s)
        echo "The seed of this run is $seed: KUBECTL_FLINK_ANOTHER_SEED, KUBECTL_FLINK_FAULT_SEED and PROPTEST_RNG_SEED."
    else
        # The same in every run, so that a change only fails because of itself.
        seed=1795303101
        # Fewer seeds of each random simulation than by default.
        export KUBECTL_FLINK_SIMULATION_CASES="${KUBECTL_FLINK_SIMULATION_CASES:-12}"
        # A sixteenth of the points of the crash matrix; a third of the longest searches, and with real Flink of the points
        # and of the examples. The next commit gets another part.
        commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
        export KUBECTL_FLINK_TEST_SHARE="${KUBECTL_FLINK_TEST_SHARE:-$((commits % 16))/16}"
        echo "Of the longest tests this is share $KUBECTL_FLINK_TEST_SHARE: KUBECTL_FLINK_TEST_SHARE=$KUBECTL_FLINK_TEST_SHARE make test"
    fi
    export KUBECTL_FLINK_ANOTHER_SEED="${KUBECTL_FLINK_ANOTHER_SEED:-$seed}"
    export KUBECTL_FLINK_FAULT_SEED="${KUBECTL_FLINK_FAULT_SEED:-$seed}" PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-$seed}"
    # Incremental builds only pay off for the second build, and nothing is edited here.
    export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
fi

attempt "format" "$cargo" fmt --all --check
attempt "features" tests/features.sh
tests/built.sh restore
# Nothing else can run if this fails.
phase "build of the tests" "$cargo" test --workspace --locked --no-run
attempt "lints" "$cargo" clippy --workspace --locked --all-targets -- -D warnings
tests/built.sh keep
# Many tests wait for a server or an operator they have started.
attempt "unit tests, simulations, explorations, command line" env RUST_TEST_THREADS=8 "$cargo" test --workspace --locked --no-fail-fast
if [ -n "$what" ]; then
    attempt "documentation" env RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" \
        "$cargo" doc --workspace --locked --no-deps --document-private-items
    attempt "dependencies" tests/dependencies.sh
    attempt "workflows" tests/workflows.sh
fi
if [ "$what" = fast ]; then exit 0; fi
# Before the scripts that need them run side by side.
attempt "tools" tests/tools.sh
together tests/artifacts.sh tests/browser.sh tests/stores.sh tests/helm.sh tests/monitoring.sh
attempt "tests/cluster.sh" tests/cluster.sh ${what:+"$what"}
if [ "$what" = all ]; then
    attempt "tests/bare.sh" tests/bare.sh
    attempt "mutations" tests/mutations.sh
fi
