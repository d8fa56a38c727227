//! The controllers, started in this process.

use std::sync::Arc;

use apiserver_access::User;
use apiserver_http::{ApiServer, InProcess};
use controllers_reconcilers::GarbageCollector;
use kube::api::ApiResource;
use tokio_util::sync::CancellationToken;

/// Group of all our own controllers; no certificate or token can bring it.
const GROUP: &str = "system:capstan:controllers";

/// Starts them; they end with `shutdown`.
pub(crate) fn start(server: &Arc<ApiServer>, shutdown: &CancellationToken) {
    let kinds = server.registry().resources().iter().map(|resource| ApiResource {
        group: resource.group.clone(),
        version: resource.version.clone(),
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
    });
    let collector = GarbageCollector::new(client(server, "garbage-collector"), kinds.collect());
    tokio::spawn(collector.run(shutdown.clone()));
}

/// A client that comes in by the front door as one controller.
fn client(server: &Arc<ApiServer>, controller: &str) -> kube::Client {
    let user = User::authenticated(format!("system:capstan:{controller}"), [GROUP.to_owned()]);
    kube::Client::new(InProcess::new(Arc::clone(server), user), "default")
}
