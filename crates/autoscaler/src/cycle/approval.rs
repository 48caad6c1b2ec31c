//! How the installation's executors change what a cycle is about to carry out.
//!
//! They are asked before memory is tuned and before quotas and the free resources of nodes are checked, so that these
//! also apply to the executors' changes.

use std::collections::BTreeMap;

use super::{Cycle, Facts, Outcome};
use crate::evaluate::Evaluation;
use crate::events::Event;
use crate::metric::{Evaluated, Metric};
use crate::plugin::{self, Id, Verdict};
use crate::sample::Unscaled;
use crate::scaling_history::Scaling;
use crate::topology::{Vertex, VertexId};
use crate::vertex_scaler;

impl Cycle {
    /// Returns the changes after all executors.
    pub(super) fn approved(
        &mut self,
        facts: &Facts<'_>,
        unscaled: &BTreeMap<VertexId, Unscaled>,
        evaluation: &mut Evaluation,
        mut scalings: BTreeMap<VertexId, Scaling>,
    ) -> Result<BTreeMap<VertexId, Scaling>, Outcome> {
        let Facts { settings, topology, .. } = *facts;
        let is_free =
            |id: &VertexId| !(settings.excluded_vertices.contains(id) || unscaled.contains_key(id));
        let limits = |(id, vertex): (&VertexId, &Vertex)| {
            let (lower, upper) = vertex_scaler::limits(vertex, settings);
            (id.clone(), (lower, upper.min(vertex.max_parallelism)))
        };
        let free = topology.vertices().iter().filter(|(id, _)| is_free(id));
        let limits: BTreeMap<VertexId, (u32, u32)> = free.map(limits).collect();
        for executor in &settings.plugins.executors {
            let changes = scalings.iter().map(|(id, of)| (id.clone(), (of.current, of.new)));
            let changes = changes.collect();
            let vertices = topology.in_order().filter_map(|(id, vertex)| {
                let figures = evaluation.vertices.get(id)?;
                Some((id.clone(), plugin::described_with_figures(id, vertex, figures)))
            });
            let teller = facts.teller(evaluation.is_backlog);
            let vetoed = match teller.verdict(executor, vertices, &changes, &limits)? {
                Verdict::Approved => continue,
                Verdict::Changed(wanted) => {
                    self.change(&executor.id, &wanted, evaluation, &mut scalings);
                    if !scalings.is_empty() {
                        continue;
                    }
                    None
                }
                Verdict::Vetoed(why) => why,
            };
            self.events.push(Event::vetoed(&executor.id, vetoed.as_deref(), settings));
            return Err(Outcome::Vetoed(executor.id.clone(), vetoed));
        }
        Ok(scalings)
    }

    /// Applies an executor's changes: vertices that it does not name stay as they are.
    fn change(
        &mut self,
        by: &Id,
        wanted: &BTreeMap<VertexId, u32>,
        evaluation: &mut Evaluation,
        scalings: &mut BTreeMap<VertexId, Scaling>,
    ) {
        for (id, decision) in &mut self.decisions {
            let new = wanted.get(id).copied().unwrap_or(decision.current);
            let Some(figures) = evaluation.vertices.get_mut(id).filter(|_| new != decision.new)
            else {
                continue;
            };
            decision.change(&by.name, new);
            if new == decision.current {
                scalings.remove(id);
                continue;
            }
            let rate = figures.average(Metric::TrueProcessingRate);
            let expected = rate / f64::from(decision.current) * f64::from(new);
            figures.set(Metric::ExpectedProcessingRate, Evaluated::of(expected));
            let (current, figures) = (decision.current, figures.clone());
            scalings.insert(id.clone(), Scaling { current, new, figures });
        }
    }
}
