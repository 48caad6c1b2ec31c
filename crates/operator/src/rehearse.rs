//! Finds out what the operator would do about a change that nobody has made yet, pass after pass.
//!
//! The facts are read as a pass reads them; what follows is [`lifecycle::rehearsal`]'s. Nothing is
//! written.

use std::borrow::Cow;

use jiff::Timestamp;

use super::autoscaler;
use super::context::Context;
use super::objects;
use super::observe::{self, Subject};
use super::pass::Error;
use super::session_job;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use lifecycle::rehearsal::{Outcome, PASSES_MAX, Rehearsal, SessionJobRehearsal};
use lifecycle::world::{Fact, Question};

/// A rehearsal makes so many passes and answers so many questions, at most.
const ROUNDS_MAX: usize = PASSES_MAX + 25;

/// The resource as a pass would see it: with what the autoscaler has in force of its job.
pub async fn scaled_deployment(
    wanted: &FlinkDeployment,
    context: &Context,
) -> Result<FlinkDeployment, Error> {
    let (status, operator) = (wanted.status.clone().unwrap_or_default(), context.operator());
    let scaled = autoscaler::wanted(wanted, &status, None, &operator, context);
    scaled.await.map(Cow::into_owned).map_err(Error::Observe)
}

/// Like [`scaled_deployment`], for a session job in the cluster that it names.
pub async fn scaled_session_job(
    wanted: &FlinkSessionJob,
    context: &Context,
) -> Result<FlinkSessionJob, Error> {
    let cluster = session_job::session_cluster(wanted, context).await?;
    let status = wanted.status.clone().unwrap_or_default();
    let operator = context.operator();
    let scaled = autoscaler::wanted(wanted, &status, cluster.as_deref(), &operator, context);
    scaled.await.map(Cow::into_owned).map_err(Error::Observe)
}

/// Finds out what would be done about `wanted`, which has the status that is stored.
pub async fn of_deployment(wanted: FlinkDeployment, context: &Context) -> Result<Outcome, Error> {
    let operator = context.operator();
    let resource = wanted.clone();
    let status = wanted.status.clone().unwrap_or_default();
    let mut rehearsal = Rehearsal::new(wanted, Timestamp::now());
    for _ in 0..ROUNDS_MAX {
        match rehearsal.go_on(&operator) {
            Ok(true) => {}
            Ok(false) => return Ok(rehearsal.outcome()),
            Err(Question::Refusal(objects)) => {
                let refusal = objects::refusal(&objects, &context.client).await;
                // The rights of whoever asks say nothing about those of the operator.
                let refusal = refusal.map_err(Error::Observe)?.filter(|it| !it.is_of_rights());
                rehearsal.facts.refusal = Fact::Known(refusal.map(|it| it.to_string()));
            }
            Err(question) => {
                let subject = Subject {
                    resource: &resource,
                    status: &status,
                    namespace: resource.metadata.namespace.as_deref().unwrap_or("default"),
                    name: resource.metadata.name.as_deref().unwrap_or_default(),
                    operator: &operator,
                    memo: None,
                };
                observe::answer(question, &subject, context, &mut rehearsal.facts)
                    .await
                    .map_err(Error::Observe)?;
            }
        }
    }
    Err(Error::Undecided)
}

/// Like [`of_deployment`], for a session job in the cluster that it names.
pub async fn of_session_job(wanted: FlinkSessionJob, context: &Context) -> Result<Outcome, Error> {
    let operator = context.operator();
    let cluster = session_job::session_cluster(&wanted, context).await?;
    let cluster = cluster.map(|cluster| FlinkDeployment::clone(&cluster));
    let mut rehearsal = SessionJobRehearsal::new(wanted.clone(), cluster.clone(), Timestamp::now());
    for _ in 0..ROUNDS_MAX {
        match rehearsal.go_on(&operator) {
            Ok(true) => {}
            Ok(false) => return Ok(rehearsal.outcome()),
            Err(question) => {
                let job = (&wanted, cluster.as_ref(), &*operator);
                session_job::look_up(question, job, context, &mut rehearsal.facts).await;
            }
        }
    }
    Err(Error::Undecided)
}
