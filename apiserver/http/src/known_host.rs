//! Host cluster behind the users of its realm.

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::Realm;
use futures::future::BoxFuture;

use crate::request::Call;

/// Interval at which the host behind a watch is checked. The watch must end within a minute, as one does after its client
/// certificate.
const CHECK: Duration = Duration::from_secs(30);

/// Host cluster that names users.
pub trait KnownHost: Send + Sync + std::fmt::Debug + 'static {
    /// Returns false while another cluster answers at the address of the known one. The check must not block.
    fn is_known(&self) -> bool;
}

/// Completes when another cluster answers in place of the one that named the user of a watch. Its users are other people,
/// and a new request with the same token gets 401. Never completes for other users, and for requests through the front
/// proxy, whose certificate still names the known cluster.
pub(crate) fn is_replaced(host: Option<&Arc<dyn KnownHost>>, call: &Call) -> BoxFuture<'static, ()> {
    let is_of_host = call.user.realm == Realm::Host && !call.proxied;
    let Some(host) = host.filter(|_| is_of_host).cloned() else {
        return Box::pin(std::future::pending());
    };
    Box::pin(async move {
        while host.is_known() {
            tokio::time::sleep(CHECK).await;
        }
    })
}
