use expect_test::expect;

use super::*;

fn health() -> HealthInfo {
    HealthInfo {
        time_stamp: 60_000,
        num_restarts: 1,
        num_restarts_evaluation_time_stamp: 60_000,
        num_completed_checkpoints: 2,
        num_completed_checkpoints_increased_time_stamp: 60_000,
        health_result: HealthResult::default(),
    }
}

/// Older versions of the operator, and the Java operator, read what is stored here.
#[test]
fn notes_are_stored_as_before() {
    let mut info = ClusterInfo::default();
    let at: Timestamp = "2026-11-27T10:00:00Z".parse().unwrap();
    let attempts = Attempts { count: 2, last: 5, generation: 3, deployed: 1 };
    STARTING_JOB.set(&mut info, &"a1".to_owned());
    REPLACED_DEPLOYMENT.set(&mut info, &"uid".to_owned());
    let start = LastStart { deployed: 1_795_773_600_000, started: 0 };
    let removed = Removed { at, start: Some(start) };
    REMOVED_UNSTARTED.set(&mut info, &removed);
    UNFINISHED_DEPLOYMENT.set(&mut info, &"uid".to_owned());
    let options = [("high-availability.type".to_owned(), "kubernetes".to_owned())];
    STARTED_WITH.set(&mut info, &options.into());
    FORMER_JOBS.set(&mut info, &JobIds(vec!["a1".to_owned(), "b2".to_owned()]));
    RESTART_ATTEMPTS.set(&mut info, &attempts);
    CLUSTER_HEALTH.set(&mut info, &health());
    SCALED_TO.set(&mut info, &7);
    REDEPLOY_WAITS.set(&mut info, &Waiting { generation: 3, since: at });
    AWAY_SINCE.set(&mut info, &at);
    let used = Some(MetadataUsed { deployed: 2, named: Some(7) });
    let path = "s3://lake/chk-7".to_owned();
    let last_checkpoint = LastCheckpoint { checkpoint: 7, path, started: 1, used };
    LAST_CHECKPOINT.set(&mut info, &last_checkpoint);
    expect![[r#"
        {
          "AwaySince": "2026-11-27T10:00:00Z",
          "ClusterHealthInfo": "{\"timeStamp\":60000,\"numRestarts\":1,\"numRestartsEvaluationTimeStamp\":60000,\"numCompletedCheckpoints\":2,\"numCompletedCheckpointsIncreasedTimeStamp\":60000,\"healthResult\":{\"healthy\":true,\"error\":null}}",
          "FormerJobs": "a1,b2",
          "HighAvailability": "{\"high-availability.type\":\"kubernetes\"}",
          "InPlaceScaling": "7",
          "LastCheckpoint": "{\"checkpoint\":7,\"path\":\"s3://lake/chk-7\",\"started\":1,\"used\":{\"deployed\":2,\"named\":7}}",
          "RedeployWaits": "3 2026-11-27T10:00:00Z",
          "RemovedUnstarted": "2026-11-27T10:00:00Z[start=1795773600000-0]",
          "ReplacedDeployment": "uid",
          "RestartAttempts": "{\"count\":2,\"last\":5,\"generation\":3,\"deployed\":1}",
          "StartingJob": "a1",
          "UnfinishedDeployment": "uid"
        }"#]]
        .assert_eq(&serde_json::to_string_pretty(&info).unwrap());
    assert_eq!(REMOVED_UNSTARTED.get(&info), Some(removed));
    assert_eq!(LAST_CHECKPOINT.get(&info), Some(last_checkpoint));
    assert_eq!(RESTART_ATTEMPTS.get(&info), Some(attempts));
    assert_eq!(CLUSTER_HEALTH.get(&info), Some(health()));
    assert_eq!(REDEPLOY_WAITS.get(&info), Some(Waiting { generation: 3, since: at }));
    info.retain(|key, _| !OF_ONE_CLUSTER.contains(&key.as_str()));
    let left: Vec<&String> = info.keys().collect();
    assert_eq!(
        left,
        [
            "AwaySince",
            "FormerJobs",
            "InPlaceScaling",
            "LastCheckpoint",
            "RedeployWaits",
            "RestartAttempts"
        ]
    );
}

#[test]
fn an_older_version_noted_only_when_a_job_manager_was_removed() {
    let at: Timestamp = "2026-11-27T10:00:00Z".parse().unwrap();
    let mut info = [(REMOVED_UNSTARTED.key.to_owned(), at.to_string())].into();
    assert_eq!(REMOVED_UNSTARTED.get(&info), Some(Removed { at, start: None }));
    // It reads only the time from a current note, and an intermediate version wrote the start in another format.
    let start = LastStart { deployed: 1_795_773_600_000, started: 7 };
    let removed = Removed { at, start: Some(start) };
    REMOVED_UNSTARTED.set(&mut info, &removed);
    assert_eq!(info[REMOVED_UNSTARTED.key].parse::<Timestamp>().unwrap(), at);
    assert_eq!(REMOVED_UNSTARTED.get(&info), Some(removed));
    info.insert(REMOVED_UNSTARTED.key.to_owned(), format!("{at} 1795773600000 7"));
    assert_eq!(REMOVED_UNSTARTED.get(&info), Some(removed));
}

#[test]
fn what_cannot_be_read_counts_as_none() {
    let keys = [REMOVED_UNSTARTED.key, CLUSTER_HEALTH.key, SCALED_TO.key, REDEPLOY_WAITS.key];
    let info = keys.map(|key| (key.to_owned(), "nonsense".to_owned())).into();
    assert_eq!(REMOVED_UNSTARTED.get(&info), None);
    assert_eq!(CLUSTER_HEALTH.get(&info), None);
    assert_eq!(SCALED_TO.get(&info), None);
    assert_eq!(REDEPLOY_WAITS.get(&info), None);
}

#[test]
fn the_health_of_an_older_java_operator_is_read() {
    let old = r#"{"timeStamp":5,"numRestarts":3,"healthy":true}"#;
    let info = [(CLUSTER_HEALTH.key.to_owned(), old.to_owned())].into();
    let old = CLUSTER_HEALTH.get(&info).unwrap();
    assert_eq!((old.num_restarts, old.health_result.healthy), (3, true));
}
