"""Asks a Prometheus everything that examples/monitoring asks; each query and each alert has to find something.

    check.py http://127.0.0.1:9090

An alert is asked for without its comparison: what it compares has to be there, whether it fires or not.
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request

PATIENCE = 120
# What Grafana puts in.
VARIABLES = {"$namespace": ".*", "$__rate_interval": "10s"}
# Facts of the world that tests/monitoring.sh makes.
FACTS = {
    'sum(flink_k8soperator_namespace_Count{resourcetype="FlinkDeployment"})': 3,
    'sum(flink_k8soperator_namespace_Count{resourcetype="FlinkSessionJob"})': 1,
    'sum(flink_k8soperator_namespace_Count{resourcetype="FlinkBlueGreenDeployment"})': 1,
    "sum(flink_k8soperator_namespace_BlueGreenState_ACTIVE_BLUE_Count)": 1,
    "sum(flink_k8soperator_namespace_Lifecycle_State_STABLE_Count{resourcetype=\"FlinkDeployment\"})": 3,
    'sum(flink_k8soperator_namespace_FlinkVersion_Count{FlinkVersion="1_20_1"})': 3,
    "flink_k8soperator_FlinkDeployment_Lifecycle_Transition_Upgrade_TimeSeconds_count": 1,
    "flink_k8soperator_FlinkBlueGreenDeployment_Lifecycle_Transition_InitialDeployment_TimeSeconds_count": 1,
}


def ask(server, query):
    url = f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"refused: {query}\n{error.read().decode()}")
    except OSError:
        return []  # Prometheus is still starting.


def dashboard():
    with open("examples/monitoring/dashboard.json", encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    for panel in panels:
        for target in panel.get("targets", []):
            query = target["expr"]
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            yield f'panel "{panel["title"]}"', query


def alerts(server):
    with urllib.request.urlopen(f"{server}/api/v1/rules", timeout=10) as answer:
        groups = json.load(answer)["data"]["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        absent = re.fullmatch(r"absent\((.*)\)", rule["query"], re.DOTALL)
        query = absent.group(1) if absent else re.sub(r"\s[<>]=?\s[0-9.e+]+\s*$", "", rule["query"])
        if query == rule["query"]:
            sys.exit(f'alert {rule["name"]} has no comparison: {query}')
        yield f'alert {rule["name"]}', query


def main():
    server = sys.argv[1]
    deadline = time.monotonic() + PATIENCE
    while not ask(server, "flink_k8soperator_namespace_Count"):
        if time.monotonic() > deadline:
            sys.exit("Prometheus has no metrics of the operator")
        time.sleep(0.5)
    queries = [*dashboard(), *alerts(server)]
    assert len(queries) > 30, "neither dashboard nor alerts are read"
    missing = queries
    wrong = dict(FACTS)
    while time.monotonic() < deadline and (missing or wrong):
        missing = [(name, query) for name, query in missing if not ask(server, query)]
        found = {query: ask(server, query) for query in wrong}
        wrong = {q: v for q, v in wrong.items() if [float(s["value"][1]) for s in found[q]] != [v]}
        time.sleep(0.5)
    for name, query in missing:
        print(f"{name} finds nothing: {query}", file=sys.stderr)
    for query, value in wrong.items():
        print(f"not {value}: {query}: {ask(server, query)}", file=sys.stderr)
    if missing or wrong:
        sys.exit(1)
    print(f"{len(queries)} queries find what they ask for")


main()
