//! What the page of a job shows: its vertices, how they are connected, and what each does at the moment.

use crate::row::{Key, Tone};

/// Vertices that are shown, as many as are measured.
pub const VERTICES_MAX: usize = 60;
/// Part of its time, in percent, from which on a vertex does not keep up.
const HIGH: u8 = 90;
/// From here on it is worth a look.
const RAISED: u8 = 50;

/// What there is to show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Shown {
    Job(Box<Job>),
    /// The jobs of a session cluster have pages of their own.
    Session(Vec<Key>),
}

/// One job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Job {
    pub id: String,
    pub name: String,
    pub state: String,
    /// Since when it runs, in seconds since the epoch.
    pub started_at: Option<i64>,
    /// Sources first, at most [`VERTICES_MAX`].
    pub vertices: Vec<Vertex>,
    /// How many there are.
    pub count: usize,
    /// From a vertex to one that reads it, by their places in the list.
    pub edges: Vec<(usize, usize)>,
    /// Why there are no figures.
    pub unmeasured: Option<String>,
}

/// One vertex; what was not measured is absent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Vertex {
    pub name: String,
    pub status: String,
    pub parallelism: u32,
    /// Subtasks that run.
    pub running: u32,
    /// Part of its time that the busiest subtask works, in percent.
    pub busy: Option<u8>,
    /// Part of its time that the worst subtask waits for others, in percent.
    pub backpressure: Option<u8>,
    /// Records per second, in words.
    pub records_in: Option<String>,
    pub records_out: Option<String>,
    /// Records that wait in a source, in words.
    pub lag: Option<String>,
}

impl Vertex {
    /// How it is to be taken: what does not run by its state, all else by what it spends its time on.
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

    /// The same in a word.
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
