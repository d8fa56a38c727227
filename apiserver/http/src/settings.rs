//! What may be set of a server.

use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::observe::audit::AuditLog;

/// Reading requests served at once: upstream's number, proved on control planes of every size.
const READS_AT_ONCE: usize = 400;

/// Changing requests served at once, likewise.
const WRITES_AT_ONCE: usize = 200;

/// What may be set. The default serves as upstream does, keeps no audit log, and ends at once.
#[derive(Debug)]
pub struct Settings {
    /// Reading requests served at once, watches not counted.
    pub reads_at_once: usize,
    /// Changing requests served at once.
    pub writes_at_once: usize,
    /// Where requests are written down.
    pub audit: Option<AuditLog>,
    /// The part of the requests over HTTP/2 after which the connection is closed, so that clients spread
    /// over servers anew. Upstream allows 0 to 0.02.
    pub goaway_chance: f64,
    /// How long everything is served after the server was told to end, with readiness failing.
    pub shutdown_delay: Duration,
    /// Over how long the ends of watches are spread after that.
    pub watch_grace: Duration,
    /// Cancelled to cut both short.
    pub force: CancellationToken,
    /// Metrics of others that are served with ours.
    pub metrics: Registry,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reads_at_once: READS_AT_ONCE,
            writes_at_once: WRITES_AT_ONCE,
            audit: None,
            goaway_chance: 0.0,
            shutdown_delay: Duration::ZERO,
            watch_grace: Duration::ZERO,
            force: CancellationToken::new(),
            metrics: Registry::default(),
        }
    }
}
