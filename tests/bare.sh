#!/usr/bin/env bash
# Check that what tests need is installed on a machine that has none of it: tests/tools.sh as a whole, and what each script installs
# that can be run alone, but for tests/dependencies.sh, which needs nothing except Rust.
#
#   tests/bare.sh            all of them, each on a machine of its own; takes half an hour
#   tests/bare.sh SCRIPT…    only these
#
# A machine is a fresh Debian with a JDK, Maven and Python, in a folder; Go and the built program are those of this machine. HOME and
# the caches are empty, and for the first minute another process holds the locks of dpkg and apt. Needs root and debootstrap.
cd "$(dirname "$0")/.."
. tests/strict.sh
# Builds the program, too.
set_up sandbox flink
project=$PWD
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
go=$(go env GOROOT)
# An overlay needs a file system that supports it, which target/ may not have.
folder=$(mktemp -d /var/tmp/kubectl-flink-bare.XXXXXX)

finish() {
    status=$?
    trap - EXIT
    # All mounts were in namespaces that have ended.
    rm -rf --one-file-system "$folder"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true; } \
    | awk '/^(URIs:|deb )/ {for (i = 2; i <= NF; i++) if ($i ~ /:\//) {print $i; exit}}')
echo "creating a bare $suite"
unshare --mount debootstrap --variant=minbase --include=ca-certificates,default-jdk-headless,gcc,git,libc6-dev,make,maven,openssl,python3 \
    "$suite" "$folder/base" "$mirror" >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; exit 1; }
rm -rf "$folder/base/var/lib/apt/lists" "$folder"/base/etc/apt/sources.list*
cp -a /etc/apt/sources.list* "$folder/base/etc/apt/"
cp -L /etc/resolv.conf /etc/hosts "$folder/base/etc/"
# What Go has compiled on one machine serves the next one; it is the same there, and takes minutes.
mkdir "$folder/go-cache"

# Of this machine's settings, the others have which certificates are trusted.
certificates=(SSL_CERT_DIR="${SSL_CERT_DIR:-/etc/ssl/certs}")
for name in SSL_CERT_FILE NODE_EXTRA_CA_CERTS; do
    if [ -n "${!name:-}" ]; then certificates+=("$name=${!name}"); fi
done

# Run a script on a machine of its own, in namespaces of its own.
on_machine() {
    local machine=$folder/$(basename "$1" .sh)
    mkdir -p "$machine/new" "$machine/work" "$machine/root"
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount --pid --fork --kill-child bash -ec '
        folder=$1 machine=$2 project=$3 go=$4
        shift 4
        root=$machine/root
        mount -t overlay overlay -o "lowerdir=$folder/base,upperdir=$machine/new,workdir=$machine/work" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        mkdir -p "$root$project" "$root$go" "$root/go-cache"
        mount --bind "$project" "$root$project"
        mount --bind "$go" "$root$go"
        mount --bind "$folder/go-cache" "$root/go-cache"
        mount --bind /etc/ssl/certs "$root/etc/ssl/certs"
        exec chroot "$root" "$@"
    ' on_machine "$folder" "$machine" "$project" "$go" \
        env -i HOME=/root LANG=C.UTF-8 PATH="$go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        "${certificates[@]}" GOCACHE=/go-cache/build GOMODCACHE=/go-cache/modules KUBECTL_FLINK_TEST_SECONDS=/root/seconds \
        KUBECTL_FLINK_TEST_SET_UP_ONLY=1 KUBECTL_FLINK_TEST_PROGRAM="$project/target/debug/kubectl-flink" \
        python3 "$project/tests/locked.py" 60 "$project/$1"
    rm -rf --one-file-system "$machine"
}

scripts=("$@")
if [ $# -eq 0 ]; then
    scripts=(tests/tools.sh tests/artifacts.sh tests/browser.sh tests/stores.sh tests/helm.sh tests/monitoring.sh tests/workflows.sh tests/cluster.sh)
fi
for script in "${scripts[@]}"; do
    began=$SECONDS
    echo "$script on a bare machine"
    on_machine "$script"
    echo "$script on a bare machine: $((SECONDS - began)) s"
done
