//! The terminal of this process, passed through to a program elsewhere: each key goes there as it is
//! typed, and what it means is that program's.
//!
//! However the command ends, the terminal is as it was before: [`Raw`] gives it back when it is
//! dropped, and [`restore`] where nothing is dropped any more, in a panic that ends the process.

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal's former settings; absent while it is as it was.
static FORMER: Mutex<Option<Termios>> = Mutex::new(None);

/// As long as it lives, the terminal at stdin hands on keys without a look at them.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Sets the terminal at stdin.
    pub(super) fn enter() -> io::Result<Self> {
        let former = tcgetattr(io::stdin())?;
        let mut raw = former.clone();
        raw.make_raw();
        // Kept first: a panic between the two then sets what is set already.
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

/// Remembers how the terminal at stdin is set, for [`restore`], where somebody else changes it.
pub(super) fn keep() {
    if let Ok(former) = tcgetattr(io::stdin()) {
        FORMER.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(former);
    }
}

/// Sets the terminal at stdin back, if it was changed.
pub(super) fn restore() {
    let former = FORMER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(former) = former {
        // A terminal that is gone needs nothing any more.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &former);
    }
}

/// Columns and rows of the terminal at stdout.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
