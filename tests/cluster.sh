#!/usr/bin/env bash
# Run the tests that need a cluster, in a sandbox of their own that is removed afterwards.
#
#   tests/cluster.sh                 what CI runs
#   tests/cluster.sh all             also ::long::, which takes another hour and needs a quiet machine, and the examples in
#                                    Python and SQL, whose images take minutes to build
#   tests/cluster.sh NAME            only tests whose name contains NAME
#   tests/cluster.sh nemesis         jobs on real Flink while everything fails (docs/nemesis.md), for
#                                    KUBECTL_FLINK_NEMESIS_MINUTES (10), from KUBECTL_FLINK_NEMESIS_SEED (another each time)
#   KUBECTL_FLINK_TEST_FLINK=2.3 tests/cluster.sh e2e::snapshots
#                                    with this version of Flink, instead of the one this commit uses
#   KUBECTL_FLINK_TEST_FLINK=2.2 tests/cluster.sh smoke
#                                    the few tests of a version between those: upgrades, savepoints, session jobs
#   KUBECTL_FLINK_FAULT_POINTS=6 tests/cluster.sh faults::
#                                    kills the operator at some writes of each scenario, instead of at every one
#
#   KUBECTL_FLINK_TEST_PACKAGES=target/packages tests/cluster.sh helm_installs_
#                                    with the operator's image and the chart that `make rehearse` made, or a release
#
# Needs root on Linux, Go, a JDK, Maven, OpenSSL, Python and kubectl. KUBECTL_FLINK_TEST_KUBECONFIG uses an existing sandbox, with the
# images flink:1.20 and flink:2.3 (for `all` and `smoke` also flink:2.2), that of the operator, and that of tests/python-image.py. KUBECTL_FLINK_TEST_KEEP=1 keeps the
# namespaces, so that you can look at them.
cd "$(dirname "$0")/.."
. tests/phases.sh
# Versions of Flink between those of the other tests.
between=
case "${1:-}" in all | smoke) between=flink_between ;; esac
if [ "${KUBECTL_FLINK_TEST_FLINK:-}" = 2.2 ]; then between=flink_between; fi
smoke="e2e::upgrades_ e2e::snapshots:: e2e::session_jobs::"
# Here, because tests do not see what this machine needs for downloads, such as a proxy.
if [ -n "$between" ]; then set_up sandbox "$between"; fi
case "${1:-}" in
api_server* | faults*) set_up helm sandbox ;;
smoke) set_up helm sandbox flink ;;
nemesis*) set_up helm sandbox flink python s3_plugin ;;
all | e2e | e2e:: | *example* | *python*) set_up helm sandbox flink chromium python hadoop kerberos pyflink ;;
*) set_up helm sandbox flink chromium python hadoop kerberos ;;
esac
# What a release publishes, instead of what is built here.
packages=${KUBECTL_FLINK_TEST_PACKAGES:-}
if [ -n "$packages" ]; then
    packages=$(cd "$packages" && pwd)
    (cd "$packages" && sha256sum --check --quiet --ignore-missing SHA256SUMS)
fi
case "${1:-}$packages" in
nemesis* | */*) ;;
*)
    # The operator's image contains only this program: statically linked, and here without debug information.
    cargo rustc --locked --bin kubectl-flink -- -C target-feature=+crt-static -C strip=debuginfo
    mkdir -p target/static
    cp target/debug/kubectl-flink target/static/kubectl-flink
    ;;
esac
cargo build --locked
program=$PWD/target/debug/kubectl-flink
HELM=${HELM:-$(tests/tools.sh helm)/helm}
export HELM
helm/package.sh
version=$(sed -n 's/^version: //p' helm/kubectl-flink-operator/Chart.yaml)
export KUBECTL_FLINK_TEST_CHART="${packages:-$PWD/target/chart}/kubectl-flink-operator-$version.tgz"
sandbox=test-$$
# Next to the user's sandboxes, which have other names: a node needs short paths, and a file system that supports overlays.
unset KUBECTL_FLINK_SANDBOX_STATE
folder=$(mktemp -d)
# A program that is not given a kubeconfig must not use the user's.
export KUBECONFIG="$folder/kubeconfig"

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

flink_images() {
    # Built from packages, whether or not a registry answers: the same image on every machine.
    export KUBECTL_FLINK_IMAGE_FROM="${KUBECTL_FLINK_IMAGE_FROM:-packages}"
    # shellcheck disable=SC2086 # one word for each tool
    versions=$(tests/tools.sh flink $between) || return
    for version in $versions; do
        "$program" sandbox flink-image --name "$sandbox" --version "$version" || return
    done
}

images() {
    flink_images || return
    if [ -n "$packages" ]; then
        # The layout for all machines, of which the node takes its own.
        "$program" sandbox load-image "$packages/kubectl-flink-operator-image-v$version.tar" --name "$sandbox"
        return
    fi
    target/static/kubectl-flink operator image --file "$folder/operator.tar" \
        && "$program" sandbox load-image "$folder/operator.tar" --name "$sandbox" \
        && rm "$folder/operator.tar"
}

python_image() {
    flink=$("$program" sandbox flink-image --name "$sandbox" -o json | sed -n 's/.*"archive": *"\([^"]*\)".*/\1/p') \
        && tests/python-image.py "$flink" "$folder/python.tar" \
        && "$program" sandbox load-image "$folder/python.tar" --name "$sandbox" \
        && rm "$folder/python.tar"
}

