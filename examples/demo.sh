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
The first time this takes about 10 minutes on two cores, or 20 on slow ones, and one or two from then on:
  1. build the program, and beside it the parts of a Kubernetes (8 minutes)
  2. start a Kubernetes of one node, and make an image of Flink (1 minute)
  3. run the operator, deploy a job, take a savepoint, suspend and resume (1 minute)
PLAN
if [ -z "${CONTEXT:-}" ]; then
    for tool in kind k3d minikube; do
        if command -v "$tool" >/dev/null; then
            echo "$tool is installed: \`make demo CONTEXT=NAME\` uses a cluster of yours, in the place of step 2."
        fi
    done
    if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
        echo "KUBEBUILDER_ASSETS is set: its programs are used."
    fi
fi

say "Building kubectl-flink"
# Where one compiler waits the other can work: Go's begins with what step 2 builds, and step 2 goes on from there.
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
    say "Starting a Kubernetes of one node, for this demo"
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
        say "That went wrong. The end of the operator's log, $folder/operator.log:" >&2
        tail -n 20 "$folder/operator.log" >&2 || true
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say "Installing what a namespace needs"
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

say "The job runs. The operator of this demo stops now; what to type next:"
cat <<NEXT
    export PATH=$PWD/target/debug:\$PATH          # makes \`kubectl flink\` known
    kubectl flink operate --context $context                 # in one terminal: the operator
    kubectl flink status basic -w --context $context         # in another: what happens
    kubectl flink delete basic --context $context            # ends the job, after a savepoint
NEXT
[ -n "${CONTEXT:-}" ] || echo "    kubectl flink sandbox down                               # removes this Kubernetes"
