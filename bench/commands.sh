#!/bin/sh
# How long short commands take: the median of 20 runs, in milliseconds.
#
#   bench/commands.sh PROGRAM        needs KUBECONFIG, and kubectl for the comparison
set -eu
program=$1
median() {
    for _ in $(seq 20); do
        start=$(date +%s%N)
        "$@" >/dev/null
        end=$(date +%s%N)
        echo $(((end - start) / 10000))
    done | sort -n | awk '{ all[NR] = $1 } END { printf "%.1f\n", all[int((NR + 1) / 2)] / 100 }'
}
echo
echo "kubectl-flink --help: $(median "$program" --help) ms (goal: 20)"
if command -v kubectl >/dev/null; then
    status=$(median "$program" status)
    get=$(median kubectl get flinkdeployments)
    echo "kubectl-flink status: $status ms; kubectl get flinkdeployments: $get ms (goal: at most 1.5 times that)"
else
    echo "kubectl is not installed: kubectl-flink status is not compared with kubectl get"
fi
