#!/bin/sh
# Remove guards from the code, one at a time, and check that the test of each guard fails.
#
#   tests/mutations.sh               every patch of tests/mutations
#   tests/mutations.sh FLINK-27572   only these
#
# A patch begins with the guard that it removes and the tests that must notice, each after the law that it says is broken,
# if it asserts one. It is applied to the last commit, in a worktree
# below target/ with a target folder of its own. For each patch the crate of its test is built, which takes half a minute to
# two minutes.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
unset CARGO_TARGET_DIR
# Little changes between two builds.
export CARGO_INCREMENTAL=1
# Its tests wait for two minutes, not for half an hour.
export KUBECTL_FLINK_TEST_IMPATIENT=1
scratch=$root/target/mutations/worktree
log=$root/target/mutations/log
# Time limit of one test: without its guard it may wait forever.
limit=300

finish() {
    status=$?
    trap - EXIT
    git worktree remove --force "$scratch" 2>/dev/null || true
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir -p "${scratch%/*}"
git worktree remove --force "$scratch" 2>/dev/null || true
git worktree prune
git worktree add --quiet --detach "$scratch" HEAD
"$scratch/tests/built.sh" restore

field() {
    sed -n "s/^$1: //p" "$2"
}

# Print a row of the table for each test. Fails if one does not notice.
judge() {
    id=$1
    patch=$root/tests/mutations/$id.patch
    git -C "$scratch" apply "$patch"
    law=
    missed=0
    # The law of a test is in the line before it.
    while read -r key value; do
        case "$key" in
        Law:) law=$value ;;
        Test:) judge_test "$value" "$law" || missed=1; law= ;;
        diff) break ;;
        esac
    done <"$patch"
    git -C "$scratch" apply -R "$patch"
    return "$missed"
}

# Print the row of one test, with the law that it must say is broken.
judge_test() {
    test=$1
    place=$(grep -rlw "fn ${test##*::}" tests/it crates/*/tests crates/*/src | head -n 1)
    crate=${place#crates/}
    crate=${crate%%/*}
    case "$place" in
    crates/*/src/*) package=kubectl-flink-$crate target=--lib ;;
    crates/*) package=kubectl-flink-$crate target='--test it' ;;
    *) package=kubectl-flink target='--test it' ;;
    esac
    # These start a control plane of their own.
    ignored=
    case "$place" in
    tests/it/faults*)
        tests/tools.sh sandbox >/dev/null
        ignored=--ignored
        ;;
    esac
    outcome="does not build"
    # shellcheck disable=SC2086 # one word for each argument
    if (cd "$scratch" && cargo test --locked --package "$package" $target --no-run) >"$log" 2>&1 </dev/null; then
        outcome="survives"
        # shellcheck disable=SC2086 # none or one word
        (cd "$scratch" && timeout "$limit" cargo test --locked --package "$package" $target "$test" -- $ignored) \
            >"$log" 2>&1 </dev/null || outcome="fails"
        # A test that does not exist, or ended in another way, has not failed.
        case "$outcome" in
        fails)
            grep -q "^test .*$test .*FAILED" "$log" || outcome="does not end"
            # A law that comes first may hide another one.
            test -z "$2" || grep -q "law $2\>" "$log" || outcome="does not name $2"
            ;;
        *) grep -q "^test .*$test " "$log" || outcome="is not there" ;;
        esac
    fi
    printf '| %s | %s | %s | `%s` | %s |\n' "$id" "$(field Guard "$patch")" "${2:-}" "$test" "$outcome"
    test "$outcome" = fails || { tail -n 20 "$log" >&2; return 1; }
}

if [ $# -eq 0 ]; then
    set -- $(cd tests/mutations && ls ./*.patch | sed 's|^\./||; s|\.patch$||')
fi
echo "| Bug | Guard | Law | Test | Without the guard the test |"
echo "|---|---|---|---|---|"
weak=0
for id in "$@"; do
    judge "$id" || weak=$((weak + 1))
done
echo "$# guards removed, $weak not noticed"
test "$weak" -eq 0
