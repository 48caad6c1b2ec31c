#!/bin/sh
# Package the chart for `helm install`: target/chart/kubectl-flink-operator-VERSION.tgz
#
#   helm/package.sh [PROGRAM]
#
# PROGRAM (default target/debug/kubectl-flink) generates the CRDs, so the chart has those of its version, and the
# repository has no copy that could differ. CHART names another folder than target/chart, which is emptied.
set -eu
cd "$(dirname "$0")/.."
program=${1:-target/debug/kubectl-flink}
version=$(sed -n 's/^version: //p' helm/kubectl-flink-operator/Chart.yaml)
out=${CHART:-target/chart}
rm -rf "$out"
mkdir -p "$out"
cp -R helm/kubectl-flink-operator "$out/"
cp LICENSE "$out/kubectl-flink-operator/"
mkdir "$out/kubectl-flink-operator/crds"
"$program" crds > "$out/kubectl-flink-operator/crds/flink.apache.org.yaml"
# The same input always gives the same package.
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 -cf - kubectl-flink-operator \
    | gzip -n9 > "$out/kubectl-flink-operator-$version.tgz"
echo "$out/kubectl-flink-operator-$version.tgz"
