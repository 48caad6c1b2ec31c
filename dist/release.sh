#!/bin/sh
# The steps of a release: .github/workflows/release.yaml runs them on the machines of all targets, a rehearsal on this one.
#
#   dist/release.sh check [TAG]          versions agree everywhere; with a tag, also that it is theirs and CHANGELOG.md has the date
#   dist/release.sh build                what each machine builds: archive, Debian package and, on Linux, the operator's image
#   dist/release.sh assemble             what is made once of all that: one image for all machines, chart, krew manifest, checksums
#   dist/release.sh push IMAGE CHARTS    copy image and chart to these names in a registry, with oras; prints what to sign
#   dist/release.sh notes                print what CHANGELOG.md says of this version
#   dist/release.sh rehearse             check, build, assemble, and say what only a release can do
#
# Everything is written to $DIST (default target/packages), where a rehearsal first removes that of another. These take the
# place of what would be built: PROGRAM, for the archive of TARGET; STATIC, a statically linked one for the image; SBOM; and
# TOOL, which runs here. DIRTY=allowed rehearses with changes that are not committed.
set -eu
cd "$(dirname "$0")/.."
out=${DIST:-target/packages}
export DIST="$out"
chart=helm/kubectl-flink-operator
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
image=$out/kubectl-flink-operator-image-v$version
charts=$out/kubectl-flink-operator-$version
missing=

say() { echo "release: $*" >&2; }
fail() {
    say "$@"
    exit 1
}
# Note what a rehearsal leaves to the release.
leave() {
    missing="$missing
  - $*"
}

notes() {
    awk -v heading="## [$version]" '/^## /{inside = index($0, heading) == 1; next} inside' CHANGELOG.md
}

# Report a version that is another one.
same() { # same PLACE FOUND
    if [ "$2" != "$version" ]; then
        say "$1 has version \`$2\`, and Cargo.toml \`$version\`"
        wrong=1
    fi
}

check() { # check [TAG]
    wrong=
    [ -z "${1:-}" ] || same "the tag $1" "${1#v}"
    same "version in $chart/Chart.yaml" "$(sed -n 's/^version: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' $chart/Chart.yaml)"
    same "appVersion in $chart/Chart.yaml" "$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' $chart/Chart.yaml)"
    tag=$(awk '/^[^ ]/{inside = /^image:/} inside && /^  tag:/{gsub(/"/, "", $2); print $2}' $chart/values.yaml)
    # An empty tag is that of the chart's version.
    [ -z "$tag" ] || same "image.tag in $chart/values.yaml" "$tag"
    named='(kubectl-flink(-operator)?(:|-v?|_|-image-v)|app\.kubernetes\.io/version: ")'
    places=$(mktemp)
    grep -srnoE "${named}[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)[0-9.]*)?" README.md SECURITY.md CONTRIBUTING.md docs examples helm kustomize krew-manifest.yaml \
        | sed -nE "s/^([^:]*:[0-9]+):.*[^0-9.]([0-9]+\.[0-9]+\.[0-9]+.*)$/\1 \2/p" > "$places"
    while read -r place found; do same "$place" "$found"; done < "$places"
    rm "$places"

    heading=$(grep -F "## [$version]" CHANGELOG.md) || heading=
    case $heading in
    '')
        say "CHANGELOG.md has no section \`## [$version] - DATE\`"
        wrong=1
        ;;
    "## [$version] - "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]) ;;
    *)
        [ -z "${1:-}" ] || {
            say "CHANGELOG.md has no date for $version: \`$heading\`"
            wrong=1
        }
        leave "CHANGELOG.md has no date for $version yet: \`$heading\`"
        ;;
    esac
    if awk '/^## /{inside = /^## \[Unreleased\]/; next} inside && NF' CHANGELOG.md | grep -q .; then
        say "CHANGELOG.md has entries in \`## [Unreleased]\`: move them to the section of $version"
        wrong=1
    fi
    [ -z "$wrong" ] || fail "a release has one version: correct these places"
}

# Print the target of this machine's programs.
host() {
    if [ -n "${PROGRAM:-}" ] && [ -n "${TARGET:-}" ]; then
        echo "$TARGET"
        return
    fi
    case $(uname -sm) in
    "Linux x86_64") echo x86_64-unknown-linux-gnu ;;
    "Linux aarch64") echo aarch64-unknown-linux-gnu ;;
    "Darwin x86_64") echo x86_64-apple-darwin ;;
    "Darwin arm64") echo aarch64-apple-darwin ;;
    *) fail "releases have no program for this machine: $(uname -sm)" ;;
    esac
}

