//! A change of the Ingress alone.
//!
//! An Ingress leads to the web UI, and nothing that runs has a part in it. So it is put in place as
//! it is wanted, the job goes on, and what is on record as running and as stable has it too: neither
//! a recovery nor a rollback brings the former one back.

use crate::diff::SpecDiff;
use crate::event::{Component, Event};
use crate::pass::DeploymentPass;
use crate::plan::{ClusterStep, Step};
use crate::problem::Halt;
use api::deployment::{FlinkDeploymentSpec, IngressSpec};
use api::reconciled::ReconciledSpec;
use config::options;

impl DeploymentPass<'_> {
    /// Warns when the spec is new to this operator and asks for an Ingress that the configuration forbids.
    pub(crate) fn warn_of_unmanaged_ingress(&mut self) {
        let is_seen = self.status.observed_generation == Some(self.generation);
        if is_seen || self.spec.ingress.is_none() {
            return;
        }
        let Ok(config) = self.deploy_config(&self.spec, self.generation) else { return };
        let option = &options::INGRESS_MANAGE;
        if config.get(option).unwrap_or(true) {
            return;
        }
        let message = format!(
            "no Ingress is created for `spec.ingress`, because `{}` is false: set it to true, or \
             remove `spec.ingress`",
            option.key()
        );
        let mut event = Event::warning("IngressManagement", Component::Operator, message.clone());
        event.key = Some(format!("{}: {message}", self.generation));
        self.tell(event);
    }

    /// Puts a changed Ingress in place, and on record.
    pub(crate) fn move_ingress(
        &mut self,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> Result<(), Halt> {
        if !diff.changes.iter().any(|change| change.field == "ingress") {
            return Ok(());
        }
        let mut deployed = self.deployed_spec(last);
        if self.gateway(&deployed)? != self.gateway(&self.spec)? {
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
        let ingress = self.render_deployed(&deployed)?.ingress.map(Box::new);
        self.steps.push(Step::Own(ClusterStep::ApplyIngress(ingress)));
        self.store_last(moved);
        if let Some(stable) = stable {
            self.status.reconciliation_status.last_stable_spec = Some(stable.to_text());
        }
        Ok(())
    }

    /// Returns the gateway that leads to the web UI instead of an Ingress. Another one counts with the next
    /// start, and holds a changed Ingress up until then: what is on record as running would make the other kind.
    fn gateway(&self, spec: &FlinkDeploymentSpec) -> Result<Option<String>, Halt> {
        let config = self.deploy_config(spec, self.generation)?;
        Ok(config.text_of(&options::INGRESS_GATEWAY).map(str::to_owned))
    }

    /// Does what is done to a running job in place with the Ingress that is there, which so stays on
    /// record until the next pass moves it.
    pub(crate) fn beside_ingress<T>(
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
