//! A job's state as the Java operator stores it: the ConfigMap `autoscaler-NAME`, key by key.
//!
//! Data that cannot be parsed is set aside under another key with a reason. It is never dropped, because a newer
//! operator may have written it. The parallelism in force is not guessed: if it cannot be parsed, nothing is.

mod read;
mod text;
mod write;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::cycle::State;
use super::settings::Settings;
use super::window::later;

/// Maximum length of all values together, in characters; the API server accepts 1 MiB.
pub const LENGTH_MAX: usize = 1_000_000;

/// Maximum decompressed size of a value.
const TEXT_MAX: u64 = 20 << 20;

const HISTORY: &str = "scalingHistory";
/// Of this program alone; the Java operator leaves it as it is.
const REASONS: &str = "scalingReasons";
const TRACKING: &str = "scalingTracking";
const SAMPLES: &str = "collectedMetrics";
const PARALLELISM: &str = "parallelismOverrides";
const CONFIG: &str = "configOverrides";
const DELAYED: &str = "delayedScaleDown";

/// Suffix of the key under which a value is set aside.
const ASIDE: &str = ".unreadable";

/// Samples alone are stored this often per window: storing each of them would mean a write per job and minute.
const STORES_PER_WINDOW: u32 = 5;

/// Data of a ConfigMap.
pub type Data = BTreeMap<String, String>;

/// A value that could not be parsed, and where it is now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SetAside {
    pub key: &'static str,
    pub kept_as: String,
    pub reason: String,
}

/// A state, with everything else that is stored beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    pub state: State,
    pub set_aside: Vec<SetAside>,
    /// Written back unchanged.
    pub kept: Data,
}

/// Why a stored state cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    #[error(
        "`{key}` cannot be read, and it says what is in effect: {reason}; repair or remove it, or \
         reset the autoscaler"
    )]
    InForce { key: &'static str, reason: String },
    #[error("`{key}` is damaged, and may say what is in effect: {reason}")]
    Damaged { key: String, reason: String },
    #[error(
        "`{key}` cannot be read ({reason}), and `{kept_as}` already holds an earlier one; remove \
         it, or reset the autoscaler"
    )]
    AgainSetAside { key: &'static str, kept_as: String, reason: String },
}

/// The data to store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Written {
    pub data: Data,
    /// Number of the oldest samples that did not fit.
    pub dropped_samples: usize,
}

/// Even without samples, the state is larger than a ConfigMap may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the autoscaler's state is {length} characters long, more than the {LENGTH_MAX} that fit")]
pub struct TooLarge {
    pub length: usize,
}

/// Returns whether a state must be stored now. Everything that decisions depend on is stored at once. Samples are
/// stored only from time to time, because they can be measured again if they are lost.
pub fn is_due(
    before: &State,
    after: &State,
    stored_at: Option<Timestamp>,
    settings: &Settings,
    now: Timestamp,
) -> bool {
    let State { samples: _, scaling_history, reasons: _, restarts, overrides, config, delayed } =
        after;
    let is_same = (scaling_history, restarts, overrides)
        == (&before.scaling_history, &before.restarts, &before.overrides)
        && (config, delayed) == (&before.config, &before.delayed);
    let pause = settings.metrics_window / STORES_PER_WINDOW;
    !is_same || stored_at.is_none_or(|at| now >= later(at, pause) || now < at)
}

/// Reads the data of a ConfigMap.
///
/// # Errors
/// If no decision is possible until someone has checked the data.
pub fn read(data: &Data) -> Result<Stored, Unreadable> {
    read_damaged(data, &Data::new())
}

