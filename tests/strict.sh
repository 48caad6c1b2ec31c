# How the scripts of this folder handle failures: to be sourced first, by bash, in the project's folder.
#
# The first command that fails ends the script. It is printed with its place, so that the end of a run can name it.
#
#   set_up TOOL…   installs the tools that a script needs; see tools.sh
set -eEuo pipefail
trap 'echo "${BASH_SOURCE[0]}:$LINENO: ended with $?: $(echo "$BASH_COMMAND" | head -n 1)" >&2' ERR

set_up() {
    tests/tools.sh "$@" >/dev/null
    # tests/bare.sh only wants to know whether this works on a bare machine.
    if [ -n "${KUBECTL_FLINK_TEST_SET_UP_ONLY:-}" ]; then exit 0; fi
}
