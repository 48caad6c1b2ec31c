#!/bin/sh
# Measure the operator with COUNT deployments (default 200) and print the figures beside the Java operator's.
#
#   bench/run.sh [COUNT]
#
# Lays the ground itself: an API server from `kubectl flink sandbox up --control-plane-only`, and flinkworld
# in the place of Flink. BENCH_KUBECONFIG uses an API server that is there (with the CRDs, and an empty
# namespace `default`). Figures and logs stay in target/bench.
set -eu
cd "$(dirname "$0")/.."
count=${1:-200}
program=$PWD/target/release/kubectl-flink
out=$PWD/target/bench
world=127.0.0.1:${BENCH_PORT:-18081}
mkdir -p "$out"
[ -x "$program" ] || { echo "bench: \`$program\` is missing: run \`make release\`" >&2; exit 1; }
command -v go >/dev/null || { echo "bench: needs Go, to build bench/flinkworld" >&2; exit 1; }

(cd bench/flinkworld && go build -o "$out/flinkworld" .)
cargo build --locked --quiet --example bench

sandbox=bench-$$
world_pid=
finish() {
    [ -z "$world_pid" ] || kill "$world_pid" 2>/dev/null || true
    [ -n "${BENCH_KUBECONFIG:-}" ] || "$program" sandbox down --name "$sandbox" >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ -n "${BENCH_KUBECONFIG:-}" ]; then
    KUBECONFIG=$BENCH_KUBECONFIG
else
    KUBECONFIG=$out/kubeconfig
    rm -f "$KUBECONFIG"
    "$program" sandbox up --control-plane-only --name "$sandbox" --kubeconfig "$KUBECONFIG"
fi
export KUBECONFIG
"$program" crds --apply
"$program" init --yes --skip-crds --namespace default

"$out/flinkworld" -kubeconfig "$KUBECONFIG" -listen "$world" > "$out/flinkworld.log" 2>&1 &
world_pid=$!
sleep 2

target/debug/examples/bench "$KUBECONFIG" "$world" "$count" "$out/figures-$count.json" -- \
    "$program" operate --all-namespaces --flink-rest-address "$world"

bench/commands.sh "$program"
