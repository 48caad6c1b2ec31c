//! How a command that runs until it is ended hears of it.

/// Ends on Ctrl-C and on SIGTERM.
pub(super) async fn asked_to_stop() {
    let Ok(mut terminate) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Ends as well when the terminal goes, for commands that have something to tidy up.
pub(super) async fn asked_to_leave() {
    let kind = tokio::signal::unix::SignalKind::hangup();
    let Ok(mut hangup) = tokio::signal::unix::signal(kind) else { return asked_to_stop().await };
    tokio::select! {
        () = asked_to_stop() => {}
        _ = hangup.recv() => {}
    }
}
