//! End of a term: calls in flight end, the controllers stop, and the Lease is released.

use jiff::Timestamp;
use kube::api::PostParams;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Election, NAME, Term, record, settled};

impl Election {
    /// Waits at an orderly shutdown until no call that changes a cloud is in flight, and renews the Lease until then. The
    /// wait is limited, and ends at once if the Lease is lost.
    pub(super) async fn drain(&self, renewed: &mut Instant, term: &Term) {
        tokio::select! {
            biased;
            ended = tokio::time::timeout(self.timing.drain, term.permit.calls().ended()) => if ended.is_err() {
                tracing::warn!("calls to a cloud did not end in time; the next leader waits for them");
            },
            () = self.keep(renewed, term) => {}
        }
    }

    /// Waits for the controllers to stop, and aborts those that do not.
    pub(super) async fn end(&self, mut controllers: JoinSet<()>) {
        let all = async { while controllers.join_next().await.is_some() {} };
        if tokio::time::timeout(self.timing.grace, all).await.is_err() {
            tracing::warn!(running = controllers.len(), "controllers did not stop in time; aborting them");
            controllers.shutdown().await;
        }
    }

    /// Releases the Lease if this candidate holds it, so that the next holder need not wait until it expires. Unless
    /// `is_drained`, the next holder waits for the calls of this one.
    pub(super) async fn release(&self, is_drained: bool) {
        match tokio::time::timeout(self.timing.grace, self.try_release(is_drained)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "could not release the controller lease; it expires")
            }
            Err(_) => {
                tracing::debug!("could not release the controller lease: no answer; it expires")
            }
        }
    }

    /// Releases the Lease once. A renewal that was in flight at shutdown may still be applied between the read and the
    /// write. Then the write conflicts, and both are repeated.
    async fn try_release(&self, is_drained: bool) -> Result<(), kube::Error> {
        loop {
            let lease = self.leases.get_opt(NAME).await?;
            let Some(lease) = lease.filter(|lease| record::is_held_by(lease, &self.identity)) else {
                return Ok(());
            };
            let lease = record::released(lease, is_drained, Timestamp::now());
            if settled(self.leases.replace(NAME, &PostParams::default(), &lease).await)?.is_some() {
                return Ok(());
            }
        }
    }
}
