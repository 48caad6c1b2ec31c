#!/bin/sh
# Install Debian's packages of Chromium and of its driver, where they are missing.
set -eu
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then exit 0; fi
export DEBIAN_FRONTEND=noninteractive
# Without a font nothing is as wide as a person sees it.
packages="chromium chromium-driver fonts-dejavu-core"
# The lists of packages may be old, or missing.
# shellcheck disable=SC2086 # a word each
apt-get install --yes --no-install-recommends $packages >&2 \
    || { apt-get update >&2 && apt-get install --yes --no-install-recommends $packages >&2; }
