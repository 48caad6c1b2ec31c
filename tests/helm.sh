#!/usr/bin/env bash
# Compare the objects of the Helm chart with those of `kubectl flink operator install`.
#
# Builds Helm once, with Go, unless HELM names the program.
cd "$(dirname "$0")/.."
. tests/strict.sh
set_up helm
HELM=${HELM:-$(tests/tools.sh helm)/helm}
export HELM
cargo build --locked
helm/package.sh
tests/alone.sh "$HELM" lint --strict target/chart/kubectl-flink-operator
cargo test --locked --test it -- --ignored --nocapture chart:: kustomize::
