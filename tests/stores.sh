#!/bin/sh
# Run the tests of the autoscaler's stores against a PostgreSQL and a MariaDB, both started here on free ports.
#
# Needs Debian's packages for both, which it installs where they are missing. Servers refuse to run as root, so as root
# each runs as its own user.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
chmod 755 "$folder"
postgres= maria=

# Ends a server and waits until it is gone: ten seconds for it to end by itself, then by force.
stop() {
    [ -n "$1" ] || return 0
    kill "$1" 2>/dev/null || true
    for _ in $(seq 100); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

finish() {
    status=$?
    trap - EXIT
    stop "$postgres"
    stop "$maria"
    if [ "$status" -ne 0 ]; then
        tail -n 20 "$folder"/*.log >&2 || true
    fi
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Waits up to a minute until a command succeeds.
wait_for() {
    for _ in $(seq 120); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.5
    done
    echo "stores.sh: gave up waiting for: $*" >&2
    return 1
}

# A program of PostgreSQL's, which Debian keeps in a folder of the version; nothing where there is none.
of_postgres() {
    for program in /usr/lib/postgresql/*/bin/"$1"; do
        if [ -x "$program" ]; then echo "$program"; return 0; fi
    done
    command -v "$1" || true
}

# The lists of packages may be old, or missing.
install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get install --yes --no-install-recommends "$@" >&2 \
        || { apt-get update >&2 && apt-get install --yes --no-install-recommends "$@" >&2; }
}

install_missing() {
    if [ -z "$(of_postgres initdb)" ]; then install postgresql; fi
    # The programs alone: nothing is started but by this script.
    if ! command -v mariadbd >/dev/null || ! command -v mariadb-admin >/dev/null; then
        install mariadb-server-core mariadb-client-core
    fi
}

# Runs a command as this user where root runs this script, in place of the shell that called it.
as() {
    user=$1
    shift
    if [ "$(id -u)" -eq 0 ]; then
        exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
    fi
    exec "$@"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

install_missing
KUBECTL_FLINK_TEST_STORE_PASSWORD=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
# Letters that mean something else in a URL.
KUBECTL_FLINK_TEST_STORE_PASSWORD="p@:/%$KUBECTL_FLINK_TEST_STORE_PASSWORD"
mkdir "$folder/postgres" "$folder/maria"
if [ "$(id -u)" -eq 0 ]; then
    chown postgres "$folder/postgres"
    chown nobody "$folder/maria"
fi

printf '%s' "$KUBECTL_FLINK_TEST_STORE_PASSWORD" >"$folder/password"
chmod 644 "$folder/password"
(as postgres "$(of_postgres initdb)" --pgdata "$folder/postgres/data" --username flink --pwfile "$folder/password" \
    --auth scram-sha-256 --no-sync) >"$folder/initdb.log" 2>&1
postgres_port=$(free_port)
(as postgres "$(of_postgres postgres)" -D "$folder/postgres/data" -h 127.0.0.1 -p "$postgres_port" \
    -k "$folder/postgres") >"$folder/postgres.log" 2>&1 &
postgres=$!
wait_for "$(of_postgres pg_isready)" -h 127.0.0.1 -p "$postgres_port" -U flink -d postgres

maria_port=$(free_port)
(as nobody mariadb-install-db --no-defaults --datadir="$folder/maria/data" --auth-root-authentication-method=normal \
    --skip-test-db) >"$folder/install-db.log" 2>&1
(as nobody mariadbd --no-defaults --datadir="$folder/maria/data" --bind-address=127.0.0.1 --port="$maria_port" \
    --socket="$folder/maria/socket" --skip-log-bin) >"$folder/maria.log" 2>&1 &
maria=$!
wait_for mariadb-admin --no-defaults --socket="$folder/maria/socket" --user=root ping
mariadb --no-defaults --socket="$folder/maria/socket" --user=root <<SQL
CREATE DATABASE autoscaler;
CREATE USER flink@'127.0.0.1' IDENTIFIED BY '$KUBECTL_FLINK_TEST_STORE_PASSWORD';
GRANT ALL ON autoscaler.* TO flink@'127.0.0.1';
SQL

KUBECTL_FLINK_TEST_POSTGRES="postgres://flink@127.0.0.1:$postgres_port/postgres"
KUBECTL_FLINK_TEST_MYSQL="mysql://flink@127.0.0.1:$maria_port/autoscaler"
export KUBECTL_FLINK_TEST_STORE_PASSWORD KUBECTL_FLINK_TEST_POSTGRES KUBECTL_FLINK_TEST_MYSQL
${CARGO:-cargo} test --locked --lib -- --ignored store::
