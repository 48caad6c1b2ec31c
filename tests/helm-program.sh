#!/bin/sh
# Print the path of Helm. Unless HELM names it, builds it once with Go, into the user's cache.
set -eu
version=v3.19.0
if [ -z "${HELM:-}" ]; then
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/helm-$version
    HELM=$folder/helm
    if [ ! -x "$HELM" ]; then
        GOBIN=$folder/new GOFLAGS=-mod=mod go install "helm.sh/helm/v3/cmd/helm@$version" >&2
        mv "$folder/new/helm" "$HELM"
    fi
fi
echo "$HELM"
