//! Contents of the job page: the vertices, how they are connected, and what each is doing.

use crate::row::{Key, Tone};

/// Maximum number of vertices shown, which is how many are measured.
pub const VERTICES_MAX: usize = 60;
/// Share of its time, in percent, from which a vertex does not keep up.
const HIGH: u8 = 90;
/// Share from which a vertex deserves attention.
const RAISED: u8 = 50;

/// What the page shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Shown {
    Job(Box<Job>),
    /// The jobs of a session cluster, which have their own pages.
    Session(Vec<Key>),
}

/// A job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Job {
    pub id: String,
    pub name: String,
    pub state: String,
    /// Start time, in seconds since the epoch.
    pub started_at: Option<i64>,
    /// Sources first, at most [`VERTICES_MAX`].
    pub vertices: Vec<Vertex>,
    /// Total number of vertices.
    pub count: usize,
    /// From a vertex to one that reads from it, as indexes into `vertices`.
    pub edges: Vec<(usize, usize)>,
    /// Why there are no figures.
    pub unmeasured: Option<String>,
}

/// A vertex. What has not been measured is `None`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Vertex {
    pub name: String,
    pub status: String,
    pub parallelism: u32,
    /// Number of running subtasks.
    pub running: u32,
    /// Share of its time that the busiest subtask works, in percent.
    pub busy: Option<u8>,
    /// Share of its time that the worst subtask waits for others, in percent.
    pub backpressure: Option<u8>,
    /// Records per second, formatted.
    pub records_in: Option<String>,
    pub records_out: Option<String>,
    /// Records that wait in a source, formatted.
    pub lag: Option<String>,
}

impl Vertex {
    /// Returns the tone: by state if the vertex is not running, and otherwise by what it spends its time on.
    pub fn tone(&self) -> Tone {
        if self.status != "RUNNING" {
            return Tone::of(Some(&self.status));
        }
        match self.busy.max(self.backpressure) {
            None => Tone::Unknown,
            Some(HIGH..) => Tone::Bad,
            Some(RAISED..) => Tone::Moving,
            Some(_) => Tone::Good,
        }
    }

    /// Returns the tone as a word.
    pub fn word(&self) -> &str {
        if self.status != "RUNNING" {
            return &self.status;
        }
        let is_held_up = self.backpressure > self.busy;
        match self.tone() {
            Tone::Bad | Tone::Moving if is_held_up => "backpressured",
            Tone::Bad | Tone::Moving => "busy",
            Tone::Good => "keeping up",
            Tone::Quiet | Tone::Unknown => "not measured",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vertex_is_as_good_as_the_worst_that_it_spends_its_time_on() {
        let of = |status: &str, busy, backpressure| {
            let vertex =
                Vertex { status: status.to_owned(), busy, backpressure, ..Vertex::default() };
            (vertex.tone(), vertex.word().to_owned())
        };
        for (busy, backpressure, tone, word) in [
            (Some(10), Some(0), Tone::Good, "keeping up"),
            (Some(95), Some(0), Tone::Bad, "busy"),
            (Some(10), Some(60), Tone::Moving, "backpressured"),
            (None, Some(100), Tone::Bad, "backpressured"),
            (Some(50), Some(50), Tone::Moving, "busy"),
            (None, None, Tone::Unknown, "not measured"),
        ] {
            assert_eq!(of("RUNNING", busy, backpressure), (tone, word.to_owned()));
        }
        assert_eq!(of("FAILED", Some(1), None), (Tone::Bad, "FAILED".to_owned()));
        assert_eq!(of("FINISHED", None, None), (Tone::Quiet, "FINISHED".to_owned()));
    }
}