/// Reads data of which some is known to be damaged: the reason, by key.
///
/// # Errors
/// If no decision is possible until someone has checked the data.
pub fn read_damaged(data: &Data, damaged: &Data) -> Result<Stored, Unreadable> {
    // Damage in values that can be set aside is harmless; any other damaged value may say what is in force.
    let is_aside = |key: &str| [HISTORY, REASONS, TRACKING, SAMPLES, DELAYED].contains(&key);
    let in_force = damaged.iter().find(|(key, _)| !is_aside(key) && !key.ends_with(ASIDE));
    if let Some((key, reason)) = in_force {
        return Err(Unreadable::Damaged { key: key.clone(), reason: reason.clone() });
    }
    let in_force = |key| move |reason| Unreadable::InForce { key, reason };
    let get = |key: &str| data.get(key).map(String::as_str).unwrap_or_default();
    let mut stored = Stored::default();
    let state = &mut stored.state;
    state.overrides = read::parallelism(get(PARALLELISM)).map_err(in_force(PARALLELISM))?;
    state.config = read::config(get(CONFIG)).map_err(in_force(CONFIG))?;
    let known = [HISTORY, REASONS, TRACKING, SAMPLES, PARALLELISM, CONFIG, DELAYED];
    let others = data.iter().filter(|(key, _)| !known.contains(&key.as_str()));
    stored.kept = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    let read_or_aside = [
        (
            HISTORY,
            read::history(get(HISTORY))
                .map(|scaling_history| stored.state.scaling_history = scaling_history),
        ),
        (REASONS, read::reasons(get(REASONS)).map(|reasons| stored.state.reasons = reasons)),
        (TRACKING, read::tracking(get(TRACKING)).map(|of| stored.state.restarts = of)),
        (SAMPLES, read::samples(get(SAMPLES)).map(|samples| stored.state.samples = samples)),
        (DELAYED, read::delayed(get(DELAYED)).map(|delayed| stored.state.delayed = delayed)),
    ];
    for (key, read) in read_or_aside {
        let reason = match (damaged.get(key), read) {
            (Some(damage), _) => damage.clone(),
            (None, Err(reason)) => reason,
            (None, Ok(())) => continue,
        };
        match key {
            HISTORY => stored.state.scaling_history.clear(),
            REASONS => stored.state.reasons.clear(),
            TRACKING => stored.state.restarts.clear(),
            SAMPLES => stored.state.samples.clear(),
            _ => stored.state.delayed.0.clear(),
        }
        let kept_as = format!("{key}{ASIDE}");
        let value = get(key);
        if stored.kept.get(&kept_as).is_some_and(|earlier| earlier != value) {
            return Err(Unreadable::AgainSetAside { key, kept_as, reason });
        }
        stored.kept.insert(kept_as.clone(), value.to_owned());
        stored.set_aside.push(SetAside { key, kept_as, reason });
    }
    Ok(stored)
}

/// Reads what the Java program stores of a job in a database, if nothing else is stored of the job. Nothing is set
/// aside, because its table stays; tuned configuration is left out, because nothing restarts the job.
///
/// # Errors
/// If no decision is possible until someone has checked the data.
pub fn take_over(data: &Data) -> Result<Stored, Unreadable> {
    let wanted = [HISTORY, TRACKING, SAMPLES, PARALLELISM, DELAYED];
    let data = data.iter().filter(|(key, _)| wanted.contains(&key.as_str()));
    let data = data.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut stored = read(&data)?;
    stored.kept.clear();
    Ok(stored)
}

/// Writes the data of a ConfigMap, with as many of the newest samples as fit.
///
/// # Errors
/// If the rest alone is too large; then leave the stored data as it is.
pub fn write(stored: &Stored) -> Result<Written, TooLarge> {
    let State { samples, scaling_history, reasons, restarts, overrides, config, delayed } =
        &stored.state;
    let mut data = stored.kept.clone();
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            data.insert(key.to_owned(), value);
        }
    };
    set(HISTORY, write::history(scaling_history));
    set(REASONS, write::reasons(reasons));
    set(TRACKING, write::tracking(restarts));
    set(PARALLELISM, write::parallelism(overrides));
    set(CONFIG, write::config(config));
    set(DELAYED, write::delayed(delayed));
    let length: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
    let room = LENGTH_MAX.checked_sub(length + SAMPLES.len()).ok_or(TooLarge { length })?;
    let mut skipped = 0;
    while let Some(text) = write::samples(samples.iter().skip(skipped)) {
        if text.len() <= room {
            data.insert(SAMPLES.to_owned(), text);
            break;
        }
        // Skip only as many as are certainly too many, and at least one.
        let left = samples.len() - skipped;
        skipped += (left - left * room / text.len()).div_ceil(2).max(1);
    }
    Ok(Written { data, dropped_samples: skipped.min(samples.len()) })
}

#[cfg(test)]
mod tests;
