//! If `job.autoscaler.advice.first-window` is true, a job that is new to the autoscaler is not scaled at once: over its
//! first window, decisions are reported but not carried out.
//!
//! A job with stored history, such as one from the Java operator, is not new.

use std::time::Duration;

use jiff::Timestamp;

use super::settings::Settings;
use super::state::Data;
use super::window::later;

/// Key in the stored state, which the Java operator ignores.
pub const KEY: &str = "adviceUntil";

/// Returns until when a job that is new now is only advised: one window for the first figures, and one in which
/// decisions are reported.
pub fn begin(now: Timestamp, settings: &Settings) -> Option<Timestamp> {
    let windows = settings.metrics_window.saturating_mul(2);
    let until = || later(now, settings.stabilization.saturating_add(windows));
    settings.is_first_window_advised.then(until)
}

/// Returns until when the job is only advised, as stored; `None` if it is scaled. An invalid time is ignored.
pub fn until(kept: &Data, now: Timestamp) -> Option<Timestamp> {
    let until: Timestamp = kept.get(KEY)?.parse().ok()?;
    // A time beyond any window was not written by this program.
    let longest = Duration::from_hours(24 * 365);
    (now < until && until <= later(now, longest)).then_some(until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn advice_is_over_after_the_second_window() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let until_then = begin(now, &settings(&[("advice.first-window", "true")])).unwrap();
        assert_eq!(until_then.to_string(), "2026-01-01T00:35:00Z");
        let kept = Data::from([(KEY.to_owned(), until_then.to_string())]);
        assert_eq!(until(&kept, now), Some(until_then));
        assert_eq!(until(&kept, until_then), None);
    }

    #[test]
    fn a_new_job_is_scaled_from_its_first_window_on_unless_advice_is_asked_for() {
        assert_eq!(begin("2026-01-01T00:00:00Z".parse().unwrap(), &settings(&[])), None);
    }

    #[test]
    fn what_is_stored_and_no_such_time_means_nothing() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for text in ["", "soon", "9999-01-01T00:00:00Z"] {
            assert_eq!(
                until(&Data::from([(KEY.to_owned(), text.to_owned())]), now),
                None,
                "{text}"
            );
        }
        assert_eq!(until(&Data::new(), now), None);
    }
}
