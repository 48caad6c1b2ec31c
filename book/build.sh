#!/bin/sh
# Make a book with search of the documents: target/book/index.html. Installs mdBook for the project alone where it is missing.
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
