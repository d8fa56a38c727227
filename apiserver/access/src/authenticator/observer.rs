//! Observer of the client certificates that requests show.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::peer::PeerIdentity;

/// Observer of the client certificates in use.
pub trait CertificateObserver: Send + Sync + std::fmt::Debug + 'static {
    /// Notes a use. It is called for the first request of a connection, and then once a minute while requests come. It
    /// must not block.
    fn used(&self, certificate: &PeerIdentity);
}

/// Minute of the last report about a connection. Comparisons of certificates ignore it.
#[derive(Debug, Default)]
pub(crate) struct LastReport(AtomicU64);

impl Clone for LastReport {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl PartialEq for LastReport {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LastReport {}

impl LastReport {
    /// Returns true if this minute has no report yet, and notes one.
    pub(super) fn is_due(&self) -> bool {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // Zero is a certificate without a report.
        let minute = (seconds / 60).max(1);
        self.0.load(Ordering::Relaxed) != minute && self.0.swap(minute, Ordering::Relaxed) != minute
    }
}
