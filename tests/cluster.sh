#!/bin/sh
# Run the tests that need a cluster, in a sandbox of their own that is gone afterwards.
#
#   tests/cluster.sh [NAME]          only tests whose name contains NAME
#
# Needs root on Linux, Go, a JDK and Maven; Debian packages it installs. KUBECTL_FLINK_TEST_KUBECONFIG uses a
# sandbox that is there. KUBECTL_FLINK_TEST_KEEP=1 leaves namespaces behind, to look at.
set -eu
cd "$(dirname "$0")/.."
cargo build --locked
program=$PWD/target/debug/kubectl-flink
sandbox=test-$$
folder=$(mktemp -d)

finish() {
    status=$?
    trap - EXIT
    if [ -z "${KUBECTL_FLINK_TEST_KUBECONFIG:-}" ] || [ "$KUBECTL_FLINK_TEST_KUBECONFIG" = "$folder/kubeconfig" ]; then
        "$program" sandbox down --name "$sandbox" || status=1
    fi
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ -z "${KUBECTL_FLINK_TEST_KUBECONFIG:-}" ]; then
    export KUBECTL_FLINK_TEST_KUBECONFIG="$folder/kubeconfig"
    "$program" sandbox up --name "$sandbox" --install --kubeconfig "$KUBECTL_FLINK_TEST_KUBECONFIG"
    # What the packages give, whether or not a registry answers: the same image on every machine.
    export KUBECTL_FLINK_IMAGE_FROM="${KUBECTL_FLINK_IMAGE_FROM:-packages}"
    "$program" sandbox flink-image --name "$sandbox" --install
fi
# The gap of an upgrade is a figure, and means something on a machine with nothing else to do: ask for it by name.
[ $# -gt 0 ] || set -- api_server:: e2e:: --skip the_gap_of_an_upgrade
cargo test --locked --test it -- --ignored --nocapture --test-threads 1 "$@"
