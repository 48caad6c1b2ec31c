#!/usr/bin/env bash
# Run the tests of the autoscaler's stores against a PostgreSQL and a MariaDB, both started here on free ports.
#
# The servers refuse to run as root, so as root each one runs as its own user.
cd "$(dirname "$0")/.."
. tests/strict.sh
set_up postgresql mariadb
postgresql=$(tests/tools.sh postgresql)
. tests/servers.sh
chmod 755 "$folder"

# Replace the calling shell by a command, which runs as this user if the script runs as root. The user cannot write to root's
# temporary files.
as() {
    user=$1
    shift
    if [ "$(id -u)" -eq 0 ]; then
        exec "$alone" TMPDIR=/tmp setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
    fi
    exec "$alone" TMPDIR=/tmp "$@"
}

maria() {
    "$alone" mariadb --no-defaults --socket="$folder/maria/socket" --user=root "$@"
}

KUBECTL_FLINK_TEST_STORE_PASSWORD=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
# Characters with a special meaning in a URL.
KUBECTL_FLINK_TEST_STORE_PASSWORD="p@:/%$KUBECTL_FLINK_TEST_STORE_PASSWORD"
mkdir "$folder/postgres" "$folder/maria"
if [ "$(id -u)" -eq 0 ]; then
    chown postgres "$folder/postgres"
    chown nobody "$folder/maria"
fi

printf '%s' "$KUBECTL_FLINK_TEST_STORE_PASSWORD" >"$folder/password"
chmod 644 "$folder/password"
(as postgres "$postgresql/initdb" --pgdata "$folder/postgres/data" --username flink --pwfile "$folder/password" \
    --auth scram-sha-256 --no-sync) >"$folder/initdb.log" 2>&1
postgres_port=$(free_port)
(as postgres "$postgresql/postgres" -D "$folder/postgres/data" -h 127.0.0.1 -p "$postgres_port" \
    -k "$folder/postgres") >"$folder/postgres.log" 2>&1 &
started $!
wait_for 60 "$alone" "$postgresql/pg_isready" -h 127.0.0.1 -p "$postgres_port" -U flink -d postgres

maria_port=$(free_port)
(as nobody mariadb-install-db --no-defaults --datadir="$folder/maria/data" --auth-root-authentication-method=normal \
    --skip-test-db) >"$folder/install-db.log" 2>&1
(as nobody mariadbd --no-defaults --datadir="$folder/maria/data" --bind-address=127.0.0.1 --port="$maria_port" \
    --socket="$folder/maria/socket" --skip-log-bin) >"$folder/maria.log" 2>&1 &
started $!
wait_for 60 maria --execute "SELECT 1"
maria <<SQL
CREATE DATABASE autoscaler;
CREATE USER flink@'127.0.0.1' IDENTIFIED BY '$KUBECTL_FLINK_TEST_STORE_PASSWORD';
GRANT ALL ON autoscaler.* TO flink@'127.0.0.1';
SQL

KUBECTL_FLINK_TEST_POSTGRES="postgres://flink@127.0.0.1:$postgres_port/postgres"
KUBECTL_FLINK_TEST_MYSQL="mysql://flink@127.0.0.1:$maria_port/autoscaler"
export KUBECTL_FLINK_TEST_STORE_PASSWORD KUBECTL_FLINK_TEST_POSTGRES KUBECTL_FLINK_TEST_MYSQL
# Together with the root package, like everything else: for `clients` alone Cargo would build some dependencies again.
${CARGO:-cargo} test --locked -p kubectl-flink -p kubectl-flink-clients --lib -- --ignored store::
