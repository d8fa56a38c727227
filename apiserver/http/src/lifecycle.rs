//! Graceful shutdown, in steps, so that no client sees a broken connection.
//!
//! ```text
//! stopping  readiness fails, everything is served: load balancers take this server out
//! draining  the same, and each connection of HTTP/1.1 closes with its next response
//! refusing  new connections and requests are refused; requests in flight are finished
//! ending    watches end, one after the other
//! ```

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// State of the shutdown.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    stopping: CancellationToken,
    draining: CancellationToken,
    refusing: CancellationToken,
    force: CancellationToken,
    watch_grace: Duration,
}

impl Lifecycle {
    pub(crate) fn new(stopping: CancellationToken, force: CancellationToken, watch_grace: Duration) -> Self {
        let (draining, refusing) = (CancellationToken::new(), CancellationToken::new());
        Self { stopping, draining, refusing, force, watch_grace }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Starts to close each connection of HTTP/1.1 with its next response.
    pub(crate) fn start_draining(&self) {
        self.draining.cancel();
    }

    pub(crate) fn is_refusing(&self) -> bool {
        self.refusing.is_cancelled()
    }

    /// Refuses new requests from now on, and ends watches.
    pub(crate) fn stop_accepting(&self) {
        self.refusing.cancel();
    }

    /// Waits until a watch has to end. Each watch ends at a random moment of the grace period: all their clients at
    /// once would overload the server that they reconnect to.
    pub(crate) fn watch_over(&self) -> impl Future<Output = ()> + Send + 'static {
        let (refusing, force, grace) = (self.refusing.clone(), self.force.clone(), self.watch_grace);
        async move {
            refusing.cancelled().await;
            tokio::select! {
                () = force.cancelled() => {}
                () = tokio::time::sleep(grace.mul_f64(random_fraction())) => {}
            }
        }
    }
}

/// Returns a random number in `[0, 1)`.
pub(crate) fn random_fraction() -> f64 {
    let [a, b, ..] = *uuid::Uuid::new_v4().as_bytes();
    f64::from(u16::from_be_bytes([a, b])) / 65_536.0
}
