use super::*;

const MINUTE: i64 = 60_000;

fn rules() -> HealthRules {
    HealthRules {
        restarts_window: Duration::from_mins(2),
        restarts_threshold: 64,
        checkpoint_window: Some(Duration::from_mins(20)),
    }
}

fn metrics(restarts: i64, checkpoints: i64) -> JobMetrics {
    JobMetrics { restarts: Some(restarts), completed_checkpoints: Some(checkpoints) }
}

/// Returns the record after observations at the given times.
fn after(looks: &[(i64, i64, i64)]) -> HealthInfo {
    let mut info = None;
    for (now, restarts, checkpoints) in looks {
        info = evaluate(info.as_ref(), &metrics(*restarts, *checkpoints), &rules(), *now);
    }
    info.unwrap()
}

#[track_caller]
fn check(looks: &[(i64, i64, i64)], error: Option<&str>) {
    let result = after(looks).health_result;
    assert_eq!((result.healthy, result.error.as_deref()), (error.is_none(), error));
}

#[test]
fn restarts_are_counted_in_a_window() {
    let hit = "Restart count hit threshold: 64";
    check(&[(MINUTE, 100, 0)], None);
    check(&[(MINUTE, 0, 0), (2 * MINUTE, 64, 1)], None);
    check(&[(MINUTE, 0, 0), (2 * MINUTE, 65, 1)], Some(hit));
    // Over ten minutes, only a fifth of them are used.
    check(&[(MINUTE, 0, 0), (11 * MINUTE, 320, 1)], None);
    check(&[(MINUTE, 0, 0), (11 * MINUTE, 330, 1)], Some(hit));
}

#[test]
fn a_new_job_manager_starts_the_counts_over() {
    let looks = [(MINUTE, 500, 9), (2 * MINUTE, 0, 0), (3 * MINUTE, 60, 1)];
    check(&looks, None);
    assert_eq!(after(&looks).num_restarts, 0);
}

#[test]
fn checkpoints_have_to_come() {
    check(&[(MINUTE, 0, 5), (21 * MINUTE, 0, 5)], None);
    let stuck = "Cluster is not able to complete checkpoints";
    check(&[(MINUTE, 0, 5), (22 * MINUTE, 0, 5)], Some(stuck));
    check(&[(MINUTE, 0, 5), (22 * MINUTE, 0, 6)], None);
    let both = format!("Restart count hit threshold: 64|{stuck}");
    check(&[(MINUTE, 0, 5), (22 * MINUTE, 900, 5)], Some(&both));
}

#[test]
fn without_figures_nothing_is_concluded() {
    assert_eq!(evaluate(None, &JobMetrics::default(), &rules(), MINUTE), None);
}

#[test]
fn the_checkpoint_window_is_never_too_small_for_the_job() {
    let mut config = FlinkConfig::default();
    let window = |config: &FlinkConfig| HealthRules::of(config).unwrap().checkpoint_window;
    assert_eq!(window(&config), None, "a job without checkpoints");
    config.set("execution.checkpointing.interval", "30 min");
    assert_eq!(window(&config), Some(Duration::from_hours(1)));
    config.set("execution.checkpointing.tolerable-failed-checkpoints", "1");
    config.set("execution.checkpointing.interval", "1 min");
    assert_eq!(window(&config), Some(Duration::from_mins(30)));
    config.set("kubernetes.operator.cluster.health-check.checkpoint-progress.window", "1 min");
    assert_eq!(window(&config), Some(Duration::from_mins(30)));
    config.set("kubernetes.operator.cluster.health-check.checkpoint-progress.window", "1 h");
    assert_eq!(window(&config), Some(Duration::from_hours(1)));
    config.set("kubernetes.operator.cluster.health-check.checkpoint-progress.enabled", "false");
    assert_eq!(window(&config), None);
}
