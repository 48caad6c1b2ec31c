#!/bin/sh
# Compare the objects of the Helm chart with those of `kubectl flink operator install`.
#
# Needs Go, unless HELM names the program.
set -eu
cd "$(dirname "$0")/.."
HELM=$(tests/helm-program.sh)
export HELM
cargo build --locked
helm/package.sh
tests/alone.sh "$HELM" lint --strict target/chart/kubectl-flink-operator
cargo test --locked --test it -- --ignored --nocapture chart:: kustomize::
