# Measures each phase and each test, and remembers what failed. To be sourced by bash in the project's folder.
#
#   phase NAME COMMAND…    runs a phase, then prints its seconds and how busy the machine was
#   attempt NAME COMMAND…  the same, but goes on with the next phase if this one fails, and sets $failed_phases
#   together SCRIPT…       attempts phases in parallel, then prints the output of each
#   outcome                prints the seconds of each phase and of the ten slowest tests, then each failed phase with the lines that
#                          failed; fails if a phase has
. tests/strict.sh
KUBECTL_FLINK_TEST_SECONDS=${KUBECTL_FLINK_TEST_SECONDS:-$PWD/target/tmp/seconds}
export KUBECTL_FLINK_TEST_SECONDS
mkdir -p "$KUBECTL_FLINK_TEST_SECONDS"
failed_phases=
# The output is piped into a file, too, which hides a terminal from Cargo.
if [ -t 1 ] && [ "${CARGO_TERM_COLOR:-auto}" = auto ]; then export CARGO_TERM_COLOR=always; fi

# Print `BUSY IDLE`: hundredths of a second that all CPUs have been busy or idle since the machine started.
cpu() {
    awk '$1 == "cpu" {print $2 + $3 + $4 + $7 + $8, $5 + $6}' /proc/stat 2>/dev/null || true
}

phase() {
    local name=$1 start status=0 before busy seconds log failed
    shift
    log=$KUBECTL_FLINK_TEST_SECONDS/$(echo "$name" | tr -c 'A-Za-z0-9.\n' _).log
    echo "== $name"
    start=$(date +%s)
    before=$(cpu)
    failed=${KUBECTL_FLINK_TEST_FAILED:-$KUBECTL_FLINK_TEST_SECONDS/failed}
    rm -f "$log.failed"
    # In a process of its own, so that its variables do not clash with these.
    (export KUBECTL_FLINK_TEST_FAILED="$log.failed" && "$@") 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
    seconds=$(($(date +%s) - start))
    # Empty without /proc.
    busy=$(echo "$before $(cpu)" | awk 'NF == 4 && $3 + $4 > $1 + $2 {
        printf "%3.0f %%", 100 * ($3 - $1) / ($3 - $1 + $4 - $2)
    }')
    echo "== $name: $seconds s"
    printf '%6d s %s  %s\n' "$seconds" "$busy" "$name" >>"$KUBECTL_FLINK_TEST_SECONDS/phases"
    # Written at once, as phases run in parallel. If phases within this one have failed, they are what failed.
    if [ -e "$log.failed" ]; then
        printf '%s\n' "$(cat "$log.failed")" >>"$failed"
    elif [ "$status" -ne 0 ]; then
        printf '%s\n' "$name$(failing_lines "$log" | sed 's/^/\n    /' | tr -s '\n')" >>"$failed"
    fi
    return "$status"
}

attempt() {
    phase "$@" || failed_phases=1
}

# Print the lines of a phase's output that say what failed: failed tests, where they panicked and how their messages start, what
# differs from a text on record as -[this] or +[this], errors of Cargo and other programs, failed commands of scripts; otherwise its
# last lines.
failing_lines() {
    local lines
    lines=$(awk '
        # There only colours tell what is missing and what is new.
        differs {
            is_change = is_open
            is_change += gsub(/\033\[4m\033\[31m/, "-[") + gsub(/\033\[4m\033\[32m/, "+[")
            is_open = is_change - gsub(/\033\[0m/, "]")
        }
        { gsub(/\033\[[0-9;]*m/, "") }
        differs && /^----$/ && ruled++ { differs = ruled = is_open = 0 }
        /^test .* FAILED( <.*>)?$|^test result: FAILED|panicked at|^error(\[|:)|^E: |^Diff in |^[^ ]*(tests|helm|examples)\/[a-z\/-]*\.sh:/ \
            || message-- > 0 || differs && is_change {
            if (!seen[$0]++ && n++ < 24) print substr($0, 1, 600)
        }
        /panicked at/ { message = 3 }
        /^Diff:$/ { differs = 1 }' "$1")
    if [ -z "$lines" ]; then lines=$(tail -n 5 "$1"); fi
    echo "$lines"
}

together() {
    local script folder pids=()
    folder=$(mktemp -d)
    for script; do
        attempt "$script" "$script" >"$folder/$(basename "$script")" 2>&1 &
        pids+=("$!")
    done
    for script; do
        wait "${pids[0]}"
        pids=("${pids[@]:1}")
        cat "$folder/$(basename "$script")"
    done
    rm -rf "$folder"
}

outcome() {
    local seconds test result
    echo "== seconds and CPU usage of each phase"
    cat "$KUBECTL_FLINK_TEST_SECONDS/phases" 2>/dev/null || true
    echo "== the ten slowest tests"
    # Lines such as `ok e2e::care::a_failed_job_is_started_again <41.203s>`.
    { cat "$KUBECTL_FLINK_TEST_SECONDS"/tests-* 2>/dev/null || true; } | sed -n 's/^\([a-z]*\) \(.*\) <\([0-9.]*\)s>$/\3 \2 \1/p' \
        | sort -rn | sed -n 1,10p | while read -r seconds test result; do
        printf '%8.1f s  %s%s\n' "$seconds" "$test" "$([ "$result" = ok ] || echo " ($result)")"
    done
    if [ -e "$KUBECTL_FLINK_TEST_SECONDS/failed" ]; then
        echo "== failed phases, with the lines that failed; their whole output is in $KUBECTL_FLINK_TEST_SECONDS"
        cat "$KUBECTL_FLINK_TEST_SECONDS/failed"
        return 1
    fi
}
