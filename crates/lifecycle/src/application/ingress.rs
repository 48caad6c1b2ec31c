//! A change that affects only the Ingress.
//!
//! An Ingress leads to the web UI and does not affect running pods. It is therefore applied immediately while the job
//! keeps running, and is also added to the recorded running and stable specs: neither a recovery nor a rollback
//! restores the previous one.

use crate::diff::SpecDiff;
use crate::event::{Component, Event};
use crate::pass::DeploymentPass;
use crate::plan::{ClusterStep, Step};
use crate::problem::Halt;
use api::deployment::IngressSpec;
use api::reconciled::ReconciledSpec;
use config::options;

impl DeploymentPass<'_> {
    /// Warns if the spec is new to this operator and requests an Ingress that the configuration forbids, or would forbid
    /// if it were new.
    pub(crate) fn warn_of_unmanaged_ingress(&mut self) {
        let is_seen = self.status.observed_generation == Some(self.generation);
        if is_seen || self.spec.ingress.is_none() {
            return;
        }
        let Ok(config) = self.deploy_config(&self.spec, self.generation) else { return };
        let option = &options::INGRESS_MANAGE;
        if config.get(option).unwrap_or(true) {
            let id = (self.world.name(), self.world.namespace());
            let last = self.last.as_ref().and_then(|last| last.spec.ingress.as_ref());
            let (ingress, operator) = (self.spec.ingress.as_ref(), &self.world.operator.base);
            let kept = validation::ingress::stored(id, ingress, last, operator);
            if !kept.is_empty() {
                let kept: Vec<_> = kept.iter().map(ToString::to_string).collect();
                let message = format!(
                    "the Ingress stays as it was, but a new one would be refused: {}",
                    kept.join("; ")
                );
                self.warn_of_ingress(message);
            }
            return;
        }
        let message = format!(
            "no Ingress is created for `spec.ingress`, because `{}` is false in the operator's \
             configuration or in `spec.flinkConfiguration`: set it to true there, or remove \
             `spec.ingress`",
            option.key()
        );
        self.warn_of_ingress(message);
    }

    fn warn_of_ingress(&mut self, message: String) {
        let mut event = Event::warning("IngressManagement", Component::Operator, message.clone());
        event.key = Some(format!("{}: {message}", self.generation));
        self.emit(event);
    }

    /// Applies a changed Ingress, and records it.
    pub(crate) fn move_ingress(
        &mut self,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> Result<(), Halt> {
        if !diff.changes.iter().any(|change| change.field == "ingress") {
            return Ok(());
        }
        let mut deployed = self.deployed_spec(last);
        let config = self.deploy_config(&self.spec, self.generation)?;
        let deployed_config = self.deploy_config(&deployed, self.generation)?;
        // A changed gateway applies from the next start, and delays a changed Ingress until then: the recorded running
        // spec would create the other kind.
        let gateway = &options::INGRESS_GATEWAY;
        if deployed_config.text_of(gateway) != config.text_of(gateway) {
            return Ok(());
        }
        let wanted = &self.spec.ingress;
        deployed.ingress.clone_from(wanted);
        let mut moved = last.clone();
        moved.spec.ingress.clone_from(wanted);
        let mut stable = self.stable_spec();
        if let Some(stable) = &mut stable {
            stable.spec.ingress.clone_from(wanted);
        }
        // The deployed spec may not forgo it yet.
        let is_managed = config.get(&options::INGRESS_MANAGE)?;
        let ingress = self.render_deployed(&deployed)?.ingress.filter(|_| is_managed).map(Box::new);
        self.steps.push(Step::Own(ClusterStep::ApplyIngress(ingress)));
        self.store_last(moved);
        if let Some(stable) = stable {
            self.status.reconciliation_status.last_stable_spec = Some(stable.to_text());
        }
        Ok(())
    }

    /// Changes a running job in place with the existing Ingress, which stays on record until the next pass replaces it.
    pub(crate) fn moving_ingress<T>(
        &mut self,
        there: Option<&IngressSpec>,
        change: impl FnOnce(&mut Self) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let wanted = std::mem::replace(&mut self.spec.to_mut().ingress, there.cloned());
        let done = change(self);
        self.spec.to_mut().ingress = wanted;
        done
    }
}
