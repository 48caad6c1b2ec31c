#!/bin/sh
# Write the chart as an archive that `helm install` takes: target/chart/kubectl-flink-operator-VERSION.tgz
#
#   helm/package.sh [PROGRAM]
#
# PROGRAM (default target/debug/kubectl-flink) writes the CRDs: a chart contains those of its version, and the
# repository keeps no copy that could differ.
set -eu
cd "$(dirname "$0")/.."
program=${1:-target/debug/kubectl-flink}
version=$(sed -n 's/^version: //p' helm/kubectl-flink-operator/Chart.yaml)
out=target/chart
rm -rf "$out"
mkdir -p "$out"
cp -R helm/kubectl-flink-operator "$out/"
mkdir "$out/kubectl-flink-operator/crds"
"$program" crds > "$out/kubectl-flink-operator/crds/flink.apache.org.yaml"
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/kubectl-flink-operator-$version.tgz" kubectl-flink-operator
echo "$out/kubectl-flink-operator-$version.tgz"
