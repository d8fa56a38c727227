//! What a Machine is decided from.

use apiserver_types::{Cluster, Machine, OpenStackMachine};
use controllers_runtime::ReconcileError;
use kube::{Api, Client, ResourceExt};

/// The one kind of infrastructure there is.
pub(super) const INFRASTRUCTURE_KIND: &str = "OpenStackMachine";

/// What there is around a Machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub cluster: Option<Cluster>,
    pub infrastructure: Option<OpenStackMachine>,
    /// Whether the bootstrap data has a name.
    pub bootstrapped: bool,
}

/// Looks.
pub(super) async fn look(client: &Client, machine: &Machine) -> Result<Observed, ReconcileError> {
    let namespace = machine.namespace().unwrap_or_default();
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), &namespace);
    let infrastructure: Api<OpenStackMachine> = Api::namespaced(client.clone(), &namespace);
    let reference = &machine.spec.infrastructure_ref;
    let infrastructure = match reference.kind.as_str() {
        INFRASTRUCTURE_KIND => infrastructure.get_opt(&reference.name).await?,
        _ => None,
    };
    Ok(Observed {
        cluster: clusters.get_opt(&machine.spec.cluster_name).await?,
        infrastructure,
        bootstrapped: machine.spec.bootstrap.data_secret_name.as_deref().is_some_and(|name| !name.is_empty()),
    })
}

impl Observed {
    /// Whether the server was complete once.
    pub(super) fn provisioned(&self) -> bool {
        let status = self.infrastructure.as_ref().and_then(|it| it.status.as_ref());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.provisioned) == Some(true)
    }
}
