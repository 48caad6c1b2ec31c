#!/bin/sh
# Run a program with an environment of its own: no setting of the machine or the user changes what it does, and it finds none
# of their files.
#
#   tests/alone.sh [NAME=VALUE…] PROGRAM [ARGUMENT…]
#
# Home and temporary files are in target/tmp. It shares the user's cache, which holds what takes minutes to build.
set -eu
tmp=${KUBECTL_FLINK_TEST_TARGET:-${CARGO_TARGET_DIR:-$(dirname "$0")/../target}}/tmp
mkdir -p "$tmp/home"
tmp=$(cd "$tmp" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}
set -- HOME="$tmp/home" TMPDIR="$tmp" XDG_CACHE_HOME="$cache" LANG=C.UTF-8 TZ=UTC TERM=xterm RUST_LIB_BACKTRACE=0 "$@"
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case $name in
    # Where programs, libraries and certificates are.
    PATH | JAVA_HOME | LD_LIBRARY_PATH | DYLD_* | SSL_CERT_FILE | SSL_CERT_DIR) ;;
    # What Cargo and Rust tools pass to a test.
    CARGO | CARGO_* | NEXTEST | NEXTEST_* | RUST_BACKTRACE | RUST_MIN_STACK | RUST_TEST_* | LLVM_PROFILE_FILE | *SAN_OPTIONS) ;;
    # Settings of tests; see docs/testing.md.
    HELM | UPDATE_EXPECT | TRYCMD | SNAPSHOTS | PROPTEST_* | KUBECTL_FLINK_TEST_* | KUBECTL_FLINK_ANOTHER_SEED) ;;
    KUBECTL_FLINK_EXPLORATION | KUBECTL_FLINK_FAULT_* | KUBECTL_FLINK_FUZZ_* | KUBECTL_FLINK_NEMESIS_*) ;;
    KUBECTL_FLINK_SIMULATION_CASES) ;;
    *) set -- -u "$name" "$@" ;;
    esac
done
exec env "$@"
