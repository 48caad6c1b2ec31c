//! The metrics of the autoscaler by job: how its cycles ended, and the figures of the last one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::family::{Family, Id, Of, Point, Scope, Value};
use super::number;

/// Maximum number of vertices of a job whose figures are published.
const VERTICES_MAX: usize = 200;

/// How a cycle ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    Scaled,
    /// A decision was due, and resulted in no change.
    Balanced,
    /// No decision was due.
    Undecided,
    Failed,
}

/// One figure of a vertex; `NaN` if it is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its id, hexadecimal.
    pub vertex: Arc<str>,
    /// Such as `TARGET_DATA_RATE`.
    pub metric: &'static str,
    pub current: f64,
    /// `None` for a metric that has none.
    pub average: Option<f64>,
}

/// The counts of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Scaling {
    scalings: u64,
    balanced: u64,
    errors: u64,
    figures: Vec<Figure>,
}

impl Scaling {
    pub(super) fn note(&mut self, ended: Ended, figures: Option<Vec<Figure>>) {
        match ended {
            Ended::Scaled => self.scalings += 1,
            Ended::Balanced => self.balanced += 1,
            Ended::Failed => self.errors += 1,
            Ended::Undecided => {}
        }
        if let Some(figures) = figures {
            self.figures = figures;
            let mut vertices: Vec<&Arc<str>> = self.figures.iter().map(|of| &of.vertex).collect();
            vertices.sort_unstable();
            vertices.dedup();
            if let Some(first) = vertices.get(VERTICES_MAX).copied().cloned() {
                self.figures.retain(|figure| figure.vertex < first);
            }
        }
    }

    /// Clears the figures, because the last measurement is no longer true.
    pub(super) fn forget_figures(&mut self) {
        for figure in &mut self.figures {
            figure.current = f64::NAN;
            figure.average = figure.average.map(|_| f64::NAN);
        }
    }
}

/// Reads one of the counts.
type Count = fn(&Scaling) -> u64;

/// Returns the families of all jobs that have an autoscaler.
pub(super) fn families<'a>(
    jobs: impl Iterator<Item = (&'a Arc<Id>, &'a Scaling)> + Clone,
) -> Vec<Family> {
    let mut families = Vec::new();
    let counts: [(&str, Count); 3] = [
        ("AutoScaler.scalings", |of| of.scalings),
        ("AutoScaler.balanced", |of| of.balanced),
        ("AutoScaler.errors", |of| of.errors),
    ];
    for (name, count) in counts {
        let points: Vec<Point> = jobs
            .clone()
            .map(|(id, scaling)| Point {
                of: Of::Resource(Arc::clone(id)),
                label: None,
                value: Value::Count(number(count(scaling))),
            })
            .collect();
        if !points.is_empty() {
            families.push(Family::new(Scope::Resource, name, points));
        }
    }
    let mut gauges: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for (id, scaling) in jobs {
        for Figure { vertex, metric, current, average } in &scaling.figures {
            let point = |value: f64| Point {
                of: Of::Resource(Arc::clone(id)),
                label: Some(("jobVertexID", Arc::clone(vertex))),
                value: Value::Gauge(value),
            };
            let mut emit = |what: &str, value: f64| {
                gauges
                    .entry(format!("AutoScaler.jobVertexID.{metric}.{what}"))
                    .or_default()
                    .push(point(value));
            };
            emit("Current", *current);
            if let Some(average) = average {
                emit("Average", *average);
            }
        }
    }
    let described = |(name, points)| Family::new(Scope::Resource, name, points);
    families.extend(gauges.into_iter().map(described));
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn figure(vertex: &str, average: Option<f64>) -> Figure {
        Figure { vertex: vertex.into(), metric: "LOAD", current: 1.0, average }
    }

    #[test]
    fn a_job_shows_its_counts_and_the_figures_of_its_vertices() {
        let id =
            Arc::new(Id { kind: Kind::FlinkDeployment, namespace: "n".into(), name: "j".into() });
        let mut scaling = Scaling::default();
        scaling.note(Ended::Undecided, Some(vec![figure("a", Some(0.5)), figure("b", None)]));
        scaling.note(Ended::Scaled, None);
        scaling.note(Ended::Failed, None);
        let described = families([(&id, &scaling)].into_iter());
        let described: Vec<(&str, usize)> =
            described.iter().map(|family| (family.name.as_str(), family.points.len())).collect();
        let expected = [
            ("AutoScaler.scalings", 1),
            ("AutoScaler.balanced", 1),
            ("AutoScaler.errors", 1),
            ("AutoScaler.jobVertexID.LOAD.Average", 1),
            ("AutoScaler.jobVertexID.LOAD.Current", 2),
        ];
        assert_eq!(described, expected);
        scaling.forget_figures();
        assert!(scaling.figures.iter().all(|figure| figure.current.is_nan()));
        assert_eq!(families(std::iter::empty::<(&Arc<Id>, &Scaling)>()), []);
    }

    #[test]
    fn figures_are_bounded() {
        let mut scaling = Scaling::default();
        let all = (0..1000).map(|number| figure(&format!("{number:04}"), None)).collect();
        scaling.note(Ended::Balanced, Some(all));
        assert_eq!(scaling.figures.len(), VERTICES_MAX);
    }
}
