//! Connections to the control plane endpoint while the control plane changes.

use std::time::Duration;

use tokio::net::TcpStream;

use super::observer::Observer;

/// Interval of the connections: an API server that stops is noticed in the time that its successor needs.
const INTERVAL: Duration = Duration::from_millis(20);

/// Connects to the endpoint again and again until the change is over. Returns the errors.
pub(super) async fn refused_during(observer: &Observer, change: impl Future<Output = ()>) -> Vec<String> {
    let cluster = observer.clusters().get("blue").await.unwrap();
    let endpoint = cluster.spec.control_plane_endpoint.unwrap();
    let address = format!("{}:{}", endpoint.host.unwrap(), endpoint.port.unwrap());
    let mut refused = Vec::new();
    tokio::pin!(change);
    loop {
        tokio::select! {
            () = &mut change => return refused,
            () = tokio::time::sleep(INTERVAL) => {
                refused.extend(TcpStream::connect(&address).await.err().map(|error| error.to_string()));
            }
        }
    }
}
