//! Times at which files are read again: regularly, and at once after SIGHUP.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Times at which one task reads its files again.
#[derive(Debug)]
pub(crate) struct Rereads {
    interval: Duration,
    /// Signals since the last one that this task has seen; none if the process cannot receive them.
    hangups: Option<Signal>,
}

impl Rereads {
    /// Creates the times. Signals count from now on.
    pub(crate) fn every(interval: Duration) -> Self {
        Self { interval, hangups: signal(SignalKind::hangup()).ok() }
    }

    /// Waits for the interval, or for a signal.
    ///
    /// Cancel safety: no signal is lost.
    pub(crate) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangups {
                Some(hangups) => hangups.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hangup => {}
            () = tokio::time::sleep(self.interval) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_between_two_waits_ends_the_next_one_at_once() {
        let mut rereads = Rereads::every(Duration::from_secs(3600));
        let own = std::process::id().to_string();
        let kill = std::process::Command::new("kill").args(["-HUP", &own]).status().unwrap();
        assert!(kill.success());
        tokio::time::timeout(Duration::from_secs(10), rereads.next()).await.unwrap();
        let second = tokio::time::timeout(Duration::from_millis(50), rereads.next()).await;
        assert!(second.is_err(), "one signal ends two waits");
    }
}
