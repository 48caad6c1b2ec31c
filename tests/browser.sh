#!/usr/bin/env bash
# Run the tests of the console in a real Chromium, and check the accessibility of its pages with axe.
cd "$(dirname "$0")/.."
. tests/strict.sh
set_up chromium axe
KUBECTL_FLINK_TEST_AXE=$(tests/tools.sh axe)/axe.min.js
export KUBECTL_FLINK_TEST_AXE
"${CARGO:-cargo}" test --locked --test it -- --ignored cli::dashboard::browser