build() {
    mkdir -p "$out"
    if [ -n "${PROGRAM:-}" ]; then
        TOOL=${TOOL:-$PROGRAM} dist/package.sh "$(host)" "$PROGRAM"
    else
        dist/package.sh
    fi
    case $(host) in
    x86_64-*-linux-*) architecture=amd64 ;;
    aarch64-*-linux-*) architecture=arm64 ;;
    *) return ;;
    esac
    if [ -n "${SBOM:-}" ]; then
        cp "$SBOM" "$out/sbom.cdx.json"
    else
        ${MAKE:-make} sbom
        cp target/sbom.cdx.json "$out/"
    fi
    if [ -n "${STATIC:-}" ]; then
        "$(tool)" operator image --file "$image-$architecture.tar" --sbom "$out/sbom.cdx.json" --program "$STATIC"
    else
        ${MAKE:-make} image
        cp target/operator-image.tar "$image-$architecture.tar"
    fi
}

# Print the path of the program that runs here: the one of the archive.
tool() {
    if [ -n "${TOOL:-}" ]; then
        echo "$TOOL"
        return
    fi
    mkdir -p target/released
    tar -xzf "$out/kubectl-flink-v$version-$(host).tar.gz" -C target/released
    echo target/released/kubectl-flink
}

assemble() {
    tool=$(tool)
    "$tool" __layout images "$image"-*.tar --file "$image.tar"
    folder=$(mktemp -d)
    CHART="$folder/chart" helm/package.sh "$tool" > /dev/null
    cp "$folder/chart/kubectl-flink-operator-$version.tgz" "$out/"
    rm -rf "$folder"
    repository=
    if grep -q '^repositoryID:' helm/artifacthub-repo.yml; then
        repository="--repository helm/artifacthub-repo.yml"
    else
        leave "Artifact Hub does not show who publishes the chart: helm/artifacthub-repo.yml has no repositoryID"
    fi
    # shellcheck disable=SC2086 # two words or none
    "$tool" __layout chart "$charts.tgz" $repository --file "$charts.oci.tar"
    dist/package.sh manifest
    # What was made is what was meant.
    (cd "$out" && sha256sum --check --quiet SHA256SUMS)
    grep -qx "  version: \"v$version\"" "$out/flink.yaml" || fail "the krew manifest is not of $version"
}

push() { # push IMAGE CHARTS
    command -v oras > /dev/null || fail "oras, which copies image layouts to registries, is not installed: https://oras.land"
    oras cp --recursive --from-oci-layout "$image.tar:$version" "$1:$version" >&2
    echo "$1@$(oras resolve --oci-layout "$image.tar:$version")"
    oras cp --from-oci-layout "$charts.oci.tar:$version" "$2/kubectl-flink-operator:$version" >&2
    echo "$2/kubectl-flink-operator@$(oras resolve --oci-layout "$charts.oci.tar:$version")"
    if oras resolve --oci-layout "$charts.oci.tar:artifacthub.io" > /dev/null 2>&1; then
        oras cp --from-oci-layout "$charts.oci.tar:artifacthub.io" "$2/kubectl-flink-operator:artifacthub.io" >&2
    fi
}

rehearse() {
    if ! changed=$(git status --porcelain 2> /dev/null); then
        leave "whether the sources are those of a commit is not known: this is no checkout of Git"
    elif [ -n "$changed" ]; then
        [ "${DIRTY:-}" = allowed ] || fail "the sources are not those of a commit; commit, or set DIRTY=allowed:
$changed"
        leave "the sources are not those of a commit"
    fi
    check ""
    rm -f "$out"/kubectl-flink* "$out"/flink.yaml "$out"/sbom.cdx.json "$out"/SHA256SUMS
    build
    assemble
    lacking=$(dist/package.sh lacking | sed '2,$s/^/  - not built here: /')
    [ -z "$lacking" ] || leave "not built here: $lacking"
    [ -z "${PROGRAM:-}${STATIC:-}" ] || leave "what is in the archive or the image is not a build of the release"
    leave "nothing is signed or attested: that needs the identity of a run of the release workflow"
    leave "nothing is published: dist/release.sh push copies image and chart to a registry, and the workflow creates GitHub's release"
    echo "version $version in $out:"
    sed 's/^/  /' "$out/SHA256SUMS"
    echo "left to the release:$missing"
}

step=${1:-}
[ $# -eq 0 ] || shift
case $step in
check | build | assemble | push | notes | rehearse) "$step" "$@" ;;
*)
    sed -n 's/^#   dist/dist/p' dist/release.sh >&2
    exit 2
    ;;
esac
