#!/bin/sh
# Run the tests of jars from an S3 store and from HDFS, both started here on free ports.
#
# Needs Python, a JDK and Maven; Debian's package for venv it installs. The stores come from PyPI (moto) and Maven Central (Hadoop)
# and are kept in the folder KUBECTL_FLINK_TEST_STORES, or else in the cache folder.
set -eu
cd "$(dirname "$0")/.."
sources=$PWD/tests/stores
. tests/servers.sh
packages=${KUBECTL_FLINK_TEST_STORES:-${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/test-stores}

mkdir -p "$packages"
if [ ! -d "$packages/jars" ]; then
    mvn --quiet --batch-mode -f "$sources/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder/jars"
    mv "$folder/jars" "$packages/jars"
fi

# Something that begins as a jar does, longer than one block of the file system.
{ printf 'PK\003\004'; head -c 300000 /dev/urandom; } >"$folder/job.jar"
KUBECTL_FLINK_TEST_JAR_SUM=$(sha256sum "$folder/job.jar" | cut -d ' ' -f 1)

"$sources/s3.sh" "$folder/job.jar" "$folder/s3-address" >"$folder/s3.log" 2>&1 &
started $!
java -Xmx256m -cp "$packages/jars/*" "$sources/MiniHdfs.java" "$folder/hdfs" "$folder/job.jar" "$folder/hdfs-address" \
    >"$folder/hdfs.log" 2>&1 &
started $!

# Downloads, too, take their time.
wait_for 240 test -s "$folder/s3-address"
KUBECTL_FLINK_TEST_S3=$(cat "$folder/s3-address")
wait_for 240 test -s "$folder/hdfs-address"
KUBECTL_FLINK_TEST_HDFS=$(cat "$folder/hdfs-address")

export KUBECTL_FLINK_TEST_JAR_SUM KUBECTL_FLINK_TEST_S3 KUBECTL_FLINK_TEST_HDFS
cargo test --locked --test it -- --ignored artifact_stores::
