#!/bin/sh
# How Cargo runs what it has built (`.cargo/config.toml`): tests alone, anything else as it is.
case $1 in
*/deps/*-????????????????)
    export KUBECTL_FLINK_TEST_TARGET="${1%/*/deps/*}"
    if [ -n "${KUBECTL_FLINK_TEST_SECONDS:-}" ]; then
        # The seconds of each test, which Rust's own harness tells only where it may do what is not stable yet.
        set -- RUSTC_BOOTSTRAP=1 "$@" -Z unstable-options --report-time --logfile "$KUBECTL_FLINK_TEST_SECONDS/tests-$$"
    fi
    exec "$(dirname "$0")/alone.sh" "$@"
    ;;
esac
exec "$@"
