#!/bin/sh
# Run the tests of jars from an S3 store and from HDFS, both started here on free ports.
#
# Needs Python, a JDK and Maven; Debian's package for venv it installs. The stores come from PyPI (moto) and Maven Central (Hadoop).
# KUBECTL_FLINK_TEST_STORES keeps what was downloaded in that folder, for the next run.
set -eu
cd "$(dirname "$0")/.."
sources=$PWD/tests/stores
folder=$(mktemp -d)
packages=${KUBECTL_FLINK_TEST_STORES:-$folder/packages}
s3= hdfs=

finish() {
    status=$?
    trap - EXIT
    [ -z "$s3" ] || kill "$s3" 2>/dev/null || true
    [ -z "$hdfs" ] || kill "$hdfs" 2>/dev/null || true
    if [ "$status" -ne 0 ]; then
        tail -n 20 "$folder"/*.log >&2 || true
    fi
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Waits up to a minute until a command succeeds.
wait_for() {
    for _ in $(seq 120); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.5
    done
    echo "artifacts.sh: gave up waiting for: $*" >&2
    return 1
}

mkdir -p "$packages"
if [ ! -x "$packages/venv/bin/moto_server" ]; then
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        apt-get install --yes --no-install-recommends python3-venv >"$folder/apt.log" 2>&1
    fi
    python3 -m venv "$packages/venv"
    "$packages/venv/bin/pip" --quiet install 'moto[server]>=5'
fi
if [ ! -d "$packages/jars" ]; then
    mvn --quiet --batch-mode -f "$sources/pom.xml" dependency:copy-dependencies -DoutputDirectory="$packages/jars"
fi

# Something that begins as a jar does, longer than one block of the file system.
{ printf 'PK\003\004'; head -c 300000 /dev/urandom; } >"$folder/job.jar"
KUBECTL_FLINK_TEST_JAR_SUM=$(sha256sum "$folder/job.jar" | cut -d ' ' -f 1)

python=$packages/venv/bin/python
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
KUBECTL_FLINK_TEST_S3=http://127.0.0.1:$port
"$packages/venv/bin/moto_server" -H 127.0.0.1 -p "$port" >"$folder/s3.log" 2>&1 &
s3=$!
java -Xmx256m -cp "$packages/jars/*" "$sources/MiniHdfs.java" "$folder/hdfs" "$folder/job.jar" "$folder/address" \
    >"$folder/hdfs.log" 2>&1 &
hdfs=$!

cat >"$folder/upload.py" <<'PYTHON'
import sys
import boto3

store = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1",
                     aws_access_key_id="an-access-key", aws_secret_access_key="a-secret-key")
store.create_bucket(Bucket="jars")
store.upload_file(sys.argv[2], "jars", "jobs/job.jar")
PYTHON
wait_for "$python" -c "import urllib.request; urllib.request.urlopen('$KUBECTL_FLINK_TEST_S3/moto-api/')"
"$python" "$folder/upload.py" "$KUBECTL_FLINK_TEST_S3" "$folder/job.jar"
wait_for test -s "$folder/address"
KUBECTL_FLINK_TEST_HDFS=$(cat "$folder/address")

export KUBECTL_FLINK_TEST_JAR_SUM KUBECTL_FLINK_TEST_S3 KUBECTL_FLINK_TEST_HDFS
cargo test --locked --test it -- --ignored artifact_stores::
