//! Signal handlers: SIGTERM and SIGINT shut the server down.

use tokio_util::sync::CancellationToken;

/// Begins to shut down at the first SIGTERM or SIGINT. A person at a terminal sends SIGINT: then nothing waits for
/// another replica to take over, and neither does it after a second signal.
pub(super) async fn shut_down(shutdown: CancellationToken, force: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot receive signals; the server will not shut down gracefully");
        return;
    };
    // Files are read again after SIGHUP. Until the first of them is followed, the signal would end the process.
    let _hangups = signal(SignalKind::hangup());
    let interrupted = tokio::select! {
        _ = terminate.recv() => false,
        _ = interrupt.recv() => true,
    };
    tracing::info!("shutting down; requests in flight finish first");
    shutdown.cancel();
    if !interrupted {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
    force.cancel();
}
