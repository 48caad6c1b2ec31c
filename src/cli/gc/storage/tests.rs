use serde_json::json;

use super::*;

fn file(path: &str) -> File {
    File { path: path.to_owned(), size_bytes: 2, changed: Timestamp::UNIX_EPOCH }
}

fn is_recognized(kind: Kind, files: &[&str]) -> bool {
    let files: Vec<File> = files.iter().map(|path| file(&format!("orders/{path}"))).collect();
    folder(kind, "orders".to_owned(), &files, BTreeSet::new(), true).is_recognized
}

#[test]
fn a_folder_with_anything_that_is_not_of_flink_is_not_recognized() {
    for (kind, files) in [
        (Kind::Savepoint, &["_metadata", "6f1a"][..]),
        (Kind::Checkpoints, &["chk-12/_metadata", "shared/a/b", "taskowned/c"]),
        (Kind::HaStorage, &["blob/job_1/blob_p-1", "completedCheckpoint12", "submittedJobGraph3"]),
        (Kind::HaStorage, &["submittedExecutionPlan3", "blob/application_1/blob_p-1"]),
        (Kind::HaStorage, &["submittedApplication4"]),
        (Kind::JobResultStore, &["1.json", "2_DIRTY.json"]),
    ] {
        assert!(is_recognized(kind, files), "{kind:?}");
        assert!(!is_recognized(kind, &[]), "{kind:?}");
    }
    for (kind, files) in [
        (Kind::Savepoint, &["a/_metadata", "6f1a"][..]),
        (Kind::Checkpoints, &["chk-12/_metadata", "notes"]),
        (Kind::Checkpoints, &["chk-12/_metadata", "chk-x/_metadata"]),
        (Kind::HaStorage, &["completedCheckpoint12", "checkpoints/1"]),
        (Kind::JobResultStore, &["1.json", "more/2.json"]),
    ] {
        assert!(!is_recognized(kind, files), "{kind:?} {files:?}");
    }
}

#[test]
fn only_jars_are_no_state() {
    let has_state = |path: &str| {
        let files = [file(path)];
        folder(Kind::HaStorage, "orders".to_owned(), &files, BTreeSet::new(), true).has_state
    };
    assert!(!has_state("orders/blob/job_1/blob_p-1"));
    assert!(has_state("orders/completedCheckpoint1"));
}

#[test]
fn places_are_those_that_any_name_of_an_option_gives() {
    let config: FlinkConfig = [
        ("state.checkpoints.dir", "s3://lake/cp/"),
        ("state.savepoints.dir", "hdfs:///sp"),
        ("high-availability", "zookeeper"),
        ("high-availability.zookeeper.storageDir", "s3://lake/ha"),
        ("high-availability.zookeeper.quorum", "a:2181, b:2181"),
        ("high-availability.cluster-id", "orders"),
    ]
    .into_iter()
    .collect();
    let shown = json!(places_in(&FlinkConfig::new(), &config));
    assert_eq!(
        shown,
        json!([
            ["Checkpoints", "s3://lake/cp"],
            ["Savepoint", "hdfs:///sp"],
            ["JobResultStore", "s3://lake/ha/job-result-store"],
            ["JobResultStore", "s3://lake/ha/application-result-store"],
            ["HaStorage", "s3://lake/ha"],
            ["ZooKeeperNodes", "zookeeper://a:2181,b:2181/flink"],
        ])
    );
    assert!(places_in(&FlinkConfig::new(), &FlinkConfig::new()).is_empty());
}

#[test]
fn places_are_also_those_of_the_defaults_for_the_version_of_a_cluster() {
    let keys = [("flink-version.v1_20", "exact"), ("flink-version.v2_0+", "later")];
    let base = keys.iter().map(|(prefix, place)| {
        let key =
            format!("kubernetes.operator.default-configuration.{prefix}.state.savepoints.dir");
        (key, format!("s3://{place}"))
    });
    let operator = OperatorConfig::new(base.collect());
    let mut users = Users::default();
    let mut seen = |version: &str| {
        users.add_deployment(&json!({
            "metadata": {"namespace": "shop", "name": version},
            "spec": {"job": {}, "flinkVersion": version},
        }));
        let user = users.users.keys().find(|cluster| cluster.name == version).unwrap();
        let places = places(&users, &operator).into_iter();
        let places = places.filter(|(_, named)| named.users.contains(user));
        places.map(|((_, uri), _)| uri).collect::<Vec<_>>()
    };
    assert_eq!(seen("v1_19"), [""; 0]);
    assert_eq!(seen("v1_20"), ["s3://exact"]);
    assert_eq!(seen("v2_1"), ["s3://later"]);
}
