use BlueGreenState::{
    ActiveBlue, ActiveGreen, InitializingBlue, SavepointingBlue, SavepointingGreen,
    TransitioningToBlue, TransitioningToGreen,
};
use LifecycleState::{
    Created, Deleting, Deployed, Failed, RolledBack, RollingBack, Stable, Suspended, Upgrading,
};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

/// Returns the times that end with these sightings, each with its second.
fn history<S: State>(sightings: &[(S, i64)]) -> Vec<String> {
    let mut sightings = sightings.iter();
    let (first, since) = *sightings.next().unwrap();
    let mut track = Track::new(first, None, at(since));
    let mut told = Vec::new();
    for (state, second) in sightings {
        told.extend(track.see(*state, at(*second)).iter().map(|((what, name), seconds)| {
            let within = if *what == "State" { "in " } else { "" };
            format!("{second}: {within}{name} {seconds}")
        }));
        assert!(track.now == *state && track.spans.len() <= S::ALL.len());
    }
    told
}

#[test]
fn a_first_deployment() {
    let told =
        history(&[(Created, 0), (Upgrading, 2), (Deployed, 5), (Deployed, 20), (Stable, 30)]);
    assert_eq!(
        told,
        [
            "5: Submission 3",
            "30: Stabilization 25",
            "30: in CREATED 0",
            "30: in UPGRADING 0",
            "30: in DEPLOYED 15"
        ]
    );
}

#[test]
fn an_upgrade_counts_from_when_it_was_last_seen_stable() {
    let told = history(&[
        (Stable, 0),
        (Stable, 100),
        (Upgrading, 110),
        (Upgrading, 120),
        (Deployed, 125),
        (Stable, 140),
    ]);
    assert_eq!(
        told,
        [
            "110: Suspend 10",
            "125: Submission 5",
            "140: Upgrade 40",
            "140: Stabilization 15",
            "140: in UPGRADING 10",
            "140: in DEPLOYED 0",
        ]
    );
}

#[test]
fn suspending_and_resuming() {
    let told = history(&[(Stable, 0), (Suspended, 7), (Suspended, 60), (Stable, 65)]);
    assert_eq!(told, ["7: Suspend 7", "7: in STABLE 0", "65: Resume 5", "65: in SUSPENDED 53"]);
}

#[test]
fn a_rollback_counts_from_the_deployment_that_was_rolled_back() {
    let told = history(&[(Deployed, 0), (Deployed, 50), (RollingBack, 60), (RolledBack, 75)]);
    assert_eq!(
        told,
        ["75: Rollback 75", "75: Submission 15", "75: in DEPLOYED 50", "75: in ROLLING_BACK 0"]
    );
}

#[test]
fn what_is_not_a_timed_transition_only_ends_states() {
    assert_eq!(history(&[(Stable, 0), (Stable, 9), (Failed, 10)]), ["10: in STABLE 9"]);
    assert_eq!(history(&[(Stable, 0), (Deleting, 10)]), [""; 0]);
}

#[test]
fn upgrading_again_forgets_all_but_where_it_came_from() {
    let told = history(&[(Stable, 0), (Upgrading, 1), (Deployed, 2), (Upgrading, 3)]);
    assert_eq!(
        told,
        ["1: Suspend 1", "2: Submission 1", "3: Suspend 1", "3: Suspend 3", "3: in STABLE 0"]
    );
}

#[test]
fn a_clock_that_is_set_back_makes_no_negative_time() {
    assert_eq!(history(&[(Stable, 100), (Suspended, 50)]), ["50: Suspend 0", "50: in STABLE 0"]);
}

/// The histories of the Java operator's `BlueGreenResourceLifecycleMetricTrackerTest`.
#[test]
fn a_first_blue_green_deployment_counts_from_when_it_began() {
    let told = history(&[(InitializingBlue, 0), (TransitioningToBlue, 2), (ActiveBlue, 7)]);
    assert_eq!(
        told,
        ["7: InitialDeployment 5", "7: in INITIALIZING_BLUE 2", "7: in TRANSITIONING_TO_BLUE 5"]
    );
}

#[test]
fn a_switch_counts_from_the_end_of_the_state_at_rest() {
    let told = history(&[
        (ActiveBlue, 0),
        (ActiveBlue, 3),
        (SavepointingBlue, 5),
        (TransitioningToGreen, 15),
        (ActiveGreen, 18),
        (SavepointingGreen, 30),
        (TransitioningToBlue, 31),
        (ActiveBlue, 33),
    ]);
    assert_eq!(
        told,
        [
            "18: BlueToGreen 13",
            "18: in ACTIVE_BLUE 5",
            "18: in SAVEPOINTING_BLUE 10",
            "18: in TRANSITIONING_TO_GREEN 3",
            "33: GreenToBlue 3",
            "33: in ACTIVE_GREEN 12",
            "33: in SAVEPOINTING_GREEN 1",
            "33: in TRANSITIONING_TO_BLUE 2",
        ]
    );
}

#[test]
fn a_switch_that_is_given_up_only_ends_states() {
    let told = history(&[
        (ActiveBlue, 0),
        (SavepointingBlue, 10),
        (TransitioningToGreen, 25),
        (ActiveBlue, 30),
        (TransitioningToGreen, 40),
        (ActiveGreen, 44),
    ]);
    assert_eq!(
        told,
        [
            "30: in ACTIVE_BLUE 10",
            "30: in SAVEPOINTING_BLUE 15",
            "30: in TRANSITIONING_TO_GREEN 5",
            "44: BlueToGreen 4",
            "44: in ACTIVE_BLUE 10",
            "44: in TRANSITIONING_TO_GREEN 4",
        ]
    );
}
