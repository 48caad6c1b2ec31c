#!/bin/sh
# Compare what the Helm chart makes with what `kubectl flink operator install` makes.
#
# Needs Go, which builds Helm once into the user's cache, unless HELM names it.
set -eu
cd "$(dirname "$0")/.."
version=v3.19.0
if [ -z "${HELM:-}" ]; then
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/helm-$version
    HELM=$folder/helm
    if [ ! -x "$HELM" ]; then
        GOBIN=$folder/new GOFLAGS=-mod=mod go install "helm.sh/helm/v3/cmd/helm@$version"
        mv "$folder/new/helm" "$HELM"
    fi
fi
export HELM
cargo build --locked
helm/package.sh
"$HELM" lint --strict target/chart/kubectl-flink-operator
cargo test --locked --test it -- --ignored --nocapture chart::
