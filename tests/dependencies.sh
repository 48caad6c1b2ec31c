#!/usr/bin/env bash
# Check the crates in Cargo.lock against deny.toml: bans, licences and sources, or what is given instead, such as `advisories`,
# whose data is downloaded.
cd "$(dirname "$0")/.."
. tests/strict.sh
if [ $# -eq 0 ]; then set -- bans licenses sources; fi
deny=$(tests/tools.sh deny)
"$deny/bin/cargo-deny" --locked check --hide-inclusion-graph "$@"
