//! Connection of a request: client identity, address and close signal, which all requests of the connection share.

use std::net::IpAddr;
use std::sync::Arc;

use apiserver_access::{Peer, User};
use apiserver_executor::FlushDeferral;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connection that a request came on, as the filters see it.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Identity that its client certificate proves.
    pub peer: Arc<Peer>,
    /// Caller inside this process, whose identity needs no proof: no network client can set this.
    pub internal: Option<Arc<User>>,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// Cancelled to close the connection after the responses in flight on it: `GOAWAY` in HTTP/2.
    pub close: CancellationToken,
    /// Responses in flight on it. Once this is closed, the connection takes no more requests.
    pub in_flight: TaskTracker,
    /// Handle that defers the flush of its writes, for responses that become ready together.
    pub flush: FlushDeferral,
}
