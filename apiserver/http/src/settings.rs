//! Settings of the HTTP server.

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::SystemMasters;
use apiserver_machinery::admission_control::AdmissionControl;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::documents::IssuerDocuments;
use crate::download_endpoint::DownloadEndpoint;
use crate::flow_control::FlowControl;
use crate::known_host::KnownHost;
use crate::observe::audit::AuditLog;
use crate::token_endpoint::TokenEndpoint;

/// Read requests in flight: upstream's limit, proved on control planes of every size.
const READS_AT_ONCE: usize = 400;

/// Write requests in flight: upstream's limit.
const WRITES_AT_ONCE: usize = 200;

/// Reason of a failed readiness check that anybody may read: the response of a health path has it.
#[derive(Clone)]
pub struct CheckReason {
    /// Name of the check.
    pub name: &'static str,
    /// Returns the reason, if it is known. It must not block, and nothing in it may be secret.
    pub reason: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

impl std::fmt::Debug for CheckReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckReason").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Settings of a server. By default it serves as upstream does, without an audit log, and shuts down at once.
#[derive(Debug)]
pub struct Settings {
    /// Maximum number of read requests in flight, without watches.
    pub reads_at_once: usize,
    /// Maximum number of write requests in flight.
    pub writes_at_once: usize,
    /// True if requests through a host cluster have seats of their own, so that neither endpoint delays the other. The
    /// numbers above are then those of both together.
    pub has_host: bool,
    /// Host cluster that names users of requests on the direct endpoint. Default: none.
    pub host: Option<Arc<dyn KnownHost>>,
    /// Audit log, if there is one.
    pub audit: Option<AuditLog>,
    /// Fraction of the requests over HTTP/2 after which the connection is closed, so that clients spread over servers
    /// again. Upstream allows 0 to 0.02.
    pub goaway_chance: f64,
    /// True if a user needs the permission `use` on each object whose rights an object of the user exercises.
    pub requires_use: bool,
    /// True if a user needs the permission `get` on each Secret that an object of the user names, and whose content the
    /// server's controllers use for it. `None` requires it of all users except those who come through a host cluster.
    pub requires_secret_read: Option<bool>,
    /// Users of the group `system:masters` whose requests need no seat. Default: all of them.
    pub system_masters: SystemMasters,
    /// Time for which everything is served after the shutdown has begun, while readiness fails.
    pub shutdown_delay: Duration,
    /// Time over which the ends of watches are spread after that.
    pub watch_grace: Duration,
    /// Token that cuts both short.
    pub force: CancellationToken,
    /// Names of this server in tokens.
    pub audiences: Vec<String>,
    /// Documents of the issuer of the service accounts' tokens. Default: none.
    pub issuer: Option<Arc<dyn IssuerDocuments>>,
    /// Endpoint that admits requests by a token in their body. Default: none.
    pub token_endpoint: Option<Arc<dyn TokenEndpoint>>,
    /// Endpoints whose response is a file. Default: none.
    pub download_endpoints: Vec<Arc<dyn DownloadEndpoint>>,
    /// Configurations that change or refuse writes. Default: none.
    pub admission: Option<Arc<dyn AdmissionControl>>,
    /// Reasons of failed readiness checks. Default: none, so that the response withholds each reason, as upstream's does.
    pub check_reasons: Vec<CheckReason>,
    /// Registry with metrics of other parts of the process, which are served with these.
    pub metrics: Registry,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reads_at_once: READS_AT_ONCE,
            writes_at_once: WRITES_AT_ONCE,
            has_host: false,
            host: None,
            audit: None,
            goaway_chance: 0.0,
            requires_use: false,
            requires_secret_read: Some(false),
            system_masters: SystemMasters::default(),
            shutdown_delay: Duration::ZERO,
            watch_grace: Duration::ZERO,
            force: CancellationToken::new(),
            audiences: Vec::new(),
            issuer: None,
            token_endpoint: None,
            download_endpoints: Vec::new(),
            admission: None,
            check_reasons: Vec::new(),
            metrics: Registry::default(),
        }
    }
}

impl Settings {
    pub(crate) fn flow_control(&self) -> FlowControl {
        let new = if self.has_host { FlowControl::of_two_endpoints } else { FlowControl::new };
        new(self.reads_at_once, self.writes_at_once)
    }
}
