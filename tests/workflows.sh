#!/bin/sh
# Check the workflows of .github with actionlint, and the scripts in them with shellcheck where it is installed. Needs Go.
set -eu
cd "$(dirname "$0")/.."
exec go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 "$@"
