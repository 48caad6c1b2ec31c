#!/bin/sh
# How Cargo runs what it has built (`.cargo/config.toml`): tests alone, anything else as it is.
case $1 in
*/deps/*-????????????????)
    export KUBECTL_FLINK_TEST_TARGET="${1%/*/deps/*}"
    exec "$(dirname "$0")/alone.sh" "$@"
    ;;
esac
exec "$@"
