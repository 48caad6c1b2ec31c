//! The controller of `FlinkDeployment`: the parts of a pass that are specific to it.

use super::act::{Stopped, Taken};
use super::blue_green;
use super::context::Context;
use super::kind::{Cache, Guarded, Operated, Sight};
use super::observe::{self, Subject};
use super::pass::{self, Again};
use super::reconcile::{self, OperatedJob, deadlines};
use super::resource::Act;
use super::session_job;
use super::validator::{self, Kind};
use api::DEPLOYMENT_FINALIZER;
use api::deployment::FlinkDeployment;
use api::status::DeploymentStatus;
use clients::cluster;
use clients::flink::Client;
use clients::flink::access::Target;
use config::options;
use lifecycle::audit;
use lifecycle::error_document::WentBack;
use lifecycle::event::Component;
use lifecycle::notes::UNFINISHED_DEPLOYMENT;
use lifecycle::plan::ClusterStep;
use lifecycle::world::{Facts, Question};

impl Operated for FlinkDeployment {
    const FINALIZER: Option<&'static str> = Some(DEPLOYMENT_FINALIZER);
    const FAILURE: (&'static str, Component) =
        ("ClusterDeploymentException", Component::JobManagerDeployment);
    const KIND: metrics::Kind = metrics::Kind::FlinkDeployment;

    fn facts(&self, status: &DeploymentStatus) -> metrics::Facts {
        metrics::Facts::of_deployment(status)
    }

    fn audit(previous: &DeploymentStatus, current: &DeploymentStatus) -> Option<String> {
        audit::of_job(previous, current)
    }

    fn cache(context: &Context) -> &Cache<Self> {
        &context.deployments
    }

    fn went_back(known: &Self, listed: &Self) -> Option<WentBack> {
        reconcile::went_back(known, listed)
    }

    fn seen(resource: &Guarded<Self>, sight: Sight, context: &Context) {
        reconcile::seen(resource, sight, context);
        session_job::wake_jobs_of(resource, context);
        blue_green::wake_owner_of(resource, context);
    }

    async fn pass(resource: Self, context: &Context) -> Result<Again, pass::Error> {
        Box::pin(reconcile::pass(resource, context)).await
    }
}

impl OperatedJob for FlinkDeployment {
    const SUBJECT: Kind = Kind::FlinkDeployment;

    fn flink(subject: &Subject<'_>, context: &Context) -> Result<Client, String> {
        let config = subject.config()?;
        let target = Target {
            namespace: subject.namespace().to_owned(),
            cluster_id: subject.name().to_owned(),
            port: config.get(&options::REST_PORT).map_err(|error| error.to_string())?,
            is_tls: config.get(&options::SSL_REST_ENABLED).map_err(|error| error.to_string())?,
        };
        Ok(context.connector.client(&target, deadlines(&config)?))
    }

    fn judged(subject: &Subject<'_>) -> validator::Subject {
        validator::Subject::of_deployment(subject.resource, subject.status)
    }

    fn note_unfinished(status: &mut DeploymentStatus, uid: &String) {
        UNFINISHED_DEPLOYMENT.set(&mut status.cluster_info, uid);
    }

    fn is_start(step: &ClusterStep) -> bool {
        matches!(step, ClusterStep::CreateCluster(_))
    }

    async fn answer(
        question: Question,
        subject: &Subject<'_>,
        context: &Context,
        facts: &mut Facts,
    ) -> cluster::Result<()> {
        observe::of_cluster(question, subject, context, facts).await
    }

    async fn take(
        act: &mut Act<'_, Self>,
        step: ClusterStep,
        _cluster: Option<&Self>,
        taken: &mut Taken,
    ) -> Result<(), Stopped> {
        Ok(act.take_own(step, taken).await?)
    }
}
