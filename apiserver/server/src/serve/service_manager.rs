//! Messages to the service manager that started the process: systemd with `Type=notify`. Without one, nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// Sends that the port is open, signs of life for the watchdog, and that the shutdown begins. systemd's watchdog ends with
/// that message.
pub(super) async fn report(shutdown: CancellationToken) {
    send(NotifyState::Ready);
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = keep_alive(sd_notify::watchdog_enabled()) => {}
    }
    send(NotifyState::Stopping);
}

/// Sends a sign of life twice in each period, which proves that the runtime schedules tasks. Never returns.
async fn keep_alive(period: Option<Duration>) {
    let Some(period) = period.filter(|period| !period.is_zero()) else { return std::future::pending().await };
    let mut interval = tokio::time::interval(period / 2);
    loop {
        interval.tick().await;
        send(NotifyState::Watchdog);
    }
}

fn send(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot send a message to the service manager");
    }
}
