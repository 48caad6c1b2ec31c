//! A breadth-first search over everything that may happen to a simulated world.
//!
//! In each state the operator may make a pass, crash before any of its steps, or read what was stored before the last
//! change; the world may go on by a step; a user may edit and things may break, each as often as the budget allows.
//! States that differ only in names, in times and in the number of records are the same. The laws are those of the
//! world, and one more: left alone, the operator becomes idle from each state, writes nothing there, and reports why it
//! is not done.
//!
//! What a search with its own budget must reach is in `tests/golden/exploration`: its depth, and what happens in which
//! phase of the resource. `UPDATE_EXPECT=1` rewrites that. A search that reaches less has shrunk, and fails.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::laws::Law;
use crate::sources::path;

/// `edits,faults,crashes`; more of one takes minutes.
const BUDGET: &str = "KUBECTL_FLINK_EXPLORATION";
/// Folder with what searches reach.
const STORED: &str = "tests/golden/exploration";
/// Number of passes after which an operator that is left alone must be idle.
const PASSES_MAX: usize = 150;
/// Number of passes without a write after which it is idle.
const RESTING: usize = 3;

/// What may still happen to the world.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Budget {
    pub edits: u8,
    pub faults: u8,
    pub crashes: u8,
}

impl Budget {
    /// Reads the requested budget; by default an edit and a crash.
    pub fn read() -> Self {
        Self::read_or("1,0,1")
    }

    /// Reads the requested budget, or returns this one.
    pub fn read_or(default: &str) -> Self {
        let text = std::env::var(BUDGET).unwrap_or_else(|_| default.to_owned());
        let parts: Vec<u8> = text.split(',').map(|part| part.parse().unwrap()).collect();
        let [edits, faults, crashes] = parts[..] else { panic!("{BUDGET}: edits,faults,crashes") };
        Self { edits, faults, crashes }
    }
}

/// How a pass ended of an operator that is left alone.
pub struct Rested {
    /// Whether it did nothing and wrote nothing.
    pub is_quiet: bool,
    /// Whether there is nothing left to manage.
    pub is_gone: bool,
    /// What it did and why.
    pub told: String,
}

/// A state of a world to search.
pub trait Explored: Clone {
    /// The transition from one state to the next.
    type Action: Copy + Debug;
    /// The first action, which does nothing.
    const START: Self::Action;
    /// The law that an operator becomes idle.
    const RESTS: Law;

    /// Returns the whole state; times, ids and counts do not matter.
    fn text(&self) -> String;

    fn left(&self) -> Budget;

    /// Returns the phase of the resource, for a person; a whole search has a few dozen of them.
    fn phase(&self) -> String;

    /// Returns what may happen next, once for each possible outcome.
    fn successors(&self) -> Vec<(Self::Action, Self)>;

    /// Stops all edits and faults from here on.
    fn leave_alone(&mut self);

    /// Runs a moment and a pass.
    fn rest(&mut self) -> Rested;

    /// Asserts that an idle operator has done what was requested, or that the status says why not.
    fn assert_done(&self);
}

fn key<S: Explored>(state: &S) -> u64 {
    let mut hasher = DefaultHasher::new();
    canonical(&state.text()).hash(&mut hasher);
    state.left().hash(&mut hasher);
    hasher.finish()
}

/// Replaces ids, times and counts in the text by where they first occur.
fn canonical(text: &str) -> String {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut out = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut plain = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() || (at > 0 && bytes[at - 1].is_ascii_alphanumeric()) {
            at += 1;
            continue;
        }
        let is_part = |byte: &u8| {
            byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'T' | b'Z' | b':' | b'.')
        };
        let end = at + bytes[at..].iter().take_while(|byte| is_part(byte)).count();
        let word = &text[at..end];
        let word_end = word.trim_end_matches(['-', ':', '.', ',']).len();
        let word = &word[..word_end];
        let is_time = word.starts_with("2026-") || (word.len() >= 13 && word.starts_with("1767"));
        let is_id = word.len() >= 32;
        let is_count = text[..at].ends_with("/chk-");
        if is_time || is_id || is_count {
            out.push_str(&text[plain..at]);
            if is_time {
                out.push('T');
            } else {
                let next = names.len();
                let name = *names.entry(word).or_insert(next);
                write!(out, "#{name}").unwrap();
            }
            at += word_end;
            plain = at;
        } else {
            at += word_end.max(1);
        }
    }
    out.push_str(&text[plain..]);
    out
}

