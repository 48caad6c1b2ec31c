//! Fuzz tests of inputs from outside, with malformed and unlikely ones.
//!
//! Each target reads one kind of input. Its corpus is a folder of `tests/corpus/`: every file is tried, then towers
//! (one opening sign after the other), then mutations of the corpus and of earlier mutations. Laws: no panic, no stack
//! overflow, memory and time in proportion to the length, and what was read and written again reads the same. A target
//! returns the outcome it saw for an input: a mutation with a new outcome is mutated further.
//!
//! The seed and the number of mutations are fixed, so that every run tries the same, unless the environment sets more
//! (see docs/testing.md), or another seed after that one. An input that breaks a law is made smaller, stored and named.

mod autoscaler;
mod command_line;
mod configuration;
mod manifest;
mod metadata;
mod mutate;
mod rest;
mod reviews;
mod rules;
mod statements;
mod stored;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testing::choices::{Choices, another_seed};

/// Variable with the seconds to spend on mutations of each target.
const SECONDS: &str = "KUBECTL_FLINK_FUZZ_SECONDS";
/// Variable with the number of mutations of each target; with [`SECONDS`], whichever comes first ends it.
const INPUTS: &str = "KUBECTL_FLINK_FUZZ_INPUTS";
const SEED: &str = "KUBECTL_FLINK_FUZZ_SEED";
/// Mutations of each target if neither is set: a fraction of a second.
const MUTATIONS: u64 = 200;
/// Maximum number of inputs that mutations start from.
const POOL_MAX: usize = 2000;
/// Tries to make a failing input smaller.
const SHRINKS_MAX: usize = 300;
/// Opening signs of the syntaxes.
const OPENERS: [&str; 22] = [
    "[",
    "{",
    "(",
    "{\"a\":",
    "[{\"a\":[",
    "- ",
    "a: ",
    "? ",
    "&a [*a, ",
    "!",
    "!!x ",
    "-",
    "'",
    "\"",
    "\\",
    "a.",
    "a:\n ",
    "a ? b : ",
    "not ",
    "|\n ",
    "%",
    "\u{20ac}",
];

/// One kind of input.
struct Target {
    /// Folder below `tests/corpus`.
    name: &'static str,
    /// Pieces of the syntax, which mutations insert.
    words: &'static [&'static str],
    /// Maximum length of a generated input, in bytes.
    bytes_max: usize,
    /// Minimum number of outcomes that the corpus and its mutations must show: a target that rejects everything tests
    /// nothing.
    outcomes_min: usize,
}

/// What inputs may cost. Allocations also measure time, and are the same on every machine; the clock only detects loops
/// without any.
mod cost {
    use std::time::Duration;

    pub(super) const HELD: u64 = 4 << 20;
    pub(super) const HELD_PER_BYTE: u64 = 2_000;
    pub(super) const ALLOCATED: u64 = 32 << 20;
    pub(super) const ALLOCATED_PER_BYTE: u64 = 20_000;
    pub(super) const TIME: Duration = Duration::from_millis(500);
    pub(super) const TIME_PER_BYTE: Duration = Duration::from_micros(60);
}

/// Tries `run` with the corpus of `target` and its mutations; `run` returns what it saw.
fn fuzz(target: &Target, run: impl Fn(&Input) -> String) {
    let corpus = corpus(target.name);
    let mut session = Session {
        target,
        run: &run,
        choices: Choices::new(seed()),
        seen: HashSet::new(),
        pool: Vec::new(),
        executions: 0,
        dearest: 0,
    };
    // The first call creates what is cached, which is not a cost of the input.
    drop(catch_unwind(AssertUnwindSafe(|| run(&corpus[0].1))));
    for (name, input) in &corpus {
        session.named(name, input);
        session.pool.push(input.clone());
    }
    session.towers();
    session.mutations();
    if let Some(seed) = another_seed().filter(|_| !is_long()) {
        session.choices = Choices::new(seed);
        session.mutations();
    }
    let Session { executions, dearest, seen, pool, .. } = session;
    let outcomes: HashSet<&str> = seen.iter().map(|(outcome, _)| outcome.as_str()).collect();
    println!(
        "fuzz {}: {executions} executions, {} outcomes, {} inputs kept, dearest {dearest} bytes allocated",
        target.name,
        outcomes.len(),
        pool.len()
    );
    assert!(
        outcomes.len() >= target.outcomes_min,
        "{}: {} outcomes: {outcomes:?}",
        target.name,
        outcomes.len()
    );
}

