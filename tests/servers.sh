# Servers that a script needs: started in the background, and stopped when it ends, no matter how. To be sourced by a script of
# this folder, with `set -eu`.
#
#   $folder                    for their files and logs; if the script fails, the ends of the logs are printed
#   program … & started $!     starts one
#   wait_for SECONDS COMMAND…  waits until a command succeeds
#   free_port                  prints a free port
#   $alone PROGRAM …           runs a program without this machine's environment; see alone.sh
#   clean_up                   defined by scripts that leave more than processes; may set status=1
folder=$(mktemp -d)
alone=$PWD/tests/alone.sh
servers=

# Servers are stopped in reverse order.
started() {
    servers="$1 $servers"
}

# Stop a server and wait until it is gone, so that nothing writes into the folder any more. After ten seconds it is killed.
stop() {
    kill "$1" 2>/dev/null || true
    for _ in $(seq 100); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

clean_up() {
    :
}

finish() {
    status=$?
    trap - EXIT
    for server in $servers; do stop "$server"; done
    clean_up
    if [ "$status" -ne 0 ]; then
        tail -n 20 "$folder"/*.log >&2 || true
    fi
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

wait_for() {
    turns=$(($1 * 5))
    shift
    for _ in $(seq "$turns"); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.2
    done
    echo "$(basename "$0"): gave up waiting for: $*" >&2
    return 1
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
