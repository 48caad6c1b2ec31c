#!/bin/sh
# Takes a guard out of the code, one at a time, and sees the test fail that is there for it.
#
#   tests/mutations.sh               every patch of tests/mutations
#   tests/mutations.sh FLINK-27572   only these
#
# A patch begins with the guard that it removes and the test that must notice. What is tested is the last commit, in a
# worktree below target/ that has a target folder of its own. Of each patch the crate of its test is built: half a minute
# to two.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
unset CARGO_TARGET_DIR
# Little is edited between two builds.
export CARGO_INCREMENTAL=1
scratch=$root/target/mutations/worktree
log=$root/target/mutations/log
# Longest time of one test: without its guard it may wait for ever.
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

# One row of the table; fails where the test does not notice.
judge() {
    id=$1
    patch=$root/tests/mutations/$id.patch
    test=$(field Test "$patch")
    package=kubectl-flink
    ! grep -rqw "fn ${test##*::}" crates/lifecycle/tests || package=kubectl-flink-lifecycle
    git -C "$scratch" apply "$patch"
    outcome="does not build"
    if (cd "$scratch" && cargo test --locked --package "$package" --test it --no-run) >"$log" 2>&1; then
        outcome="survives"
        (cd "$scratch" && timeout "$limit" cargo test --locked --package "$package" --test it "$test") >"$log" 2>&1 \
            || outcome="fails"
        # Neither a test that is not there nor one that ended otherwise is a test that failed.
        case "$outcome" in
        fails) grep -q "^test .*$test .*FAILED" "$log" || outcome="does not end" ;;
        *) grep -q "^test .*$test " "$log" || outcome="is not there" ;;
        esac
    fi
    git -C "$scratch" apply -R "$patch"
    printf '| %s | %s | `%s` | %s |\n' "$id" "$(field Guard "$patch")" "$test" "$outcome"
    test "$outcome" = fails || { tail -n 20 "$log" >&2; return 1; }
}

if [ $# -eq 0 ]; then
    set -- $(cd tests/mutations && ls ./*.patch | sed 's|^\./||; s|\.patch$||')
fi
echo "| Bug | Guard | Test | Without the guard the test |"
echo "|---|---|---|---|"
weak=0
for id in "$@"; do
    judge "$id" || weak=$((weak + 1))
done
echo "$# guards taken out, $weak not noticed"
test "$weak" -eq 0
