#!/bin/sh
# Measure the operator with COUNT deployments (default 200) and print the figures next to the Java operator's.
#
#   bench/run.sh [COUNT] [PHASE…]       phases: rest one restart hanging failover all waves (default: all but waves)
#
# Creating the deployments is always measured. The script starts an API server with
# `kubectl flink sandbox up --control-plane-only`, and flinkworld instead of Flink. BENCH_KUBECONFIG uses an existing
# API server (with the CRDs, and an empty namespace `default`), BENCH_PROGRAM another version of the program. Figures
# and logs stay in target/bench.
set -eu
cd "$(dirname "$0")/.."
count=${1:-200}
[ $# -eq 0 ] || shift
phases=${*:-rest one restart hanging failover all}
[ "$phases" != create ] || phases=
. bench/ground.sh

"$alone" KUBECONFIG="$KUBECONFIG" target/debug/examples/bench run "$count" "$phases" "$KUBECONFIG" "$world" "$out/figures-$count.json" -- \
    "$measured" operate --all-namespaces --flink-rest-address "$world"
[ "$count" -gt 1000 ] || "$alone" KUBECONFIG="$KUBECONFIG" bench/commands.sh "$measured"