struct Exploration<S: Explored> {
    /// Each state's parent and action; the first is its own parent.
    trail: Vec<(usize, S::Action)>,
    seen: HashSet<u64>,
    /// States from which the operator is known to become idle.
    resting: HashSet<u64>,
    queue: VecDeque<(usize, usize, S)>,
    transitions: usize,
    depth: usize,
    passes: usize,
    came_by: CameBy,
}

/// What happened in each phase.
type CameBy = BTreeMap<String, BTreeSet<String>>;

impl<S: Explored> Exploration<S> {
    fn run(mut self, start: S) -> Self {
        let _is_new = self.seen.insert(key(&start));
        self.trail.push((0, S::START));
        self.queue.push_back((0, 0, start));
        while let Some((at, depth, state)) = self.queue.pop_front() {
            self.depth = self.depth.max(depth);
            let next = self.lawful(at, None, || state.successors());
            let phase = state.phase();
            for (action, next) in next {
                self.transitions += 1;
                self.note(&phase, action);
                if !self.seen.insert(key(&next)) {
                    continue;
                }
                let index = self.trail.len();
                self.trail.push((at, action));
                self.come_to_rest(index, &next);
                self.queue.push_back((index, depth + 1, next));
            }
        }
        self
    }

    fn note(&mut self, phase: &str, action: S::Action) {
        // At which of its steps a pass is interrupted does not make another situation.
        let action = format!("{action:?}");
        let action = action.trim_start_matches("Interrupted(");
        let names = ["Crash", "Paused", "Unanswered", "Late"];
        let action = names.into_iter().find(|name| action.starts_with(name)).unwrap_or(action);
        self.came_by.entry(phase.to_owned()).or_default().insert(action.to_owned());
    }

    /// Asserts that the operator, left alone from `state`, ends in a state in which it writes nothing.
    fn come_to_rest(&mut self, at: usize, state: &S) {
        let mut state = state.clone();
        state.leave_alone();
        let mut way = Vec::new();
        let mut quiet = 0;
        for _ in 0..PASSES_MAX {
            let key = key(&state);
            if self.resting.contains(&key) {
                break;
            }
            way.push(key);
            self.passes += 1;
            let (rested, next) = self.lawful(at, Some("left alone"), || {
                let mut next = state.clone();
                (next.rest(), next)
            });
            state = next;
            quiet = if rested.is_quiet { quiet + 1 } else { 0 };
            if rested.is_gone || quiet == RESTING {
                self.lawful(at, Some(&rested.told), || state.assert_done());
                break;
            }
            assert!(
                way.len() < PASSES_MAX,
                "{}: no rest after {PASSES_MAX} passes, last {}\n{}",
                S::RESTS,
                rested.told,
                self.way_to(at)
            );
        }
        self.resting.extend(way);
    }

    /// Runs `deed`, and prints the path to it if a law is broken.
    fn lawful<T>(&self, at: usize, doing: Option<&str>, deed: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(deed)).unwrap_or_else(|panic| {
            println!("{}{}", self.way_to(at), doing.unwrap_or_default());
            std::panic::resume_unwind(panic)
        })
    }

    fn way_to(&self, mut at: usize) -> String {
        let mut actions = Vec::new();
        while at > 0 {
            let (before, action) = self.trail[at];
            actions.push(format!("{action:?}\n"));
            at = before;
        }
        actions.reverse();
        actions.concat()
    }
}

