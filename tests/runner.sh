#!/bin/sh
# How Cargo runs what it has built (`.cargo/config.toml`): tests through alone.sh, everything else directly.
case $1 in
*/deps/*-????????????????)
    export KUBECTL_FLINK_TEST_TARGET="${1%/*/deps/*}"
    if [ -n "${KUBECTL_FLINK_TEST_SECONDS:-}" ]; then
        # Rust's test harness only reports the seconds of each test as an unstable feature.
        set -- RUSTC_BOOTSTRAP=1 "$@" -Z unstable-options --report-time --logfile "$KUBECTL_FLINK_TEST_SECONDS/tests-$$"
    fi
    exec "$(dirname "$0")/alone.sh" "$@"
    ;;
esac
exec "$@"
