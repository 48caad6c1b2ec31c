#!/bin/sh
# Run the console's tests in a real browser.
#
# Installs Debian's packages of Chromium, its driver and npm if they are missing. npm downloads axe, which checks that
# everyone can read a page, once into the user's cache.
set -eu
cd "$(dirname "$0")/.."
version=4.14.1
sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

tests/chromium.sh
axe=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/axe-$version/axe.min.js
if [ ! -f "$axe" ]; then
    if ! command -v npm >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        # The package lists may be outdated or missing.
        apt-get install --yes --no-install-recommends npm >&2 \
            || { apt-get update >&2 && apt-get install --yes --no-install-recommends npm >&2; }
    fi
    new=$(mktemp -d)
    trap 'rm -rf "$new"' EXIT
    (cd "$new" && npm pack --silent "axe-core@$version" >/dev/null)
    echo "$sum  $new/axe-core-$version.tgz" | sha256sum --check --quiet
    tar -C "$new" -xzf "$new/axe-core-$version.tgz" package/axe.min.js
    mkdir -p "$(dirname "$axe")"
    mv "$new/package/axe.min.js" "$axe"
fi
KUBECTL_FLINK_TEST_AXE="$axe" ${CARGO:-cargo} test --locked --test it -- --ignored cli::dashboard::browser