/// Searches everything that can follow from `start`, and prints how much that is.
pub fn explore<S: Explored>(name: &str, start: S) {
    let Budget { edits, faults, crashes } = start.left();
    let started = Instant::now();
    let exploration = Exploration {
        trail: Vec::new(),
        seen: HashSet::new(),
        resting: HashSet::new(),
        queue: VecDeque::new(),
        transitions: 0,
        depth: 0,
        passes: 0,
        came_by: BTreeMap::new(),
    };
    let Exploration { seen, transitions, depth, passes, came_by, .. } = exploration.run(start);
    println!(
        "explored {name}, {edits} edits, {faults} faults, {crashes} crashes: {} states, \
         {transitions} transitions, depth {depth}, {passes} passes to rest, {:?}",
        seen.len(),
        started.elapsed()
    );
    if std::env::var(BUDGET).is_err() {
        assert_came_by(name, depth, &came_by);
    }
}

/// Returns the stored file of a search.
fn file_of(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase() + ".txt"
}

/// Asserts that the search still reaches everything that is stored for it.
fn assert_came_by(name: &str, depth: usize, came_by: &CameBy) {
    let folder = path(STORED);
    let path = folder.join(file_of(name));
    let lines = came_by.iter().map(|(phase, actions)| {
        format!("{phase}: {}", actions.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    });
    let told = lines.fold(format!("depth {depth}\n"), |text, line| text + &line + "\n");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, told).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}: UPDATE_EXPECT=1 writes it", path.display()));
    let (first, rest) = expected.split_once('\n').unwrap();
    let depth_min: usize = first.strip_prefix("depth ").unwrap().parse().unwrap();
    let missing: Vec<String> = rest.lines().flat_map(|line| missing(line, came_by)).collect();
    assert!(missing.is_empty(), "{name} does not come by any more: {missing:#?}");
    assert!(depth >= depth_min, "{name} is only {depth} deep, and was {depth_min}");
}

/// Returns the actions of a line that did not happen.
fn missing(line: &str, came_by: &CameBy) -> Vec<String> {
    let (phase, actions) = line.split_once(": ").unwrap();
    let has = |action: &str| came_by.get(phase).is_some_and(|actions| actions.contains(action));
    let missing = actions.split(", ").filter(|action| !has(action));
    missing.map(|action| format!("{phase}: {action}")).collect()
}

#[test]
fn what_a_search_does_not_come_by_is_missing() {
    let came_by: CameBy = [("running".to_owned(), ["Pass".to_owned()].into())].into();
    assert_eq!(missing("running: Pass", &came_by), Vec::<String>::new());
    assert_eq!(missing("running: Crash, Pass", &came_by), ["running: Crash"]);
    assert_eq!(missing("suspended: Pass", &came_by), ["suspended: Pass"]);
}

/// `docs/testing.md` has a row for each search, with its depth.
#[test]
fn the_table_of_searches_is_what_is_stored() {
    let text = std::fs::read_to_string(path("docs/testing.md")).unwrap();
    let rows =
        text.lines().skip_while(|line| !line.starts_with("| what | edits, faults, crashes |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let told: BTreeMap<String, String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            (file_of(cells[0]), format!("depth {}", cells[4]))
        })
        .collect();
    let stored: BTreeMap<String, String> = std::fs::read_dir(path(STORED))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let stored = std::fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, stored.lines().next().unwrap().to_owned())
        })
        .collect();
    assert_eq!(told, stored);
}

#[test]
fn names_times_and_counts_make_no_difference() {
    let id = |digit: char| digit.to_string().repeat(32);
    let one =
        format!("a {} b {} at 2026-01-01T00:00:05Z chk/x/chk-17 1767225605000", id('1'), id('2'));
    let other =
        format!("a {} b {} at 2026-01-01T00:00:07Z chk/x/chk-24 1767225607000", id('3'), id('1'));
    assert_eq!(canonical(&one), canonical(&other));
    let twice =
        format!("a {} b {} at 2026-01-01T00:00:07Z chk/x/chk-24 1767225607000", id('3'), id('3'));
    assert_ne!(canonical(&one), canonical(&twice));
    assert_ne!(canonical("generation 1"), canonical("generation 2"));
}
