#!/bin/sh
# Install Debian's packages of Chromium and its driver if they are missing.
set -eu
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then exit 0; fi
export DEBIAN_FRONTEND=noninteractive
# Without a font, nothing is as wide as people see it.
packages="chromium chromium-driver fonts-dejavu-core"
# The package lists may be outdated or missing.
# shellcheck disable=SC2086 # one word per package
apt-get install --yes --no-install-recommends $packages >&2 \
    || { apt-get update >&2 && apt-get install --yes --no-install-recommends $packages >&2; }
