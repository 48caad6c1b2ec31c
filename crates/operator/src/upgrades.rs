//! The budget of the upgrades that this process carries out.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::object::HasStatus;

use super::context::{Context, lock};
use super::kind::{Guarded, Sight};
use super::observe::Subject;
use api::CONTINUE_UPGRADES_ANNOTATION;
use api::deployment::FlinkDeployment;
use api::status::DeploymentStatus;
use lifecycle::upgrade_budget::{Limits, Of, Standing, Turn, UpgradeBudget};
use lifecycle::world::Fact;

/// Maximum time to wait for the first lists. A namespace that cannot be read must not hold up the others.
const LIST_MAX: Duration = Duration::from_secs(30);

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
    pub(super) fn turn(&self, subject: &Subject<'_>, context: &Context) -> Fact<Turn> {
        let limits = match Limits::of(subject.operator) {
            Ok(limits) => limits,
            Err(error) => return Fact::Unknown(error.to_string()),
        };
        if !context.deployments.is_listed() && self.since.elapsed() < LIST_MAX {
            let reason = "the upgrades under way are not known yet: the first list is not complete";
            return Fact::Unknown(reason.to_owned());
        }
        let generation = subject.resource.metadata.generation.unwrap_or_default();
        let mut budget = lock(&self.budget);
        Fact::Known(budget.ask(&of(subject.resource), generation, &limits, Timestamp::now()))
    }

    /// Notes that a pass will end with this status.
    pub(super) fn decided(
        &self,
        resource: &FlinkDeployment,
        status: &DeploymentStatus,
        context: &Context,
    ) {
        self.change(context, |budget, limits, now| {
            budget.decided(&of(resource), status, limits, now)
        });
    }

    /// Notes that the watch shows a resource, or its end.
    pub(super) fn seen(&self, seen: &Guarded<FlinkDeployment>, sight: Sight, context: &Context) {
        let uid = seen.uid().unwrap_or_default();
        if sight == Sight::Gone {
            return self.forget(&uid, context);
        }
        let Ok(resource) = &seen.0 else { return };
        let (of, none) = (of(resource), DeploymentStatus::default());
        let status = resource.status().unwrap_or(&none);
        let is_first = !context.deployments.is_listed_in(&of.namespace);
        let generation = resource.metadata.generation.unwrap_or_default();
        if is_first {
            lock(&self.budget).restore(&of, generation, status, Timestamp::now());
        }
        let standing = Standing::of(status);
        self.change(context, |budget, limits, now| {
            budget.seen(&of, generation, standing, limits, now)
        });
        if let Some(by) = resource.annotations().get(CONTINUE_UPGRADES_ANNOTATION) {
            let before = lock(&self.continued).insert(uid, by.clone());
            if !is_first && before.as_ref() != Some(by) {
                tracing::info!(namespace = of.namespace, name = of.name, "upgrades continue");
                self.change(context, |budget, limits, now| {
                    let mut next = budget.go_on(limits, now);
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
        for Of { namespace, name, uid: _ } in next {
            context.deployments.wake(&namespace, &name);
        }
    }
}

fn of(resource: &FlinkDeployment) -> Of {
    Of {
        uid: resource.uid().unwrap_or_default(),
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
    }
}
