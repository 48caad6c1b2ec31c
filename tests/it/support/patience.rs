//! How long a test waits for what should happen.

use std::time::Duration;

use clients::flink::Deadlines;

/// Maximum wait for anything that is expected to happen. It only ends a test that hangs: what works never takes that
/// long, however slow or busy the machine is. A test that has to sit out a time limit of the program gives it a short
/// one, which nothing else in the test depends on. `tests/mutations.sh` builds tests that soon give up, because many
/// of them notice a missing guard by what never happens.
pub(crate) const PATIENCE: Duration = match option_env!("KUBECTL_FLINK_TEST_IMPATIENT") {
    None => Duration::from_mins(30),
    Some(_) => Duration::from_mins(2),
};

/// A time limit of the program that must never be reached, as an option or an argument. It is longer than
/// [`PATIENCE`], so that a test that hangs tells what it was waiting for.
pub(crate) const BEYOND_PATIENCE: &str = "1h";

/// Deadlines of a client whose calls are expected to succeed.
pub(crate) const DEADLINES: Deadlines =
    Deadlines { request: PATIENCE, cancel: PATIENCE, submission: PATIENCE, savepoint: PATIENCE };
