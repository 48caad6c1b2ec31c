//! The budget of the upgrades that this process carries out.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt;

use super::context::{Context, lock};
use super::kind::{Cache, Guarded, Operated, Sight};
use api::CONTINUE_UPGRADES_ANNOTATION;
use api::blue_green::{BlueGreenStatus, FlinkBlueGreenDeployment};
use api::deployment::FlinkDeployment;
use api::session_job::{FlinkSessionJob, SessionJobStatus};
use api::status::DeploymentStatus;
use config::OperatorConfig;
use lifecycle::upgrade_budget::{Limits, Of, Record, ResourceKind, UpgradeBudget};
use lifecycle::wait::Waiting;
use lifecycle::world::{Fact, Turn};

/// Maximum time to wait for the first lists. A namespace that cannot be read must not hold up the others.
const LIST_MAX: Duration = Duration::from_secs(30);

/// A kind of resource whose upgrades take turns.
pub(super) trait Upgraded: Operated {
    const OF: ResourceKind;

    /// Returns what a status says about the upgrade.
    fn record(&self, status: &Self::Status) -> Record;

    fn of(&self, _context: &Context) -> Of {
        Of::new(Self::OF, self.meta())
    }
}

impl Upgraded for FlinkDeployment {
    const OF: ResourceKind = ResourceKind::FlinkDeployment;

    fn record(&self, status: &DeploymentStatus) -> Record {
        Record::of(status)
    }
}

impl Upgraded for FlinkSessionJob {
    const OF: ResourceKind = ResourceKind::FlinkSessionJob;

    fn record(&self, status: &SessionJobStatus) -> Record {
        Record::of_session_job(generation(self), status)
    }

    fn of(&self, context: &Context) -> Of {
        let of = Of::new(Self::OF, &self.metadata);
        let cluster = self.spec.deployment_name.as_deref().unwrap_or_default();
        let cluster = context.deployments.cached(&of.namespace, cluster);
        Of { parent: cluster.and_then(|cluster| cluster.uid()), ..of }
    }
}

impl Upgraded for FlinkBlueGreenDeployment {
    const OF: ResourceKind = ResourceKind::FlinkBlueGreenDeployment;

    fn record(&self, status: &BlueGreenStatus) -> Record {
        Record::of_blue_green(&self.metadata, status)
    }
}

/// The upgrades that run and those that wait, in all namespaces of this process.
pub(super) struct Upgrades {
    budget: Mutex<UpgradeBudget>,
    /// Last value of the annotation that lets the upgrades continue, by uid.
    continued: Mutex<HashMap<String, String>>,
    since: Instant,
}

impl Default for Upgrades {
    fn default() -> Self {
        Self { budget: Mutex::default(), continued: Mutex::default(), since: Instant::now() }
    }
}

impl Upgrades {
    /// Returns whether the upgrade that a pass is about may begin.
    pub(super) fn turn<K: Upgraded>(
        &self,
        resource: &K,
        operator: &OperatorConfig,
        context: &Context,
    ) -> Fact<Turn> {
        let limits = match Limits::of(operator) {
            Ok(limits) => limits,
            Err(error) => return Fact::Unknown(error.to_string()),
        };
        let is_listed = is_known(&context.deployments)
            && is_known(&context.session_jobs)
            && is_known(&context.blue_greens);
        if !is_listed && self.since.elapsed() < LIST_MAX {
            let reason = "the upgrades under way are not known yet: the first list is not complete";
            return Fact::Unknown(reason.to_owned());
        }
        let (of, generation) = (resource.of(context), generation(resource));
        Fact::Known(lock(&self.budget).ask(&of, generation, &limits, Timestamp::now()))
    }

    /// Notes that a pass will end with this status and this wait.
    pub(super) fn decided<K: Upgraded>(
        &self,
        resource: &K,
        (status, waits): (&K::Status, Option<Waiting>),
        context: &Context,
    ) {
        let (of, record) = (resource.of(context), resource.record(status));
        let waits = waits.map(|waits| waits.on);
        self.change(context, |budget, limits, now| budget.decided(&of, record, waits, limits, now));
    }

    /// Notes that the watch shows a resource, or its end.
    pub(super) fn seen<K: Upgraded>(&self, seen: &Guarded<K>, sight: Sight, context: &Context) {
        let uid = seen.uid().unwrap_or_default();
        if sight == Sight::Gone {
            return self.forget(&uid, context);
        }
        let Ok(resource) = &seen.0 else { return };
        let (of, none) = (resource.of(context), K::Status::default());
        let record = resource.record(resource.status().unwrap_or(&none));
        let is_first = !K::cache(context).is_listed_in(&of.namespace);
        let generation = generation(resource);
        if is_first {
            lock(&self.budget).restore(&of, generation, record, Timestamp::now());
        }
        self.change(context, |budget, limits, now| {
            budget.seen(&of, generation, record.standing, limits, now)
        });
        if let Some(by) = resource.annotations().get(CONTINUE_UPGRADES_ANNOTATION) {
            let before = lock(&self.continued).insert(uid, by.clone());
            if !is_first && before.as_ref() != Some(by) {
                tracing::info!(namespace = of.namespace, name = of.name, "upgrades continue");
                self.change(context, |budget, limits, now| {
                    let mut next = budget.resume(limits, now);
                    // The resource with the annotation is woken as well, to see whether it took effect.
                    next.push(of);
                    next
                });
            }
        }
    }

    /// Forgets a resource that is gone, or that someone else operates.
    pub(super) fn forget(&self, uid: &str, context: &Context) {
        lock(&self.continued).remove(uid);
        self.change(context, |budget, limits, now| budget.gone(uid, limits, now));
    }

    /// Changes the budget, and wakes the resources whose turn it is then.
    fn change(
        &self,
        context: &Context,
        change: impl FnOnce(&mut UpgradeBudget, &Limits, Timestamp) -> Vec<Of>,
    ) {
        // A value that cannot be read stops the upgrades, which report it.
        let limits = Limits::of(&context.operator()).unwrap_or_default();
        let next = change(&mut lock(&self.budget), &limits, Timestamp::now());
        for Of { kind, namespace, name, uid: _, parent: _ } in next {
            match kind {
                ResourceKind::FlinkDeployment => context.deployments.wake(&namespace, &name),
                ResourceKind::FlinkSessionJob => context.session_jobs.wake(&namespace, &name),
                ResourceKind::FlinkBlueGreenDeployment => {
                    context.blue_greens.wake(&namespace, &name);
                }
            }
        }
    }
}

/// Returns `true` if all resources of a kind are known, or it is not installed.
fn is_known<K: Operated>(kept: &Cache<K>) -> bool {
    !kept.is_served() || kept.is_listed()
}

fn generation<K: Operated>(resource: &K) -> i64 {
    resource.meta().generation.unwrap_or_default()
}
