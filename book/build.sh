#!/bin/sh
# Build a searchable book of the documents: target/book/index.html. If mdBook is missing, installs it for this project only.
set -eu
cd "$(dirname "$0")/.."
version=0.5.4
if ! command -v mdbook >/dev/null; then
    tools=$PWD/target/tools
    [ -x "$tools/bin/mdbook" ] || ${CARGO:-cargo} install mdbook --version "$version" --locked --root "$tools"
    PATH=$tools/bin:$PATH
fi
mdbook build book
echo "target/book/index.html"
