//! Observation of the objects around a Machine.

use apiserver_types::{Cluster, Machine, OpenStackMachine};
use controllers_runtime::ReconcileError;
use kube::{Api, Client, ResourceExt};

use crate::ownership::{self, Adoption};

/// The one kind of infrastructure that is served.
pub(super) const INFRASTRUCTURE_KIND: &str = "OpenStackMachine";

/// Objects around a Machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub cluster: Option<Cluster>,
    /// The OpenStackMachine that the Machine names, unless another owner controls it.
    pub infrastructure: Option<OpenStackMachine>,
    /// Reason why the Machine cannot join its Cluster.
    pub obstacle: Option<String>,
    /// The bootstrap data has a name.
    pub bootstrapped: bool,
}

/// Reads the objects around a Machine.
pub(super) async fn observe(client: &Client, machine: &Machine) -> Result<Observed, ReconcileError> {
    let namespace = machine.namespace().unwrap_or_default();
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), &namespace);
    let api: Api<OpenStackMachine> = Api::namespaced(client.clone(), &namespace);
    let reference = &machine.spec.infrastructure_ref;
    let infrastructure = match reference.kind.as_str() {
        INFRASTRUCTURE_KIND => api.get_opt(&reference.name).await?,
        _ => None,
    };
    let cluster = clusters.get_opt(&machine.spec.cluster_name).await?;
    let data_secret = machine.spec.bootstrap.data_secret_name.as_deref();
    let mut observed = Observed {
        cluster,
        infrastructure,
        obstacle: None,
        bootstrapped: data_secret.is_some_and(|name| !name.is_empty()),
    };
    observed.find_obstacle(machine);
    Ok(observed)
}

impl Observed {
    /// Reports whether the server was complete once.
    pub(super) fn provisioned(&self) -> bool {
        let status = self.infrastructure.as_ref().and_then(|it| it.status.as_ref());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.provisioned) == Some(true)
    }

    fn find_obstacle(&mut self, machine: &Machine) {
        let Some(cluster) = &self.cluster else {
            self.obstacle = Some(format!("Cluster {} does not exist", machine.spec.cluster_name));
            return;
        };
        let (owner, name) = (ownership::reference(machine, true), cluster.name_any());
        let adoption = self.infrastructure.as_ref().map(|it| ownership::adoption(it, &owner, &name));
        if let Some(Adoption::Refused(message)) = adoption {
            self.obstacle = Some(message);
            self.infrastructure = None;
        }
    }
}
