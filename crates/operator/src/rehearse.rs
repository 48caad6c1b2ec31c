//! Finds out what the operator would do about a change that has not been made yet, pass after pass.
//!
//! The facts are read as in a pass; [`lifecycle::rehearsal`] does the rest. Nothing is written.

use std::borrow::Cow;

use jiff::Timestamp;

use super::autoscaler::{self, Scaled};
use super::blue_green;
use super::context::Context;
use super::objects;
use super::observe::{self, Subject};
use super::pass::Error;
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster;
use lifecycle::rehearsal::{Outcome, PASSES_MAX, Rehearsal, Rehearsed};
use lifecycle::world::{Fact, PreflightPods, Question, UNTRIABLE};

/// Maximum number of passes and answers of a rehearsal.
const ROUNDS_MAX: usize = PASSES_MAX + 27;

/// Returns the resource as a pass would see it: with the autoscaler's decision in force for its job.
pub async fn scaled_deployment(
    wanted: &FlinkDeployment,
    context: &Context,
) -> Result<FlinkDeployment, Error> {
    scaled(wanted, context).await
}

/// Like [`scaled_deployment`], for a session job in the cluster that it names.
pub async fn scaled_session_job(
    wanted: &FlinkSessionJob,
    context: &Context,
) -> Result<FlinkSessionJob, Error> {
    scaled(wanted, context).await
}

async fn scaled<K: Scaled>(wanted: &K, context: &Context) -> Result<K, Error> {
    let cluster = wanted.session_cluster(context).await.map_err(Error::Observe)?;
    let (status, operator) = (wanted.status().cloned().unwrap_or_default(), context.operator());
    let scaled = autoscaler::wanted(wanted, &status, cluster.as_deref(), &operator, context);
    scaled.await.map(Cow::into_owned).map_err(Error::Observe)
}

/// Finds out what would be done about `wanted`, which has the stored status.
pub async fn of_deployment(wanted: FlinkDeployment, context: &Context) -> Result<Outcome, Error> {
    of(wanted, context).await
}

/// Like [`of_deployment`], for a session job in the cluster that it names.
pub async fn of_session_job(wanted: FlinkSessionJob, context: &Context) -> Result<Outcome, Error> {
    of(wanted, context).await
}

/// Like [`of_deployment`], for a blue/green deployment. A change in place is a change of that child.
pub async fn of_blue_green(
    wanted: FlinkBlueGreenDeployment,
    context: &Context,
) -> Result<Outcome, Error> {
    let mut rehearsal = blue_green::rehearsal(wanted, context).await?;
    for _ in 0..ROUNDS_MAX {
        match rehearsal.go_on() {
            Ok(true) => {}
            Ok(false) => {
                let Some(mut child) = rehearsal.changed.take() else {
                    return Ok(rehearsal.outcome);
                };
                child.metadata.generation = child.metadata.generation.map(|it| it + 1);
                let of_child = Box::pin(of(*child, context)).await?;
                let mut scenes = rehearsal.outcome.scenes;
                scenes.extend(of_child.scenes);
                return Ok(Outcome { scenes, ..of_child });
            }
            Err(question) => blue_green::answer(&mut rehearsal, question, context).await?,
        }
    }
    Err(Error::Undecided)
}

async fn of<K: Scaled + Rehearsed>(wanted: K, context: &Context) -> Result<Outcome, Error> {
    let operator = context.operator();
    let cluster = wanted.session_cluster(context).await.map_err(Error::Observe)?;
    let status = wanted.status().cloned().unwrap_or_default();
    let subject = Subject::new((&wanted, &status), cluster.as_deref(), &operator);
    let cluster = cluster.as_deref().cloned();
    let mut rehearsal = Rehearsal::new(wanted.clone(), cluster, Timestamp::now());
    for _ in 0..ROUNDS_MAX {
        match rehearsal.go_on(&operator) {
            Ok(true) => {}
            Ok(false) => return Ok(rehearsal.outcome()),
            Err(Question::Refusal(objects)) => {
                let refusal = objects::refusal(&objects, context).await;
                // The caller's rights say nothing about those of the operator.
                let refusal = refusal.map(|found| found.filter(|it| !it.is_of_rights()));
                let refusal = refusal.map(|found| found.map(|it| it.to_string()));
                rehearsal.facts.refusal = observe::fact(refusal);
            }
            Err(question) => {
                let is_about_pods = matches!(question, Question::Preflight(_));
                let answered = observe::answer(question, &subject, context, &mut rehearsal.facts);
                match answered.await {
                    // Nor do they say anything about the pods of the new spec.
                    Err(cluster::Error::Forbidden { .. }) if is_about_pods => {
                        rehearsal.facts.preflight = Fact::Known(PreflightPods::default());
                    }
                    other => other.map_err(Error::Observe)?,
                }
                if let Fact::Known(PreflightPods { refusal, .. }) = &mut rehearsal.facts.preflight
                    && refusal.as_ref().is_some_and(|it| it.reason == UNTRIABLE)
                {
                    *refusal = None;
                }
            }
        }
    }
    Err(Error::Undecided)
}
