#!/bin/sh
# Start an S3 store with one file in it; see s3.py for the arguments.
#
#   tests/stores/s3.sh FILE ADDRESS
set -eu
python=$("$(dirname "$0")/../tools.sh" python)/bin/python
exec "$python" "$(dirname "$0")/s3.py" "$@"