# Run the tests whose name contains one of these words, this many at a time: each has a namespace of its own.
tests() {
    lanes=$1
    shift
    words=$*
    attempt "${words%% --skip*}" cargo test --locked --test it -- --ignored --test-threads "$lanes" "$@"
}

if [ -z "${KUBECTL_FLINK_TEST_KUBECONFIG:-}" ]; then
    export KUBECTL_FLINK_TEST_KUBECONFIG="$folder/kubeconfig"
    phase sandbox "$program" sandbox up --name "$sandbox" --kubeconfig "$KUBECTL_FLINK_TEST_KUBECONFIG"
    case "${1:-}" in
    faults* | api_server*) ;;
    nemesis*) attempt images flink_images ;;
    *) attempt images images ;;
    esac
    case "${1:-}" in
    all | e2e | e2e:: | *example* | *python*)
        attempt "image with Python" python_image
        ;;
    esac
fi
# If only a share of the tests is requested, run a third of these.
first="--skip a_broken_image_ --skip all_pods_log_in_ --skip flink_answers_on_every_way --skip until_stable_answers"
second="--skip state_in_hdfs_ --skip a_standby_ --skip helm_installs_ --skip statements_run"
third="--skip a_failed_job_ --skip parallelism_is_changed --skip a_reactive_job_ --skip an_example_behind_tls"
turns=
if [ -n "${KUBECTL_FLINK_TEST_SHARE:-}" ]; then
    case $((${KUBECTL_FLINK_TEST_SHARE%/*} % 3)) in
    0) turns="$second $third" ;;
    1) turns="$first $third" ;;
    *) turns="$first $second" ;;
    esac
fi
# The same faults in every CI run; `KUBECTL_FLINK_FAULT_SEED=$(date +%s)` tries others.
export KUBECTL_FLINK_FAULT_SEED="${KUBECTL_FLINK_FAULT_SEED:-1795303101}"
case "${1:-all}" in
all)
    tests 4 api_server:: faults:: --skip faults::alone::
    # Together with those that stop their own control plane, which fill the time when only the longest are left.
    if [ "${1:-}" = all ]; then
        tests 5 e2e:: faults::alone:: conformance::flink:: --skip ::long:: --skip e2e::examples::alone::
        # With a share, half of the tests use the newest Flink already.
        KUBECTL_FLINK_TEST_FLINK=2.3
        export KUBECTL_FLINK_TEST_FLINK
        tests 5 e2e:: --skip ::long:: --skip e2e::examples --skip e2e::install
        KUBECTL_FLINK_TEST_FLINK=2.2
        # shellcheck disable=SC2086 # one word for each test
        tests 5 $smoke
        unset KUBECTL_FLINK_TEST_FLINK
        tests 1 ::long::
    else
        # What real Flink writes as HA metadata does not change with a commit, and takes minutes of waiting for its locks.
        # shellcheck disable=SC2086 # one word for each argument
        tests 5 e2e:: faults::alone:: conformance::flink:: --skip keeps_metadata --skip ::long:: --skip e2e::examples::alone:: --skip an_example_in_ $turns
    fi
    tests 1 e2e::examples::alone::
    ;;
# shellcheck disable=SC2086 # one word for each test
smoke) tests 5 $smoke ;;
*) cargo test --locked --test it -- --ignored --nocapture --test-threads 1 "$@" ;;
esac
if [ -n "$failed_phases" ]; then exit 1; fi
