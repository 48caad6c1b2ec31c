#!/usr/bin/env bash
# Check the workflows of .github with actionlint and zizmor, and the scripts in them with shellcheck where it is installed. Needs
# Go and Python.
cd "$(dirname "$0")/.."
. tests/strict.sh
set_up actionlint zizmor
actionlint=$(tests/tools.sh actionlint)
zizmor=$(tests/tools.sh zizmor)
"$actionlint/actionlint"
"$zizmor/bin/zizmor" --offline --no-progress .github
