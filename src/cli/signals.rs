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