/// As [`fuzz`], for a target that reads text.
fn fuzz_text(target: &Target, run: impl Fn(&str) -> String) {
    fuzz(target, |input| run(&String::from_utf8_lossy(&input.bytes)));
}

/// What a target gets.
#[derive(Clone)]
struct Input {
    /// Prefix of the corpus file's name before `--`, which selects one of several readers.
    of: String,
    bytes: Vec<u8>,
}

struct Session<'a, R> {
    target: &'a Target,
    run: &'a R,
    choices: Choices,
    /// Outcomes, each with the magnitude of its cost.
    seen: HashSet<(String, u32)>,
    pool: Vec<Input>,
    executions: u64,
    dearest: u64,
}

impl<R: Fn(&Input) -> String> Session<'_, R> {
    fn towers(&mut self) {
        let length =
            if is_long() { self.target.bytes_max } else { self.target.bytes_max.min(8 << 10) };
        for opener in OPENERS.iter().chain(self.target.words) {
            let tower = opener.repeat(length / opener.len());
            self.tower(opener, tower);
            let half = opener.repeat(length / 2 / opener.len());
            let closing: String = half.chars().rev().filter_map(closing).collect();
            let balanced = format!("{half}1{closing}");
            self.tower(opener, balanced);
        }
    }

    fn tower(&mut self, opener: &str, tower: String) {
        let at = self.below(self.pool.len());
        let input = Input { of: self.pool[at].of.clone(), bytes: tower.into_bytes() };
        self.named(&format!("tower of `{}`", opener.escape_debug()), &input);
    }

    fn mutations(&mut self) {
        let start = Instant::now();
        let time = variable(SECONDS).map(Duration::from_secs);
        let count = match (variable(INPUTS), time) {
            (Some(count), _) => count,
            (None, Some(_)) => u64::MAX,
            (None, None) => MUTATIONS,
        };
        for _ in 0..count {
            if time.is_some_and(|time| start.elapsed() >= time) {
                break;
            }
            let (one, other) = (self.below(self.pool.len()), self.below(self.pool.len()));
            let (one, other) = (&self.pool[one], &self.pool[other]);
            let choices = &mut self.choices;
            let mut bytes = mutate::mutated(&one.bytes, &other.bytes, self.target.words, choices);
            bytes.truncate(self.target.bytes_max);
            let of = if choices.below(8) == 0 { &other.of } else { &one.of };
            let input = Input { of: of.clone(), bytes };
            let is_new = self.named("mutation", &input);
            if is_new && self.pool.len() < POOL_MAX {
                self.pool.push(input);
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.choices.below(bound as u64)).unwrap()
    }

    /// Whether the input showed something new; fails if it breaks a law.
    fn named(&mut self, name: &str, input: &Input) -> bool {
        self.executions += 1;
        if is_long() {
            // A stack overflow ends the process: this shows which input caused it.
            std::fs::write(scratch(self.target.name, "current"), &input.bytes).unwrap();
        }
        match execute(self.run, input) {
            Ok((outcome, allocated)) => {
                self.dearest = self.dearest.max(allocated);
                self.seen.insert((outcome, allocated.checked_ilog2().unwrap_or(0)))
            }
            Err(broken) => self.fail(name, input, &broken),
        }
    }

    fn fail(&self, name: &str, input: &Input, broken: &str) -> ! {
        let Input { of, bytes } = input;
        let with = |bytes: &[u8]| Input { of: of.clone(), bytes: bytes.to_vec() };
        let small = smaller(bytes, |bytes| execute(self.run, &with(bytes)).is_err());
        let input = with(&small);
        let broken = execute(self.run, &input).err().unwrap_or_else(|| broken.to_owned());
        let path = scratch(self.target.name, "broken");
        std::fs::write(&path, &small).unwrap();
        panic!(
            "{}: {of} {name}: {broken}\ninput, also in {}; give it a name in tests/corpus/{}/:\n{}",
            self.target.name,
            path.display(),
            self.target.name,
            excerpt(&small),
        );
    }
}

