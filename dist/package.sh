#!/bin/sh
# Package the program for people: archives for krew and by hand, Debian packages, checksums, the krew manifest.
#
#   dist/package.sh                          build and package every target that this machine can link
#   dist/package.sh TARGET PROGRAM           package PROGRAM for TARGET, such as one that was built elsewhere
#   dist/package.sh lacking                  print which targets this machine cannot link, and why
#   dist/package.sh manifest                 write the krew manifest and the checksums again
#
# Everything is written to $DIST (default target/packages). The manifest lists the platforms whose archives exist there: a
# release collects what all machines built in one folder and writes it last, with the checksums of everything
# (dist/release.sh).
set -eu
cd "$(dirname "$0")/.."
out=${DIST:-target/packages}
# Prints man pages and completions for every target alike.
tool=${TOOL:-target/dist/kubectl-flink}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
targets="x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin"
mkdir -p "$out"

say() { echo "dist: $*" >&2; }

# The same input always gives the same archive.
archive() { # archive FOLDER FILE
    tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 -cf - . | gzip -n9 > "$2"
}

package() { # package TARGET PROGRAM
    target=$1
    program=$2
    stage=$(mktemp -d)
    chmod 755 "$stage"
    mkdir -p "$stage/completions" "$stage/man"
    cp "$program" "$stage/kubectl-flink"
    chmod 755 "$stage/kubectl-flink"
    cp LICENSE README.md "$stage/"
    cp completions/* "$stage/completions/"
    "$tool" __man "$stage/man"
    archive "$stage" "$out/kubectl-flink-v$version-$target.tar.gz"
    case $target in
    x86_64-*-linux-*) debian amd64 ;;
    aarch64-*-linux-*) debian arm64 ;;
    esac
    rm -rf "$stage"
}

debian() { # debian ARCHITECTURE: packages the staged files
    if ! command -v dpkg-deb > /dev/null; then
        say "no Debian package for $1: dpkg-deb is not installed"
        return
    fi
    root=$(mktemp -d)
    chmod 755 "$root"
    mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/doc/kubectl-flink" \
        "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
        "$root/usr/share/fish/vendor_completions.d"
    cp "$stage/kubectl-flink" completions/kubectl_complete-flink "$root/usr/bin/"
    chmod 755 "$root/usr/bin/kubectl-flink" "$root/usr/bin/kubectl_complete-flink"
    for page in "$stage"/man/*; do gzip -n9c "$page" > "$root/usr/share/man/man1/$(basename "$page").gz"; done
    cp LICENSE "$root/usr/share/doc/kubectl-flink/copyright"
    cp completions/kubectl-flink.bash "$root/usr/share/bash-completion/completions/kubectl-flink"
    cp completions/_kubectl-flink "$root/usr/share/zsh/vendor-completions/"
    cp completions/kubectl-flink.fish "$root/usr/share/fish/vendor_completions.d/"
    cat > "$root/DEBIAN/control" <<CONTROL
Package: kubectl-flink
Version: $version
Architecture: $1
Maintainer: kubectl-flink <https://github.com/kubectl-flink/kubectl-flink>
Section: admin
Priority: optional
Depends: libc6
Recommends: kubectl
Homepage: https://github.com/kubectl-flink/kubectl-flink
Description: kubectl plugin and operator for Apache Flink on Kubernetes
 Deploys, watches, upgrades and repairs Flink jobs. It also contains the operator.
CONTROL
    SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -b "$root" "$out/kubectl-flink_${version}_$1.deb" > /dev/null
    rm -rf "$root"
}

# Print what keeps this machine from linking a target; nothing if it can.
lacking() {
    host=$(rustc -vV | sed -n 's/^host: //p')
    [ "$1" = "$host" ] && return
    if ! rustup target list --installed 2> /dev/null | grep -qx "$1"; then
        echo "the standard library is not installed: rustup target add $1"
    elif [ "$1" = aarch64-unknown-linux-gnu ] && ! command -v aarch64-linux-gnu-gcc > /dev/null; then
        echo "aarch64-linux-gnu-gcc is not installed"
    elif [ "${1#*-apple-}" != "$1" ] && [ "${host#*-apple-}" = "$host" ]; then
        echo "Apple's linker and libraries only exist on a Mac"
    fi
}

# Of everything that is published, but the signatures.
sums() {
    list=$(cd "$out" && find . -type f ! -name SHA256SUMS ! -name '*.sigstore.json' | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum)
    echo "$list" > "$out/SHA256SUMS"
}

# Write the manifest, with the platforms whose archive exists. Krew wants it under the plugin's name.
manifest() {
    sums
    awk -v version="$version" '
        FNR == NR { sum[$2] = $1; next }
        /^    - selector:/ { platform() ; inside = 1 }
        { sub(/\{\{VERSION\}\}/, version); while (sub(/\{\{VERSION\}\}/, version)) {} }
        inside && /^      uri:/ { name = $2; sub(/.*\//, "", name) }
        inside && /^      sha256:/ && (name in sum) { $0 = "      sha256: " sum[name] }
        inside { block = block $0 "\n"; next }
        !/^#/ { print }
        END { platform() }
        function platform() { if (inside && (name in sum)) printf "%s", block; block = "" }
    ' "$out/SHA256SUMS" krew-manifest.yaml > "$out/flink.yaml"
    sums
    for target in $targets; do
        [ -e "$out/kubectl-flink-v$version-$target.tar.gz" ] || say "the krew manifest is written without $target"
    done
}

case ${1:-} in
manifest) manifest ;;
lacking)
    for target in $targets; do
        lack=$(lacking "$target")
        [ -z "$lack" ] || echo "$target: $lack"
    done
    ;;
'')
    host=$(rustc -vV | sed -n 's/^host: //p')
    # This machine's first: its program prints the man pages of all.
    # shellcheck disable=SC2086 # one word for each target
    ordered=$(printf '%s\n' $targets | awk -v host="$host" '$0 == host { print; next } { rest = rest "\n" $0 } END { print rest }')
    for target in $ordered; do
        lack=$(lacking "$target")
        if [ -n "$lack" ]; then
            say "$target cannot be built here: $lack"
        elif [ "$target" = "$host" ]; then
            # In the folder of `make image`, which needs the same crates.
            ${CARGO:-cargo} build --locked --profile dist --features jemalloc
            tool=target/dist/kubectl-flink
            package "$target" "$tool"
        else
            ${CARGO:-cargo} build --locked --profile dist --features jemalloc --target "$target"
            package "$target" "target/$target/dist/kubectl-flink"
        fi
    done
    manifest
    ls -l "$out" >&2
    ;;
*)
    package "$1" "$2"
    manifest
    ;;
esac
