#!/bin/sh
# Create, edit, suspend, resume and delete deployments for MINUTES (default 30), COUNT of them (default 200), and print
# how much the operator grows per hour: resident memory, file descriptors, tasks of its runtime.
#
#   bench/soak.sh [MINUTES] [COUNT]
#
# Sets up its environment like run.sh. Samples are in target/bench/figures-soak.json, also while it runs.
set -eu
cd "$(dirname "$0")/.."
minutes=${1:-30}
count=${2:-200}
. bench/ground.sh

"$alone" KUBECONFIG="$KUBECONFIG" KUBECTL_FLINK_LOG="warn,kube_client=off,kubectl_flink_operator::vitals=debug" \
    target/debug/examples/bench soak "$minutes" "$count" "$KUBECONFIG" "$world" "$out/figures-soak.json" -- \
    "$measured" operate --all-namespaces --flink-rest-address "$world"
