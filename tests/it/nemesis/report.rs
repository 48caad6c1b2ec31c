//! The outcome of a run, as `docs/nemesis.md` shows it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::checkpoints::Checkpoints;
use super::colours::Colours;
use super::plan::{Event, Target, What};
use super::stage::Stage;
use super::statuses::Statuses;

pub(super) struct Outcome<'a> {
    pub(super) seed: u64,
    pub(super) minutes: u64,
    pub(super) events: &'a [Event],
    pub(super) statuses: &'a Statuses,
    pub(super) checkpoints: &'a Checkpoints,
    pub(super) colours: &'a Colours,
    /// What did not come to rest in time.
    pub(super) unsettled: &'a [String],
}

impl Outcome<'_> {
    /// Returns the report, and what was violated.
    pub(super) fn report(&self, stage: &Stage) -> (String, Vec<String>) {
        let mut broken: Vec<String> = self.unsettled.to_vec();
        let mut text = String::new();
        let edits = self.events.iter().filter(|event| event.what.is_edit()).count();
        let (refused, late) = stage.store.struck();
        let Statuses { changes, upgrades, .. } = self.statuses;
        writeln!(text, "seed {}, {} minutes, {}\n", self.seed, self.minutes, stage.image).unwrap();
        writeln!(text, "| events | |\n|---|---|").unwrap();
        for (kind, number) in self.kinds() {
            writeln!(text, "| {kind} | {number} |").unwrap();
        }
        writeln!(text, "\n{} faults and {edits} edits; the store refused {refused} requests and delayed {late}; the operators started {} times, wrote {changes} statuses and stopped jobs or clusters for {upgrades} upgrades; {} transitions of the blue/green deployment.\n", self.events.len() - edits, stage.operators.starts(), self.colours.transitions()).unwrap();
        writeln!(text, "| job | records | lost | doubled | beyond what is promised | wrong | longest gap |\n|---|---|---|---|---|---|---|").unwrap();
        for written in &self.statuses.written {
            let (name, output) = (written.target.name(), &written.output);
            let lost = output.lost();
            let promised = |key, at| {
                if written.target == Target::Colours { self.colours.promised(key, at) } else { 0 }
            };
            let (doubled, beyond) = output.doubled(promised);
            writeln!(
                text,
                "| {name} | {} | {} | {doubled} | {} | {} | {:.0} s |",
                output.records(),
                lost.len(),
                beyond.len(),
                output.wrong(),
                written.longest_gap
            )
            .unwrap();
            if output.records() == 0 {
                broken.push(format!("{name} wrote nothing"));
            }
            if !lost.is_empty() || !beyond.is_empty() || output.wrong() > 0 {
                let few = (&lost[..lost.len().min(5)], &beyond[..beyond.len().min(5)]);
                broken.push(format!("{name}: lost and doubled {few:?}, {} wrong", output.wrong()));
            }
        }
        writeln!(text, "\n| state of | checkpoints | starts from state |\n|---|---|---|").unwrap();
        for (name, (completed, restored)) in self.lineages() {
            writeln!(text, "| {name} | {completed} | {restored} |").unwrap();
        }
        writeln!(text, "\n| longest silence of | |\n|---|---|").unwrap();
        for (name, seconds) in self.statuses.silences.longest() {
            if *seconds >= 30.0 {
                writeln!(text, "| {name} | {seconds:.0} s |").unwrap();
            }
        }
        broken.extend(self.checkpoints.older.iter().map(|it| format!("older state: {it}")));
        let silent = self.statuses.silent.iter();
        broken
            .extend(silent.map(|(name, seconds)| format!("{name} was silent for {seconds:.0} s")));
        writeln!(
            text,
            "\n{} starts from older state, {} silent resources, {} unsettled; {} times a person named the state.",
            self.checkpoints.older.len(),
            self.statuses.silent.len(),
            self.unsettled.len(),
            stage.answers.load(Ordering::Relaxed)
        )
        .unwrap();
        (text, broken)
    }

    fn kinds(&self) -> BTreeMap<String, usize> {
        let mut kinds = BTreeMap::new();
        for event in self.events {
            *kinds.entry(kind(&event.what)).or_default() += 1;
        }
        kinds
    }

    /// Returns checkpoints and starts of each resource; those of all colours together.
    fn lineages(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (name, lineage) in &self.checkpoints.lineages {
            let name = if name.contains('/') { Target::Colours.name() } else { name };
            let (completed, restored) = lineage.counts();
            let sum = counts.entry(name).or_default();
            *sum = (sum.0 + completed, sum.1 + restored);
        }
        counts
    }
}

/// Returns the kind of an event, without its target.
fn kind(what: &What) -> String {
    let first = |text: &str| text.split(['(', ' ', ',']).next().unwrap_or_default().to_owned();
    match what {
        What::Kill(_, role) => format!("Kill {role:?}"),
        What::Pause(_, role) => format!("Pause {role:?}"),
        What::Webhook(rejected) => format!("Webhook rejects {rejected:?}"),
        What::Edit(_, edit) => format!("Edit {}", first(&format!("{edit:?}"))),
        other => first(&format!("{other:?}")),
    }
}
