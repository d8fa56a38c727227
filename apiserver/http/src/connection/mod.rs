//! What is known of a connection, once, for all its requests.

pub(crate) mod drain_on_drop;
pub(crate) mod http1_error_body;
pub(crate) mod http2_driver;
pub(crate) mod in_flight_body;
pub(crate) mod lingering_close;
pub(crate) mod listener;
pub(crate) mod request_validation;
pub(crate) mod tls;
pub(crate) mod write_coalescer;

use std::net::IpAddr;
use std::sync::Arc;

use apiserver_access::{Peer, User};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Who is at the other end.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// What its client certificate proves.
    pub peer: Arc<Peer>,
    /// A caller inside this process, whose identity needs no proof: no network can set this.
    pub internal: Option<Arc<User>>,
    /// Where it comes from.
    pub address: Option<IpAddr>,
    /// Cancelled to have it closed after what is being answered on it: `GOAWAY` in HTTP/2.
    pub close: CancellationToken,
    /// What is being answered on it. Once this is closed, nothing more is taken.
    pub in_flight: TaskTracker,
}
