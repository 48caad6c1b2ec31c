//! Laws for a job whose vertices process records in proportion to their subtasks.

use proptest::prelude::*;

use super::*;

/// A job whose vertices are in a row.
#[derive(Clone, Debug)]
struct Model {
    /// In the order of the row: how many records a subtask can process, and how many it sends for each.
    vertices: Vec<(&'static str, f64, f64)>,
    parallelism: Vec<u32>,
    /// Records to process, per second.
    rate: f64,
}

impl Model {
    /// Vertices some seconds after the start.
    #[allow(clippy::cast_precision_loss, reason = "small")]
    fn after(&self, seconds: i64) -> Vec<Now> {
        let time = seconds as f64;
        // As much as the narrowest vertex lets through.
        let (mut ratio, mut read) = (1.0, self.rate);
        for ((_, each, out), parallelism) in self.vertices.iter().zip(&self.parallelism) {
            read = f64::min(read, each * f64::from(*parallelism) / ratio);
            ratio *= out;
        }
        let mut rate = read;
        let mut inputs = vec![];
        let mut all = vec![];
        for ((id, each, out), parallelism) in self.vertices.iter().zip(&self.parallelism) {
            let busy = 1000.0 * rate / (each * f64::from(*parallelism));
            // A vertex that does not read all pending records is held back by itself or by those after it.
            let backpressure = if read < self.rate { 1000.0 - busy } else { 0.0 };
            all.push(Now {
                id,
                inputs,
                parallelism: *parallelism,
                max_parallelism: 720,
                records_in: rate * time,
                records_out: rate * out * time,
                busy,
                backpressure,
                lag: (self.rate - read) * time,
                in_per_second: rate,
            });
            inputs = vec![*id];
            rate *= out;
        }
        all
    }

    /// Returns whether no vertex needs more subtasks than it may have. One that does keeps its backlog, and until a job
    /// has caught up the others keep their surplus.
    fn may_catch_up(&self) -> bool {
        let mut rate = self.rate;
        self.vertices.iter().all(|(_, each, out)| {
            let needs = rate / each;
            rate *= out;
            needs < 100.0
        })
    }

    /// Runs the job for some minutes; returns what it was scaled to, one decision after the other.
    fn decisions(&mut self, minutes: i64, options: &[(&str, &str)]) -> Vec<Vec<u32>> {
        let mut job = Job::new(&[AT_ONCE, options].concat());
        let mut decisions = vec![];
        let mut started = 0;
        for now in (0..minutes).map(|minute| minute * 60) {
            let cycle = job.cycle(at(now), &self.after(now - started));
            if cycle.outcome == Outcome::Scaled {
                let ids = self.vertices.iter().map(|(id, ..)| VertexId::from(*id));
                self.parallelism = ids.map(|id| job.state.overrides[&id]).collect();
                decisions.push(self.parallelism.clone());
                started = now + 1;
                job.running_since = at(started);
            }
        }
        decisions
    }
}

/// Ids whose order differs from that of the row.
const NAMES: [&str; 4] = ["m", "z", "a", "q"];

fn models() -> impl Strategy<Value = Model> {
    let vertex = (1000.0..100_000.0, 0.1..3.0, 1_u32..150);
    let vertices = prop::collection::vec(vertex, 1..=4);
    (vertices, 10_000.0..1_000_000.0).prop_map(|(vertices, rate)| {
        let (vertices, parallelism) = NAMES
            .iter()
            .zip(vertices)
            .map(|(id, (each, out, parallelism))| ((*id, each, out), parallelism))
            .unzip();
        Model { vertices, parallelism, rate }
    })
}

/// Scales down at once, however far.
const FREE: &[(&str, &str)] = &[("scale-down.max-factor", "1")];

proptest! {
    /// A linear job settles after at most three decisions, and under steady load stays there.
    #[test]
    fn a_linear_job_comes_to_rest(mut model in models()) {
        prop_assume!(model.may_catch_up());
        let decisions = model.decisions(25, FREE);
        prop_assert!(decisions.len() <= 3, "{:?} of {:?}", decisions, model);
        prop_assert_eq!(model.decisions(25, FREE), Vec::<Vec<u32>>::new());
        prop_assert!(model.parallelism.iter().all(|parallelism| (1..=200).contains(parallelism)));
    }

    /// Names, and the order that they give vertices, do not matter.
    #[test]
    fn names_do_not_matter(mut model in models()) {
        let mut other = model.clone();
        for ((id, ..), name) in other.vertices.iter_mut().zip(["b", "c", "y", "d"]) {
            *id = name;
        }
        prop_assert_eq!(model.decisions(6, FREE), other.decisions(6, FREE));
    }
}

/// Capacities are whole records per second and rates have three decimals, so results for other units agree only to that
/// precision.
#[test]
fn units_do_not_matter() {
    for (rate, each, out) in
        [(100_000.0, 7_000.0, 1.0), (64_000.0, 900.0, 0.5), (10_000.0, 33_000.0, 3.0)]
    {
        let decisions = |unit: f64| {
            let vertices = vec![("m", each * unit, out), ("a", 2_000.0 * unit, 1.0)];
            let mut model = Model { vertices, parallelism: vec![9, 20], rate: rate * unit };
            model.decisions(6, FREE)
        };
        assert!(!decisions(1.0).is_empty(), "{rate} {each}");
        for unit in [0.25, 8.0, 1000.0] {
            assert_eq!(decisions(unit), decisions(1.0), "{rate} {each} {unit}");
        }
    }
}

#[test]
fn a_job_that_has_enough_is_left_alone() {
    let vertices = vec![("m", 100.0, 1.0), ("z", 200.0, 1.0)];
    let mut model = Model { vertices, parallelism: vec![10, 5], rate: 700.0 };
    assert_eq!(model.decisions(60, &[]), Vec::<Vec<u32>>::new());
}

#[test]
fn a_narrow_vertex_does_not_hide_the_next_one() {
    // Only 100 of 1000 get through the first; the second needs as many again.
    let vertices = vec![("m", 100.0, 1.0), ("z", 100.0, 1.0)];
    let mut model = Model { vertices, parallelism: vec![1, 1], rate: 1000.0 };
    assert_eq!(model.decisions(10, &[]), [[15, 15]]);
}
