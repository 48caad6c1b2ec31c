# Sourced by run.sh and soak.sh: sets up the environment of a measurement. Sets `program`, `measured`, `out`, `world` and KUBECONFIG.
program=$PWD/target/dist/kubectl-flink
# Another version to compare with: it is measured in the environment that this one sets up.
measured=${BENCH_PROGRAM:-$program}
out=$PWD/target/bench
alone=$PWD/tests/alone.sh
free_port='import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
world=127.0.0.1:${BENCH_PORT:-$(python3 -c "$free_port")}
mkdir -p "$out"
[ -x "$program" ] || { echo "bench: \`$program\` is missing: run \`make release\`" >&2; exit 1; }
command -v go >/dev/null || { echo "bench: needs Go, to build bench/flinkworld" >&2; exit 1; }

(cd bench/flinkworld && go build -o "$out/flinkworld.new" . && mv "$out/flinkworld.new" "$out/flinkworld")
cargo build --locked --quiet --example bench

sandbox=bench-$$
# Separate from the user's sandboxes. The leftovers of a killed run are here.
export KUBECTL_FLINK_SANDBOX_STATE="$PWD/target/tmp/sandboxes"
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
    KUBECONFIG=$out/kubeconfig-$sandbox
    rm -f "$KUBECONFIG"
    "$program" sandbox up --control-plane-only --name "$sandbox" --kubeconfig "$KUBECONFIG"
fi
export KUBECONFIG
"$alone" KUBECONFIG="$KUBECONFIG" "$program" crds --apply
"$alone" KUBECONFIG="$KUBECONFIG" "$program" init --yes --skip-crds --namespace default >/dev/null

# The stand-in shares the machine with the measured program.
"$alone" GOMAXPROCS=1 GOGC=50 "$out/flinkworld" -kubeconfig "$KUBECONFIG" -listen "$world" > "$out/flinkworld.log" 2>&1 &
world_pid=$!
sleep 2
