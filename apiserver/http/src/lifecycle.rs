//! The end, step by step, so that no client sees a broken connection.
//!
//! ```text
//! stopping  readiness fails, everything is served: whoever spreads the load takes us out
//! parting   the same, but connections of HTTP/1.1 end with the next answer on them
//! refusing  nothing new is accepted or begun; what runs is finished
//! ending    watches end, one after the other
//! ```

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Where on its way to the end the server is.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    stopping: CancellationToken,
    parting: CancellationToken,
    refusing: CancellationToken,
    force: CancellationToken,
    watch_grace: Duration,
}

impl Lifecycle {
    pub(crate) fn new(stopping: CancellationToken, force: CancellationToken, watch_grace: Duration) -> Self {
        let (parting, refusing) = (CancellationToken::new(), CancellationToken::new());
        Self { stopping, parting, refusing, force, watch_grace }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.parting.is_cancelled()
    }

    /// From now on clients are told to go elsewhere with their next request.
    pub(crate) fn start_draining(&self) {
        self.parting.cancel();
    }

    pub(crate) fn is_refusing(&self) -> bool {
        self.refusing.is_cancelled()
    }

    /// From now on nothing new is begun, and watches end.
    pub(crate) fn stop_accepting(&self) {
        self.refusing.cancel();
    }

    /// Waits until one watch has to end. Each draws its moment within the grace period: all their
    /// clients at once would be too much for the server that they go to.
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

/// A number in `[0, 1)`.
pub(crate) fn random_fraction() -> f64 {
    let [a, b, ..] = *uuid::Uuid::new_v4().as_bytes();
    f64::from(u16::from_be_bytes([a, b])) / 65_536.0
}
