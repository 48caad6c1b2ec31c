#!/bin/sh
# From nothing to a running Flink job. `make demo` calls this.
#
#   CONTEXT=name examples/demo.sh    uses that context of your kubeconfig instead of a sandbox
set -eu
cd "$(dirname "$0")/.."

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
# Shows the command, then runs it.
flink() {
    printf '$ kubectl flink %s\n' "$*"
    "$program" "$@"
}

say "From nothing to a running Flink job"
cat <<PLAN
The first run takes about 10 minutes on two cores, or 20 on slow ones, and later runs one or two minutes:
  1. build the program and the components of Kubernetes (8 minutes)
  2. start a one-node Kubernetes, and build a Flink image (1 minute)
  3. run the operator, deploy a job, take a savepoint, suspend and resume (1 minute)
PLAN
if [ -z "${CONTEXT:-}" ]; then
    for tool in kind k3d minikube; do
        if command -v "$tool" >/dev/null; then
            echo "$tool is installed: \`make demo CONTEXT=NAME\` uses your own cluster instead of step 2."
        fi
    done
    if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
        echo "KUBEBUILDER_ASSETS is set: the programs in it are used."
    fi
fi

say "Building kubectl-flink"
# While one compiler waits the other can work: Go already builds packages for step 2, which continues from there.
ahead=
if [ -z "${CONTEXT:-}${KUBEBUILDER_ASSETS:-}" ] && command -v go >/dev/null; then
    (cd sandbox && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off exec go list -deps -export -trimpath ./...) \
        >/dev/null 2>&1 &
    ahead=$!
fi
built=0
cargo build --locked || built=$?
[ -z "$ahead" ] || kill "$ahead" 2>/dev/null || true
[ "$built" -eq 0 ] || exit "$built"
program=$PWD/target/debug/kubectl-flink

if [ -n "${CONTEXT:-}" ]; then
    context=$CONTEXT
else
    context=flink-sandbox
    say "Starting a one-node Kubernetes for this demo"
    flink sandbox up --install
    flink sandbox flink-image --install
fi

folder=$PWD/target/demo
mkdir -p "$folder"
operator=
finish() {
    status=$?
    trap - EXIT
    if [ -n "$operator" ]; then
        kill -INT "$operator" 2>/dev/null || true
        wait "$operator" 2>/dev/null || true
    fi
    if [ "$status" -ne 0 ]; then
        say "The demo failed. The end of the operator's log, $folder/operator.log:" >&2
        tail -n 20 "$folder/operator.log" >&2 || true
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say "Preparing the namespace"
flink init --yes --context "$context"

say "Starting the operator in the background"
printf '$ kubectl flink operate &\n'
"$program" operate --context "$context" > "$folder/operator.log" 2>&1 &
operator=$!

say "Deploying examples/basic.yaml"
flink deploy -f examples/basic.yaml --wait --timeout 5m --context "$context"
flink status basic --context "$context"

say "Taking a savepoint"
flink savepoint basic --context "$context"

say "Suspending the job with its state, and resuming it"
flink suspend basic --wait --timeout 5m --context "$context"
flink resume basic --wait --timeout 5m --context "$context"
flink status basic --context "$context"

say "The job is running. The operator of this demo stops now. Next, try:"
next() { printf '    %-60s # %s\n' "$1" "$2"; }
next "export PATH=$PWD/target/debug:\$PATH" "so that kubectl finds the plugin"
next "kubectl flink operate --context $context" "in one terminal: the operator"
next "kubectl flink status basic -w --context $context" "in another: the job"
next "kubectl flink dashboard --context $context" "or all of it in the browser"
next "kubectl flink delete basic --context $context" "takes a savepoint and stops the job"
[ -n "${CONTEXT:-}" ] || next "kubectl flink sandbox down" "removes this Kubernetes"
