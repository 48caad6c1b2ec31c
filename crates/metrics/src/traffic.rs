//! Requests of an HTTP client: how many, with which answers, and how long those took.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::family::{Family, Value};
use super::histogram::{Histogram, Room};
use super::{Settings, number};

/// Seconds that rates are averaged over, as in Flink's meters.
const MINUTE: u64 = 60;
/// Seconds that are counted together, as in Flink's meters.
const SLOT: u64 = 5;
const SLOTS: usize = 12;

/// Shared by everything that sends requests to one place; if off, it counts nothing.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Option<Arc<Mutex<State>>>);

#[derive(Debug)]
struct State {
    has_groups: bool,
    slow_from: Duration,
    requests: Meter,
    /// By method, of which there are few: those that this program uses.
    methods: BTreeMap<String, u64>,
    failed: Meter,
    slow: u64,
    answers: Meter,
    codes: BTreeMap<u16, Meter>,
    groups: [Meter; 5],
    times: Histogram,
    room: Room,
}

/// How often something happened, in total and in the last minute.
#[derive(Clone, Debug, Default)]
struct Meter {
    count: u64,
    /// By the number of the slot modulo their count; the newest is `newest`.
    slots: [u32; SLOTS],
    newest: u64,
}

impl Meter {
    fn mark(&mut self, now: Duration) {
        self.turn_to(now);
        self.count = self.count.saturating_add(1);
        if let Some(slot) = self.slots.get_mut(place(self.newest)) {
            *slot = slot.saturating_add(1);
        }
    }

    /// Empties the slots of the time that has passed.
    fn turn_to(&mut self, now: Duration) {
        let present = now.as_secs() / SLOT;
        let passed = present.saturating_sub(self.newest).min(SLOTS as u64);
        for back in 0..passed {
            if let Some(slot) = self.slots.get_mut(place(present.saturating_sub(back))) {
                *slot = 0;
            }
        }
        self.newest = self.newest.max(present);
    }

    fn per_second(&self, now: Duration) -> f64 {
        let mut present = self.clone();
        present.turn_to(now);
        let sum: u64 = present.slots.iter().map(|count| u64::from(*count)).sum();
        number(sum) / number(MINUTE)
    }
}

fn place(slot: u64) -> usize {
    usize::try_from(slot % SLOTS as u64).unwrap_or_default()
}

impl Traffic {
    pub(super) fn new(settings: &Settings) -> Self {
        Self(Some(Arc::new(Mutex::new(State {
            has_groups: settings.code_groups,
            slow_from: settings.slow,
            requests: Meter::default(),
            methods: BTreeMap::new(),
            failed: Meter::default(),
            slow: 0,
            answers: Meter::default(),
            codes: BTreeMap::new(),
            groups: std::array::from_fn(|_| Meter::default()),
            times: Histogram::default(),
            room: Room::new(usize::try_from(settings.sample_size).unwrap_or(usize::MAX)),
        }))))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = &self.0 {
            change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Notes that a request is sent.
    pub fn asked(&self, method: &str, now: Duration) {
        self.change(|state| {
            state.requests.mark(now);
            match state.methods.get_mut(method) {
                Some(count) => *count = count.saturating_add(1),
                None => {
                    let _new = state.methods.insert(method.to_owned(), 1);
                }
            }
        });
    }

    /// Notes that its answer begins, or that there is none.
    pub fn answered(&self, code: Option<u16>, took: Duration, now: Duration) {
        self.change(|state| {
            if took >= state.slow_from {
                state.slow = state.slow.saturating_add(1);
            }
            if code.is_none_or(|code| !(200..300).contains(&code)) {
                state.failed.mark(now);
            }
            let Some(code) = code else { return };
            state.answers.mark(now);
            // Others are not HTTP.
            if (100..600).contains(&code) {
                state.codes.entry(code).or_default().mark(now);
                if let Some(group) = state.groups.get_mut(usize::from(code / 100) - 1) {
                    group.mark(now);
                }
            }
            #[allow(clippy::cast_precision_loss, reason = "exact up to 104 days")]
            state.times.record(took.as_nanos() as f64, &mut state.room);
        });
    }

    /// Returns the metrics of the counts, below `group`.
    pub(super) fn families(&self, group: &str, now: Duration) -> Vec<Family> {
        let Some(state) = &self.0 else { return Vec::new() };
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut families = Vec::new();
        let mut emit = |name: &str, value: Value| {
            families.push(Family::of_operator(format!("{group}.{name}"), value));
        };
        let mut meter = |name: &str, meter: &Meter| {
            emit(&format!("{name}.Count"), Value::Count(number(meter.count)));
            emit(&format!("{name}.NumPerSecond"), Value::Gauge(meter.per_second(now)));
        };
        meter("HttpRequest", &state.requests);
        meter("HttpRequest.Failed", &state.failed);
        meter("HttpResponse", &state.answers);
        for (code, of_code) in &state.codes {
            meter(&format!("HttpResponse.{code}"), of_code);
        }
        if state.has_groups {
            for (hundred, of_group) in (1..).zip(&state.groups) {
                meter(&format!("HttpResponse.{hundred}xx"), of_group);
            }
        }
        for (method, count) in &state.methods {
            emit(&format!("HttpRequest.{method}.Count"), Value::Count(number(*count)));
        }
        emit("HttpRequest.Slow.Count", Value::Count(number(state.slow)));
        emit("HttpResponse.TimeNanos", Value::Summary(state.times.summary()));
        families
    }
}

#[cfg(test)]
mod tests;
