# Measures each phase and each test. To be sourced by a script that runs in the project's folder.
#
#   phase NAME COMMAND…  runs a phase, then prints its seconds and how busy the machine was
#   together SCRIPT…     runs phases in parallel, then prints the output of each
#   slowest              prints the time of each phase, and the ten slowest tests
KUBECTL_FLINK_TEST_SECONDS=${KUBECTL_FLINK_TEST_SECONDS:-$PWD/target/tmp/seconds}
export KUBECTL_FLINK_TEST_SECONDS
mkdir -p "$KUBECTL_FLINK_TEST_SECONDS"

# Print `BUSY IDLE`: hundredths of a second that all CPUs have been busy or idle since the machine started.
cpu() {
    awk '$1 == "cpu" {print $2 + $3 + $4 + $7 + $8, $5 + $6}' /proc/stat 2>/dev/null || true
}

phase() {
    phase_name=$1
    shift
    echo "== $phase_name"
    phase_start=$(date +%s)
    phase_cpu=$(cpu)
    # In a process of its own, so that its variables do not clash with these.
    phase_status=0
    ("$@") || phase_status=$?
    phase_seconds=$(($(date +%s) - phase_start))
    # Empty without /proc.
    phase_busy=$(echo "$phase_cpu $(cpu)" | awk 'NF == 4 && $3 + $4 > $1 + $2 {
        printf "%3.0f %%", 100 * ($3 - $1) / ($3 - $1 + $4 - $2)
    }')
    echo "== $phase_name: $phase_seconds s"
    printf '%6d s %s  %s\n' "$phase_seconds" "$phase_busy" "$phase_name" >>"$KUBECTL_FLINK_TEST_SECONDS/phases"
    return "$phase_status"
}

together() {
    together_folder=$(mktemp -d)
    together_status=0
    for together_script; do
        phase "$together_script" "$together_script" >"$together_folder/$(basename "$together_script")" 2>&1 &
        eval "together_$(basename "$together_script" .sh)=$!"
    done
    for together_script; do
        eval "wait \$together_$(basename "$together_script" .sh)" || together_status=1
        cat "$together_folder/$(basename "$together_script")"
    done
    rm -rf "$together_folder"
    return "$together_status"
}

slowest() {
    echo "== seconds and CPU usage of each phase"
    cat "$KUBECTL_FLINK_TEST_SECONDS/phases"
    echo "== the ten slowest tests"
    # Lines such as `ok e2e::care::a_failed_job_is_started_again <41.203s>`.
    cat "$KUBECTL_FLINK_TEST_SECONDS"/tests-* 2>/dev/null | sed -n 's/^\([a-z]*\) \(.*\) <\([0-9.]*\)s>$/\3 \2 \1/p' \
        | sort -rn | head -n 10 | while read -r seconds test outcome; do
        printf '%8.1f s  %s%s\n' "$seconds" "$test" "$([ "$outcome" = ok ] || echo " ($outcome)")"
    done
}
