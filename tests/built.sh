#!/bin/sh
# Keep built third-party crates in the user's cache, for the next clean checkout. This saves minutes.
#
#   tests/built.sh restore   into target/debug, unless that exists
#   tests/built.sh keep      replaces what was kept for other versions
set -eu
cd "$(dirname "$0")/.."
[ -z "${CARGO_TARGET_DIR:-}" ] || exit 0
# Another compiler, version or profile has other files; Cargo knows which of them are fresh. The project's own crates do not count.
key=$({
    "${RUSTC:-rustc}" -vV
    echo "${RUSTFLAGS:-}"
    awk 'BEGIN { RS = "" } !/name = "kubectl-flink/' Cargo.lock
    sed -n '/^\[profile/,$p' Cargo.toml
} | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/built
kept=$folder/$key
case $1 in
restore)
    if [ -d "$kept" ] && [ ! -d target/debug ]; then
        mkdir -p target
        # If this is interrupted, a partial copy must not look complete.
        rm -rf target/restored
        cp -a "$kept" target/restored
        mv target/restored target/debug
    fi
    ;;
keep)
    [ ! -d "$kept" ] || exit 0
    rm -rf "$folder"
    new=$folder/new-$$
    mkdir -p "$new"
    trap 'rm -rf "$new"' EXIT
    # Nothing of this project's own crates: they differ in each checkout.
    tar -C target/debug --exclude='*kubectl[-_]flink*' --exclude='it-*' -cf - deps build .fingerprint | tar -C "$new" -xf -
    mv "$new" "$kept"
    ;;
esac
