//! Signals that end long-running commands.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Waits for Ctrl-C or SIGTERM.
pub(super) async fn asked_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Signals received since this was created, for commands that have to clean up. None is lost while no one waits.
#[derive(Debug)]
pub(super) struct Signals(watch::Receiver<Heard>);

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// How often Ctrl-C was pressed.
    interrupts: usize,
    /// By SIGTERM, or because the terminal was closed.
    is_told_to_leave: bool,
}

impl Signals {
    /// Starts to listen, until this is dropped.
    pub(super) fn listen() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let (sender, heard) = watch::channel(Heard::default());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    Some(()) = interrupt.recv() => sender.send_modify(|heard| heard.interrupts += 1),
                    Some(()) = terminate.recv() => sender.send_modify(Heard::leave),
                    Some(()) = hangup.recv() => sender.send_modify(Heard::leave),
                    else => return,
                }
            }
        });
        Ok(Self(heard))
    }

    /// Returns how often Ctrl-C was pressed so far.
    pub(super) fn interrupts(&self) -> usize {
        self.0.borrow().interrupts
    }

    /// Waits until Ctrl-C was pressed more than `interrupts` times, or the process must end.
    pub(super) async fn after(&self, interrupts: usize) {
        let came = |heard: &Heard| heard.is_told_to_leave || heard.interrupts > interrupts;
        if self.0.clone().wait_for(came).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Heard {
    fn leave(&mut self) {
        self.is_told_to_leave = true;
    }
}
