//! Each kind of fault deliberately, while [`super::weather`] draws them at random: it occurs once or a few times in the
//! middle of an upgrade, and the end must be that of an undisturbed run.

use std::time::Duration;

use futures::future::join_all;
use http::Method;

use super::disturbance::{Disturbance, same_end};
use super::ground::Ground;
use super::proxy::{Asked, Fault, Moment, Side};
use super::scenarios::{self, Scenario};
use super::weather;

/// A delay shorter than any timeout.
const SLOW: Fault = Fault::Slow(Duration::from_millis(1500));

/// Name, matching requests, fault, and how many of them it hits.
type Kind = (&'static str, fn(&Asked) -> bool, Fault, usize);

const OF_KUBERNETES: [Kind; 17] = [
    ("status-409", is_status, Fault::Status(409, None), 3),
    ("status-429", is_status, Fault::Status(429, Some(1)), 3),
    ("status-500", is_status, Fault::Status(500, None), 3),
    ("status-503", is_status, Fault::Status(503, None), 3),
    ("status-cut", is_status, Fault::Cut(Moment::Before), 2),
    ("status-done-cut", is_status, Fault::Cut(Moment::After), 2),
    ("status-silent", is_status, Fault::Silence(Moment::Before), 1),
    ("status-slow", is_status, SLOW, 2),
    ("status-half", is_status, Fault::Truncated, 2),
    ("write-429", is_write, Fault::Status(429, Some(1)), 4),
    ("write-500", is_write, Fault::Status(500, None), 4),
    ("write-done-cut", is_write, Fault::Cut(Moment::After), 4),
    ("read-429", is_read, Fault::Status(429, Some(1)), 4),
    ("read-500", is_read, Fault::Status(500, None), 4),
    ("read-cut", is_read, Fault::Cut(Moment::Before), 4),
    ("read-slow", is_read, SLOW, 4),
    ("read-half", is_read, Fault::Truncated, 4),
];

const OF_FLINK: [Kind; 18] = [
    ("stop-429", is_stop, Fault::Status(429, None), 2),
    ("stop-500", is_stop, Fault::Status(500, None), 2),
    ("stop-503", is_stop, Fault::Status(503, None), 2),
    ("stop-cut", is_stop, Fault::Cut(Moment::Before), 2),
    ("stop-done-cut", is_stop, Fault::Cut(Moment::After), 1),
    ("stop-silent", is_stop, Fault::Silence(Moment::Before), 1),
    ("stop-half", is_stop, Fault::Truncated, 1),
    ("stop-slow", is_stop, SLOW, 1),
    ("jobs-none", is_jobs, Fault::NoJobs, 3),
    ("jobs-429", is_jobs, Fault::Status(429, None), 3),
    ("jobs-500", is_jobs, Fault::Status(500, None), 3),
    ("jobs-cut", is_jobs, Fault::Cut(Moment::Before), 3),
    ("jobs-half", is_jobs, Fault::Truncated, 3),
    ("jobs-slow", is_jobs, SLOW, 3),
    ("trigger-404", is_trigger, Fault::Status(404, None), 1),
    ("trigger-500", is_trigger, Fault::Status(500, None), 3),
    ("trigger-cut", is_trigger, Fault::Cut(Moment::After), 3),
    ("trigger-half", is_trigger, Fault::Truncated, 3),
];

/// Faults of requests that only session jobs make.
const OF_SUBMISSIONS: [Kind; 8] = [
    ("upload-500", is_upload, Fault::Status(500, None), 2),
    ("upload-done-cut", is_upload, Fault::Cut(Moment::After), 1),
    ("upload-half", is_upload, Fault::Truncated, 1),
    ("run-500", is_run, Fault::Status(500, None), 2),
    ("run-503", is_run, Fault::Status(503, None), 2),
    ("run-done-cut", is_run, Fault::Cut(Moment::After), 1),
    ("run-half", is_run, Fault::Truncated, 1),
    ("run-slow", is_run, SLOW, 1),
];

fn is_status(asked: &Asked) -> bool {
    asked.write.is_some() && asked.path.split('?').next().is_some_and(|it| it.ends_with("/status"))
}

fn is_write(asked: &Asked) -> bool {
    asked.side == Side::Kubernetes && asked.write.is_some() && !asked.is_event()
}

fn is_read(asked: &Asked) -> bool {
    asked.side == Side::Kubernetes && asked.method == Method::GET && !asked.is_watch
}

fn is_stop(asked: &Asked) -> bool {
    asked.is("POST", "/stop")
}

fn is_jobs(asked: &Asked) -> bool {
    asked.is("GET", "/jobs/overview")
}

/// Whether the request polls the stop's savepoint.
fn is_trigger(asked: &Asked) -> bool {
    asked.side == Side::Flink && asked.is("GET", "/savepoints/")
}

fn is_upload(asked: &Asked) -> bool {
    asked.is("POST", "/jars/upload")
}

fn is_run(asked: &Asked) -> bool {
    asked.side == Side::Flink && asked.is("POST", "/run")
}

/// Scenarios that make requests of all kinds.
const DEPLOYMENT_LIFE: &str = "savepoint_upgrade";
const SESSION_JOB_LIFE: &str = "session_job_upgrade";
/// Default number of other scenarios, which the seed selects.
const OTHER_LIVES: usize = 1;

/// Selects scenarios beside those two, as many as `KUBECTL_FLINK_FAULT_LIVES` says, or all if there are fewer.
fn other_lives() -> impl Iterator<Item = &'static Scenario> {
    let count = std::env::var("KUBECTL_FLINK_FAULT_LIVES")
        .map_or(OTHER_LIVES, |count| count.parse().expect("KUBECTL_FLINK_FAULT_LIVES is a number"));
    let seed = weather::seed();
    println!("KUBECTL_FLINK_FAULT_SEED={seed}");
    let is_other = |one: &&Scenario| one.name != DEPLOYMENT_LIFE && one.name != SESSION_JOB_LIFE;
    let all: Vec<&Scenario> = scenarios::ALL.iter().filter(is_other).collect();
    let first = usize::try_from(seed % all.len() as u64).unwrap();
    let others = all.len();
    all.into_iter().cycle().skip(first).take(count.min(others))
}

pub(super) async fn each_kind_of_fault_changes_nothing_in_the_end() {
    let ground = Ground::shared().await;
    let disturbance = |&(name, is_it, fault, times): &Kind| {
        let disturbance = Disturbance::first(name, times, is_it, fault);
        // Every one of them, not only the first.
        disturbance.if_shown(move |recorded| {
            recorded.iter().filter(|one| one.fault == Some(fault)).count() == times
        })
    };
    let of_deployments = same_end(&ground, DEPLOYMENT_LIFE, |_| {
        OF_KUBERNETES.iter().chain(&OF_FLINK).map(disturbance).collect()
    });
    let of_session_jobs = same_end(&ground, SESSION_JOB_LIFE, |_| {
        OF_KUBERNETES.iter().chain(&OF_FLINK).chain(&OF_SUBMISSIONS).map(disturbance).collect()
    });
    // Other scenarios do not make that many requests of each kind.
    let of_others = other_lives().map(|scenario| {
        same_end(&ground, scenario.name, |_| {
            OF_KUBERNETES.iter().map(|kind| disturbance(kind).perhaps()).collect()
        })
    });
    tokio::join!(of_deployments, of_session_jobs, join_all(of_others));
}