/// Returns what `run` saw and how many bytes it allocated, or the law that it broke.
fn execute(run: impl Fn(&Input) -> String, input: &Input) -> Result<(String, u64), String> {
    let length = input.bytes.len() as u64;
    let time_max = cost::TIME + cost::TIME_PER_BYTE * u32::try_from(length).unwrap_or(u32::MAX);
    let mut fastest = Duration::MAX;
    let mut outcome = Err(String::new());
    let mut info = allocation_counter::AllocationInfo::default();
    // A busy machine also costs processor time.
    for _ in 0..3 {
        let start = processor_time();
        info = allocation_counter::measure(|| {
            outcome = catch_unwind(AssertUnwindSafe(|| run(input))).map_err(|panic| said(&*panic));
        });
        fastest = fastest.min(processor_time().saturating_sub(start));
        if fastest <= time_max {
            break;
        }
    }
    let outcome = outcome?;
    if fastest > time_max {
        return Err(format!("takes {fastest:?} for {length} bytes"));
    }
    if info.bytes_max > cost::HELD + cost::HELD_PER_BYTE * length {
        return Err(format!("holds {} bytes for {length} bytes", info.bytes_max));
    }
    if info.bytes_total > cost::ALLOCATED + cost::ALLOCATED_PER_BYTE * length {
        return Err(format!("allocates {} bytes for {length} bytes", info.bytes_total));
    }
    Ok((outcome, info.bytes_total))
}

/// Returns the processor time of this thread, so that waiting for others does not matter.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panics: {}", text.unwrap_or("without a word"))
}

/// Removes whatever can be left out of the input, in ever smaller pieces.
fn smaller(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut small = input.to_vec();
    let mut piece = small.len().div_ceil(2);
    let mut tries = 0;
    while piece > 0 && tries < SHRINKS_MAX {
        let mut at = 0;
        while at < small.len() && tries < SHRINKS_MAX {
            let mut shorter = small[..at].to_vec();
            shorter.extend_from_slice(&small[(at + piece).min(small.len())..]);
            tries += 1;
            if fails(&shorter) {
                small = shorter;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    small
}

/// Returns an error's kind: its words without what it quotes.
fn kind_of(error: &str) -> String {
    let unquoted = error.split('`').step_by(2);
    let words = unquoted.flat_map(|part| part.split(|c: char| !c.is_ascii_alphabetic()));
    words.filter(|word| !word.is_empty()).take(12).collect::<Vec<_>>().join(" ")
}

fn corpus(name: &str) -> Vec<(String, Input)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let of = name.split("--").next().unwrap_or_default().to_owned();
            (name, Input { of, bytes: std::fs::read(path).unwrap() })
        })
        .collect();
    files.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn scratch(target: &str, what: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{target}-{what}"))
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn is_long() -> bool {
    variable(SECONDS).is_some() || variable(INPUTS).is_some()
}

/// Returns a different seed each time, if there is time for one.
fn seed() -> u64 {
    let now = || {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        u64::from(since.subsec_nanos()) ^ since.as_secs()
    };
    variable(SEED).unwrap_or_else(|| if is_long() { now() } else { 0 })
}

fn closing(opening: char) -> Option<char> {
    match opening {
        '[' => Some(']'),
        '{' => Some('}'),
        '(' => Some(')'),
        '\'' | '"' => Some(opening),
        _ => None,
    }
}

fn excerpt(input: &[u8]) -> String {
    String::from_utf8_lossy(input).chars().take(500).collect::<String>().escape_debug().to_string()
}
