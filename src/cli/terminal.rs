//! The terminal of this process in raw mode, for a remote program: each key is passed on as it is typed, and the remote
//! program interprets it.
//!
//! The terminal is restored however the command ends: [`Raw`] does it when it is dropped, and [`restore`] if nothing is
//! dropped any more, in a panic that aborts the process.

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal's original settings; `None` while they are unchanged.
static FORMER: Mutex<Option<Termios>> = Mutex::new(None);

/// Keeps the terminal at stdin in raw mode until it is dropped.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Switches the terminal at stdin to raw mode.
    pub(super) fn enter() -> io::Result<Self> {
        let former = tcgetattr(io::stdin())?;
        let mut raw = former.clone();
        raw.make_raw();
        // Stored first, so that a panic between the two calls only restores what is already set.
        FORMER.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(former);
        let guard = Self(());
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(guard)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Stores the settings of the terminal at stdin for [`restore`], if other code will change them.
pub(super) fn keep() {
    if let Ok(former) = tcgetattr(io::stdin()) {
        FORMER.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(former);
    }
}

/// Restores the terminal at stdin if it was changed.
pub(super) fn restore() {
    let former = FORMER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(former) = former {
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &former);
    }
}

/// Returns columns and rows of the terminal at stdout.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
