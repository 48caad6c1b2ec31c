#!/bin/sh
# Run $PROGRAM with the variables in $VARIABLES, one per line, and no others.
set -fu
IFS='
'
exec env -i $VARIABLES "$PROGRAM" "$@"
