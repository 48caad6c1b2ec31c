#!/bin/sh
# Start an S3 store with one file in it; see s3.py for the arguments.
#
#   tests/stores/s3.sh FILE ADDRESS
#   tests/stores/s3.sh              only installs what it needs
#
# Needs Python; installs Debian's package for venv. The store (moto) comes from PyPI, and is kept in the folder
# KUBECTL_FLINK_TEST_STORES, or else in the cache folder.
set -eu
packages=${KUBECTL_FLINK_TEST_STORES:-${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/test-stores}
if [ ! -e "$packages/moto-5" ]; then
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        apt-get install --yes --no-install-recommends python3-venv >&2
    fi
    python3 -m venv --clear "$packages/venv"
    "$packages/venv/bin/pip" --quiet install 'moto[server]>=5,<6' >&2
    touch "$packages/moto-5"
fi
[ $# -gt 0 ] || exit 0
exec "$packages/venv/bin/python" "$(dirname "$0")/s3.py" "$@"
