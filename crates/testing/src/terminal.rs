//! A terminal for programs that require one.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Returns the end that a person sees and types at, and the one for programs.
pub fn terminal() -> (OwnedFd, OwnedFd) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let path = ptsname(&person, Vec::new()).unwrap();
    let program = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (person, program)
}
