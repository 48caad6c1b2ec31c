use expect_test::expect;
use serde_json::{from_value, json};

use super::super::inventory::{Inventory, by_namespace};
use super::*;

fn inventory() -> Inventory {
    let snapshot = |name: &str, spec: serde_json::Value, status: serde_json::Value| {
        from_value(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
            "metadata": {"name": name, "namespace": "shop", "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"snapshot.trigger-type": "UPGRADE"}},
            "spec": spec, "status": status,
        }))
        .unwrap()
    };
    let orders = json!({"kind": "FlinkDeployment", "name": "orders"});
    let clicks = json!({"kind": "FlinkSessionJob", "name": "clicks"});
    Inventory {
        namespace: "shop".to_owned(),
        snapshots: vec![
            snapshot(
                "orders-1",
                json!({"jobReference": orders, "savepoint": {"disposeOnDelete": false}}),
                json!({"state": "COMPLETED", "path": "s3://lake/sp/1"}),
            ),
            snapshot(
                "orders-2",
                json!({"jobReference": orders, "savepoint": {}}),
                json!({"state": "COMPLETED", "path": "s3://lake/sp/2"}),
            ),
            snapshot(
                "clicks-1",
                json!({"jobReference": clicks, "checkpoint": {}}),
                json!({"state": "FAILED", "error": "no space"}),
            ),
        ],
        deployments: vec![
            from_value(json!({
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "metadata": {"name": "orders", "namespace": "shop"},
                "spec": {"job": {"jarURI": "local:///a.jar"}},
                "status": {"jobStatus": {"upgradeSavepointPath": "s3://lake/sp/1",
                    "savepointInfo": {"savepointHistory": [
                        {"location": "s3://lake/sp/0", "triggerType": "MANUAL",
                            "timeStamp": 1_767_139_200_000_i64},
                        {"location": "s3://lake/sp/1/", "timeStamp": 1_767_225_600_000_i64},
                    ]}}},
            }))
            .unwrap(),
        ],
        session_jobs: vec![],
        revisions: Ok(vec![]),
    }
}

#[test]
fn the_list_shows_who_could_start_from_each() {
    let found = collect(&inventory(), None);
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    expect![[r#"
        NAME       JOB                 KIND         TRIGGER   STATE       AGE   REFERENCES   PATH             ON DELETE   REFERRED TO BY
        <none>     orders              SAVEPOINT    MANUAL    COMPLETED   2d    1            s3://lake/sp/0   <none>      FlinkDeployment `orders` (status.jobStatus.savepointInfo.savepointHistory)
        orders-1   orders              SAVEPOINT    UPGRADE   COMPLETED   24h   2            s3://lake/sp/1   keep        FlinkDeployment `orders` (status.jobStatus.upgradeSavepointPath), FlinkDeployment `orders` (status.jobStatus.savepointInfo.savepointHistory)
        orders-2   orders              SAVEPOINT    UPGRADE   COMPLETED   24h   0            s3://lake/sp/2   dispose     <none>
        clicks-1   sessionjob/clicks   CHECKPOINT   UPGRADE   FAILED      24h   0            <none>           <none>      <none>"#]].assert_eq(&render(&found, false, true, now));
    let names: Vec<_> = collect(&inventory(), Some("sessionjob/clicks"))
        .into_iter()
        .filter_map(|found| found.name)
        .collect();
    assert_eq!(names, ["clicks-1"]);
}

#[test]
fn a_list_of_all_namespaces_names_them() {
    let found = collect(&inventory(), Some("sessionjob/clicks"));
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    expect![[r#"
        NAMESPACE   NAME       JOB                 KIND         TRIGGER   STATE    AGE   REFERENCES   PATH
        shop        clicks-1   sessionjob/clicks   CHECKPOINT   UPGRADE   FAILED   24h   0            <none>"#]].assert_eq(&render(&found, true, false, now));
    let grouped = by_namespace(inventory().snapshots);
    assert_eq!(grouped.keys().collect::<Vec<_>>(), ["shop"]);
}

#[test]
fn what_cannot_be_read_may_refer_to_anything() {
    let unreadable = Inventory { revisions: Err("forbidden".to_owned()), ..inventory() };
    let found = collect(&unreadable, Some("orders"));
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|found| found.referred_to_by.is_none()));
}
