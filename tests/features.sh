#!/bin/sh
# Check that the program is built from the same crates, with the same features, as its tests: else `cargo build` after
# `cargo test` builds many of them a second time.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
crates() {
    "${CARGO:-cargo}" tree --locked --prefix none --edges "$1" --format '{p} [{f}]' | sed 's/ (\*)$//' | sort -u
}
crates normal,build >"$folder/program"
crates normal,build,dev >"$folder/tests"
cut -d ' ' -f 1,2 "$folder/program" >"$folder/names"
# Of the tests' crates those that the program has too.
grep -F -f "$folder/names" "$folder/tests" | comm -13 "$folder/program" - >"$folder/others"
if [ -s "$folder/others" ]; then
    echo "features that only dev-dependencies ask for; name them in [dependencies], too:" >&2
    cat "$folder/others" >&2
    exit 1
fi
