#!/bin/sh
# Record the terminal in README.md, docs/images/terminal.svg. `make recording` calls this.
#
#   CONTEXT=name examples/recording.sh    uses this context of your kubeconfig instead of the sandbox of `make demo`
#
# Needs asciinema, npm, and a cluster that has the Flink image and no deployment or snapshots of `basic`. The commands and
# their output are real; only waiting times are shortened.
set -eu
cd "$(dirname "$0")/.."
svg_term=2.1.1
columns=100
rows=27
# Longer waits are cut to this many seconds.
idle=0.7

program=${PROGRAM:-$PWD/target/debug/kubectl-flink}
export CONTEXT="${CONTEXT:-flink-sandbox}"
folder=$PWD/target/recording

# Time to read. It is not cut, because the terminal keeps getting output.
pause() {
    for _ in $(seq "$1"); do
        sleep "$idle"
        printf '\033[m'
    done
}

# Clears the screen.
clear() {
    printf '\033[H\033[2J\033[3J'
}

# Types a command and runs it.
flink() {
    printf '\033[1;32m$\033[0m kubectl flink'
    for word in "$@"; do
        sleep 0.12
        printf ' %s' "$word"
    done
    sleep 0.3
    printf '\n'
    # On a terminal progress is a spinner, which is never idle. Without one it is a line per state.
    { "$program" --context "$CONTEXT" --color always "$@" 2>&1 >&3 3>&- | cat >&2; } 3>&1
}

if [ "${1:-}" = scenes ]; then
    flink deploy -f examples/basic.yaml --wait
    pause 2
    # Until the job has some checkpoints.
    sleep 40
    flink status basic
    pause 6
    clear
    flink plan basic --set job.parallelism=2
    pause 6
    clear
    flink scale basic --parallelism 2 --wait
    pause 2
    flink savepoint basic
    pause 4
    clear
    flink deploy basic --jar local:///opt/flink/usrlib/missing.jar
    pause 2
    # Until the new spec has been tried.
    sleep 15
    flink why basic
    pause 6
    flink list
    pause 6
    exit
fi

for tool in asciinema npm; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool is not installed" >&2
        exit 1
    fi
done
mkdir -p "$folder" docs/images
"$program" init --yes --context "$CONTEXT"
"$program" operate --context "$CONTEXT" > "$folder/operator.log" 2>&1 &
operator=$!
finish() {
    trap - EXIT
    "$program" delete basic --no-savepoint --yes --wait --context "$CONTEXT" || true
    kill -INT "$operator" 2>/dev/null || true
    wait "$operator" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT TERM

PROGRAM="$program" asciinema rec --quiet --overwrite --cols "$columns" --rows "$rows" --idle-time-limit "$idle" \
    --command "examples/recording.sh scenes" "$folder/terminal.cast"
npm exec --yes --package "svg-term-cli@$svg_term" -- svg-term --in "$folder/terminal.cast" --out docs/images/terminal.svg \
    --width "$columns" --height "$rows" --window --no-cursor
ls -l docs/images/terminal.svg
