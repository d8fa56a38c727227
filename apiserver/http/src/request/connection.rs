//! Connection of a request: client identity, address and close signal, which all requests of the connection share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{Peer, PeerCertificate, User};
use apiserver_executor::FlushDeferral;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Interval at which a watch checks the client certificate of its connection. A watch whose certificate has lapsed must
/// end within a minute.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(30);

/// Connection that a request came on, as the filters see it.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Identity that its client certificate proves at the time of the request.
    pub peer: Arc<Peer>,
    /// Its client certificate, for a request that outlives that time.
    pub certificate: Option<Arc<PeerCertificate>>,
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

/// Completes when the client certificate of a connection has lapsed. Never completes without a certificate.
pub(crate) async fn lapse(certificate: Option<Arc<PeerCertificate>>) {
    let Some(certificate) = certificate else { return std::future::pending().await };
    loop {
        tokio::time::sleep(CERTIFICATE_CHECK).await;
        if certificate.peer().is_lapsed() {
            return;
        }
    }
}
