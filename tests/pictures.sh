#!/bin/sh
# Retake the pictures of the console in docs/images from its tests in Chromium. This takes a few minutes.
set -eu
cd "$(dirname "$0")/.."
taken=$PWD/target/pictures
rm -rf "$taken"
mkdir -p "$taken"
export KUBECTL_FLINK_TEST_PICTURES="$taken"
tests/browser.sh
tests/cluster.sh e2e::console
cp "$taken/autoscaler-1280-light.png" "$taken/console-autoscaler.png"
cp "$taken/sign-in-1280-light.png" "$taken/console-sign-in.png"
# Only those that a document shows.
for picture in docs/images/console-*.png; do
    cp "$taken/$(basename "$picture")" "$picture"
done
