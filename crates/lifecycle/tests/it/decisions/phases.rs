//! What each phase does for each request of the user: `docs/lifecycle.md`.

use api::deployment::FlinkDeployment;
use expect_test::expect_file;
use lifecycle::phase::Phase;
use lifecycle::reads;
use lifecycle::rules::{Desired, Rule};
use lifecycle::wait::{Awaited, Limit};
use lifecycle::world::{Facts, Question};

use super::rollback::{failing, rolled_back, taken_down};
use super::silence::{cancelling, redeploy, stopping};
use super::*;

/// Returns an application in this phase without further requests.
fn scene(phase: Phase) -> Scene {
    match phase {
        Phase::New => Scene::new("savepoint"),
        Phase::Unreadable => {
            let mut scene = Scene::running("savepoint");
            scene.status.reconciliation_status.last_reconciled_spec = Some("{".to_owned());
            scene
        }
        Phase::Running => Scene::running("savepoint"),
        Phase::Stopping => stopping(),
        Phase::Cancelling => cancelling(),
        Phase::Starting => {
            Scene::running("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT)
        }
        Phase::Suspended => {
            let mut scene = Scene::running("savepoint").suspended(UpgradeMode::Savepoint);
            scene.resource.spec.job.as_mut().unwrap().state = JobState::Suspended;
            scene.path(SAVEPOINT)
        }
        Phase::RollingBack => taken_down(&failing("savepoint").starting()),
        Phase::RolledBack => rolled_back(),
        Phase::Deleting => {
            let mut scene = Scene::running("savepoint").delete();
            scene.status.lifecycle_state = Some(api::status::LifecycleState::Deleting);
            scene
        }
    }
}

fn with(scene: Scene, wish: Desired) -> Scene {
    match wish {
        Desired::Same => scene,
        Desired::Rescale => scene.edit_job(|job| job.parallelism = Some(8)),
        Desired::Change => scene.edit(|spec| spec.image = Some("flink:other".to_owned())),
        Desired::Suspend => scene.edit_job(|job| job.state = JobState::Suspended),
        Desired::Resume => scene.edit_job(|job| job.state = JobState::Running),
        Desired::Redeploy => redeploy(scene),
    }
}

/// Returns what the pass says about it, or why the request is impossible.
fn cell(phase: Phase, wish: Desired) -> String {
    let is_suspended = phase == Phase::Suspended;
    let is_possible = match wish {
        Desired::Suspend => !is_suspended,
        Desired::Resume => is_suspended,
        Desired::Same | Desired::Rescale | Desired::Change | Desired::Redeploy => true,
    };
    if !is_possible {
        return "–".to_owned();
    }
    let scene = with(scene(phase), wish);
    assert_eq!(Phase::of::<FlinkDeployment>(&scene.status), phase);
    let plan = scene.plan();
    let ends = [". ", "; ", " ("].map(|end| plan.because.find(end).unwrap_or(plan.because.len()));
    let because = &plan.because[..ends.into_iter().min().unwrap_or_default()];
    let through = phases_of(&scene.status, &plan).into_iter().map(|next| format!(" → {next:?}"));
    format!("{because}{}", through.collect::<String>())
}

/// Nothing is read upfront in vain: the decision would request it.
#[test]
fn what_is_read_at_once_is_checked() {
    for phase in Phase::ALL.iter().copied() {
        let scene = scene(phase);
        let mut world = scene.world(Facts::default());
        let mut read = Vec::new();
        while let Some(question) = reads::next(phase, &world) {
            let all = scene.answers();
            match question {
                Question::JobManager => world.facts.job_manager = all.job_manager,
                Question::Jobs => world.facts.jobs = all.jobs,
                Question::Stop => world.facts.stop = all.stop,
                Question::Snapshots => world.facts.snapshots = all.snapshots,
                other => panic!("{other:?}"),
            }
            read.push(question);
        }
        for question in read {
            let mut world = scene.world(scene.answers());
            match question {
                Question::JobManager => world.facts.job_manager = Fact::NotAsked,
                Question::Jobs => world.facts.jobs = Fact::NotAsked,
                Question::Stop => world.facts.stop = Fact::NotAsked,
                _ => world.facts.snapshots = Fact::NotAsked,
            }
            assert_eq!(decide(&world), Err(question), "{phase:?}");
        }
    }
}

#[test]
fn the_page_of_the_lifecycle_is_up_to_date() {
    let phases = Phase::ALL
        .iter()
        .map(|phase| format!("| {phase:?} | {} | {} |\n", phase.text(), phase.record()));
    let arrows = Phase::ALL.iter().flat_map(|phase| {
        phase.next().iter().map(move |next| format!("    {phase:?} --> {next:?}\n"))
    });
    let rules = Phase::ALL.iter().filter(|phase| !phase.rules().is_empty()).map(|phase| {
        let rules = phase.rules().iter().enumerate().map(|(number, rule)| {
            let wishes: Vec<&str> = Desired::ALL
                .into_iter()
                .filter(|wish| rule.is_for(*wish))
                .map(Desired::text)
                .collect();
            let only = if wishes.len() == Desired::ALL.len() {
                String::new()
            } else {
                format!("{}: ", wishes.join(", "))
            };
            format!("{}. {only}{}\n", number + 1, rule.text())
        });
        format!("\n**{phase:?}**\n\n{}", rules.collect::<String>())
    });
    let reads = Phase::ALL.iter().filter(|phase| !phase.reads().is_empty()).map(|phase| {
        let texts: Vec<&str> = phase.reads().iter().map(|read| read.text()).collect();
        format!("| {phase:?} | {} |\n", texts.join("; "))
    });
    let waits = Awaited::ALL.iter().map(|on| {
        let limit = match on.limit() {
            Limit::After(limit) => format!("{} s", limit.as_secs()),
            Limit::Of(option) => format!("`{}`", option.key()),
            Limit::AtOnce(place) => format!("told from the beginning: {place}"),
        };
        format!("| {} | {limit} | {} |\n", on.text(), on.remedy())
    });
    let head = Desired::ALL.map(Desired::text).join(" | ");
    let line = "---|".repeat(Desired::ALL.len() + 1);
    let rows = Phase::ALL.iter().map(|phase| {
        let cells = Desired::ALL.map(|wish| cell(*phase, wish)).join(" | ");
        format!("| {phase:?} | {cells} |\n")
    });
    let page = format!(
        "\
# The phases of a job

<!-- Made by a test from crates/lifecycle/src/phase.rs, rules.rs, reads.rs and wait.rs:
     UPDATE_EXPECT=1 cargo test -p kubectl-flink-lifecycle --test it page_of_the_lifecycle -->

The phase of an application, a session cluster or a session job follows from its status alone, whoever stored it. A pass observes the cluster, and then
tries the rules of the phase in order until one of them has a plan. It leaves the resource in the same phase, or in one that an arrow leads to.

| phase | meaning | recognized by |
|---|---|---|
{}
```mermaid
stateDiagram-v2
    [*] --> New
{}```

## The rules of each phase

The first rule that has a plan decides. A deletion takes precedence over all of them, and so does a `lastReconciledSpec` that cannot be read. The *desired*
spec is that of the resource, and the *recorded* one is `lastReconciledSpec`.
{}
## What is read

A pass always needs these facts, and reads them first. For a session job the JobManager is its cluster's; a session cluster has no jobs of its own to
list. Everything else is read when a rule asks for it, once per pass.

| phase | facts |
|---|---|
{}
## What a plan may wait for

A plan that only waits says for what. After the limit, `status.error` and an event say so, with what a person can do; both end with the wait. A limit only
tells: nothing is ended and nothing is started because it has passed. Where no earlier time is on record, a wait begins with the first pass of the
operator's process that waits for the same thing.

| until | normal for | then |
|---|---|---|
{}
## The effect of a change

This is for an application that is upgraded with savepoints, with its cluster in a normal state. The arrows show the phases that follow.

| phase | {head} |
|{line}
{}",
        phases.collect::<String>(),
        arrows.collect::<String>(),
        rules.collect::<String>(),
        reads.collect::<String>(),
        waits.collect::<String>(),
        rows.collect::<String>(),
    );
    expect_file!["../../../../../docs/lifecycle.md"].assert_eq(&page);
}

/// Whatever the user requests, a phase has a rule that always yields a plan.
#[test]
fn each_phase_decides_whatever_is_wanted() {
    for phase in Phase::ALL.iter().copied().filter(|phase| !phase.rules().is_empty()) {
        for wish in Desired::ALL {
            let last = phase.rules().iter().rfind(|rule| rule.is_for(wish)).unwrap();
            let decides = [
                Rule::Deploy,
                Rule::ContinueStop,
                Rule::ContinueCancel,
                Rule::Start,
                Rule::ContinueRollback,
                Rule::Stop,
                Rule::StoreEdit,
            ];
            assert!(decides.contains(last), "{phase:?}: {last:?}");
        }
    }
}
