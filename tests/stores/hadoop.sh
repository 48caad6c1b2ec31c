#!/bin/sh
# Print the folder with Hadoop's jars: its client, and those that run HDFS in one process.
#
# Needs Maven. The jars come from Maven Central, and are kept in the folder KUBECTL_FLINK_TEST_STORES, or else in the cache folder.
set -eu
packages=${KUBECTL_FLINK_TEST_STORES:-${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/test-stores}
if [ ! -d "$packages/jars" ]; then
    mkdir -p "$packages"
    folder=$(mktemp -d "$packages/new.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    mvn --quiet --batch-mode -f "$(dirname "$0")/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder/jars" >&2
    # Unless another run was faster.
    [ -d "$packages/jars" ] || mv "$folder/jars" "$packages/jars"
fi
echo "$packages/jars"
