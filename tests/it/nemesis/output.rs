//! The committed records of a job, read while it runs: each file once, since none changes after its commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::e2e::cluster::output::committed;

/// Highest sequence of each key.
pub(super) type Marks = BTreeMap<u64, u64>;

#[derive(Default)]
pub(super) struct Output {
    folder: PathBuf,
    files: BTreeSet<PathBuf>,
    /// How often each sequence of each key is there.
    times: BTreeMap<(u64, u64), usize>,
    marks: Marks,
    /// Sequence of each key that was committed last. A colour that has taken over may be behind what the other one wrote.
    latest: Marks,
    records: usize,
    /// Lines that are no record, or have the wrong count.
    wrong: usize,
}

/// A record that was there already.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Again {
    pub(super) key: u64,
    pub(super) sequence: u64,
    pub(super) times: usize,
    pub(super) file: PathBuf,
}

impl Output {
    pub(super) fn of(folder: PathBuf) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Reads what was committed since the last time. Returns what was there before.
    pub(super) fn inspect(&mut self) -> Vec<Again> {
        let mut again = Vec::new();
        let new = committed(&self.folder).filter(|file| !self.files.contains(file));
        let mut new: Vec<PathBuf> = new.collect();
        new.sort_by_key(|file| fs::metadata(file).and_then(|it| it.modified()).ok());
        for file in new {
            // It is read the next time if it cannot be read now.
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for line in text.lines() {
                self.add(line, &file, &mut again);
            }
            self.files.insert(file);
        }
        again
    }

    fn add(&mut self, line: &str, file: &Path, again: &mut Vec<Again>) {
        let numbers: Vec<u64> = line.split(',').filter_map(|it| it.parse().ok()).collect();
        let [key, sequence, count] = numbers[..] else {
            self.wrong += 1;
            return;
        };
        self.records += 1;
        self.wrong += usize::from(count != sequence + 1);
        let mark = self.marks.entry(key).or_default();
        *mark = sequence.max(*mark);
        self.latest.insert(key, sequence);
        let times = self.times.entry((key, sequence)).or_default();
        *times += 1;
        if *times > 1 {
            again.push(Again { key, sequence, times: *times, file: file.to_owned() });
        }
    }

    pub(super) fn marks(&self) -> &Marks {
        &self.marks
    }

    pub(super) fn latest(&self) -> &Marks {
        &self.latest
    }

    pub(super) fn records(&self) -> usize {
        self.records
    }

    pub(super) fn wrong(&self) -> usize {
        self.wrong
    }

    /// Returns the sequences below the highest of their key that are not there.
    pub(super) fn lost(&self) -> Vec<(u64, u64)> {
        let all = self.marks.iter().flat_map(|(key, mark)| (0..=*mark).map(|it| (*key, it)));
        all.filter(|id| !self.times.contains_key(id)).collect()
    }

    /// Returns how many records are there again, and those that are there more often than `promised` says.
    pub(super) fn doubled(
        &self,
        promised: impl Fn(u64, u64) -> usize,
    ) -> (usize, Vec<(u64, u64, usize)>) {
        let again = self.times.iter().filter(|(_, times)| **times > 1);
        let number = again.clone().map(|(_, times)| times - 1).sum();
        let beyond = again.filter(|((key, at), times)| **times > 1 + promised(*key, *at));
        (number, beyond.map(|((key, at), times)| (*key, *at, *times)).collect())
    }
}

/// Records that the other colour of a blue/green deployment writes again: those between its savepoint and the end of
/// the colour that it takes over from.
pub(super) struct Overlap {
    /// What was committed last before the savepoint.
    pub(super) after: Marks,
    /// Marks when one colour was left; `None` while there are two.
    pub(super) up_to: Option<Marks>,
}

impl Overlap {
    pub(super) fn has(&self, key: u64, sequence: u64) -> bool {
        let is_before_end = |marks: &Marks| marks.get(&key).is_some_and(|it| sequence <= *it);
        self.after.get(&key).is_none_or(|it| sequence > *it)
            && self.up_to.as_ref().is_none_or(is_before_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_once_for_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let bucket = folder.path().join("2026-01-01--00");
        fs::create_dir(&bucket).unwrap();
        let mut output = Output::of(folder.path().to_owned());
        fs::write(bucket.join("part-a-0"), "0,0,1\n0,1,2\n1,0,1\n").unwrap();
        fs::write(bucket.join(".part-a-1.inprogress"), "0,2,3\n").unwrap();
        assert!(output.inspect().is_empty());
        let second = bucket.join("part-b-0");
        fs::write(&second, "0,1,2\n0,4,9\nnonsense\n").unwrap();
        let again = Again { key: 0, sequence: 1, times: 2, file: second };
        assert_eq!(output.inspect(), [again]);
        assert!(output.inspect().is_empty());
        assert_eq!((output.records(), output.wrong()), (5, 2));
        assert_eq!(output.lost(), [(0, 2), (0, 3)]);
        assert_eq!(output.marks(), &Marks::from([(0, 4), (1, 0)]));
        fs::write(bucket.join("part-c-0"), "0,2,3\n").unwrap();
        assert!(output.inspect().is_empty());
        assert_eq!(output.marks()[&0], 4);
        assert_eq!(output.latest(), &Marks::from([(0, 2), (1, 0)]));
        assert_eq!(output.doubled(|_, _| 0), (1, vec![(0, 1, 2)]));
        let overlap = Overlap { after: Marks::from([(0, 0)]), up_to: Some(Marks::from([(0, 1)])) };
        let promised = |key, at| usize::from(overlap.has(key, at));
        assert_eq!(output.doubled(promised), (1, vec![]));
        assert!(!overlap.has(0, 2) && !overlap.has(1, 0));
    }
}
