#!/bin/sh
# Check that the program and its tests are built from the same crates with the same features, and each crate of `crates/` alone
# as together with the others. Otherwise something is built twice.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
crates() {
    edges=$1
    shift
    ${CARGO:-cargo} tree --locked --prefix none --edges "$edges" --format '{p} [{f}]' "$@" | sed 's/ (\*)$//' | sort -u
}
none() {
    if [ -s "$folder/others" ]; then
        echo "$1; name them in Cargo.toml of crates/features," >&2
        echo "or of crates/client-features if pure crates do not need them:" >&2
        cat "$folder/others" >&2
        exit 1
    fi
}
crates normal,build >"$folder/program"
crates normal,build,dev >"$folder/tests"
cut -d ' ' -f 1,2 "$folder/program" >"$folder/names"
# The crates of the tests that the program has too.
grep -F -f "$folder/names" "$folder/tests" | comm -13 "$folder/program" - >"$folder/others"
none "features that only dev-dependencies ask for"
crates normal,build,dev --workspace >"$folder/all"
for manifest in crates/*/Cargo.toml; do
    # These are never built alone.
    case $manifest in crates/features/* | crates/client-features/*) continue ;; esac
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)
    crates normal,build,dev -p "$name" | comm -23 - "$folder/all" >"$folder/others"
    none "crates that $name has with fewer features than the workspace"
done
