#!/usr/bin/env bash
# Let a real Prometheus scrape the operator, and run every query of examples/monitoring.
#
# Uses an API server from `kubectl flink sandbox up --control-plane-only`, and bench/flinkworld instead of Flink. Needs Linux,
# Go and Python. PROMETHEUS names a folder with `prometheus` and `promtool` that is used instead of Debian's.
cd "$(dirname "$0")/.."
. tests/strict.sh
set_up prometheus sandbox
. tests/servers.sh
sandbox=monitoring-$$
program=$PWD/target/debug/kubectl-flink
# Separate from the user's sandboxes. The leftovers of a killed run are here.
export KUBECTL_FLINK_SANDBOX_STATE="$PWD/target/tmp/sandboxes"

flink() {
    "$alone" KUBECONFIG="$KUBECONFIG" "$program" "$@"
}

clean_up() {
    "$program" sandbox down --name "$sandbox" >/dev/null 2>&1 || status=1
}

PROMETHEUS=${PROMETHEUS:-$(tests/tools.sh prometheus)}

# First, before anything is started: what the files alone can show.
"$PROMETHEUS/promtool" check rules examples/monitoring/alerts.yaml
cp examples/monitoring/alerts.yaml tests/monitoring/alerts.test.yaml "$folder"
"$PROMETHEUS/promtool" test rules "$folder/alerts.test.yaml"

cargo build --locked
(cd bench/flinkworld && go build -o "$folder/flinkworld" .)

export KUBECONFIG="$folder/kubeconfig"
"$program" sandbox up --control-plane-only --name "$sandbox" --kubeconfig "$KUBECONFIG"
flink crds --apply
flink init --yes --skip-crds --namespace default >/dev/null
flink=127.0.0.1:$(free_port)
"$alone" "$folder/flinkworld" -kubeconfig "$KUBECONFIG" -listen "$flink" >"$folder/flinkworld.log" 2>&1 &
started $!
"$alone" KUBECONFIG="$KUBECONFIG" "$program" operate --all-namespaces --flink-rest-address "$flink" --metrics-port 0 >"$folder/operator.log" 2>&1 &
started $!
wait_for 60 grep -q 'serving metrics' "$folder/operator.log"
metrics=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$folder/operator.log")

cat >"$folder/prometheus.yml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$folder/alerts.yaml]
scrape_configs:
  - job_name: flink-operator
    static_configs: [{targets: ["127.0.0.1:$metrics"]}]
END
address=127.0.0.1:$(free_port)
"$alone" "$PROMETHEUS/prometheus" --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/data" \
    --web.listen-address="$address" >"$folder/prometheus.log" 2>&1 &
started $!
# A job that is upgraded, a savepoint, a session job that cannot start, and a blue/green deployment.
manifest() {
    cat <<END
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: $1}
spec:
  image: flink:1.20
  flinkVersion: v1_20
  serviceAccount: flink
  flinkConfiguration: {state.savepoints.dir: "file:///flink-data/savepoints", state.checkpoints.dir: "file:///flink-data/checkpoints"}
  jobManager: {resource: {memory: 1g, cpu: 1}}
  taskManager: {resource: {memory: 1g, cpu: 1}}
$2
END
}
manifest orders '  job: {jarURI: "local:///opt/flink/usrlib/orders.jar", parallelism: 1, upgradeMode: stateless}' |
    flink deploy -f - --wait
# flinkworld forgets the savepoint, but it is counted, which is enough.
flink savepoint orders --timeout 1s >/dev/null 2>&1 || true
flink deploy orders --parallelism 2 --wait
manifest cluster '' | flink deploy -f - --wait
flink deploy -f - <<END
apiVersion: flink.apache.org/v1beta1
kind: FlinkSessionJob
metadata: {name: report}
spec:
  deploymentName: cluster
  job: {jarURI: "https://127.0.0.1:1/report.jar", parallelism: 1, upgradeMode: stateless}
END
flink deploy -f - --wait <<END
apiVersion: flink.apache.org/v1beta1
kind: FlinkBlueGreenDeployment
metadata: {name: shop}
spec:
  template:
    spec:
      image: flink:1.20
      flinkVersion: v1_20
      serviceAccount: flink
      jobManager: {resource: {memory: 1g, cpu: 1}}
      taskManager: {resource: {memory: 1g, cpu: 1}}
      job: {jarURI: "local:///opt/flink/usrlib/shop.jar", parallelism: 1, upgradeMode: stateless}
END
"$alone" python3 tests/monitoring/check.py "http://$address"
