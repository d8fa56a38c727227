//! What a Cluster is decided from.

use apiserver_types::{Cluster, Machine, OpenStackCluster};
use controllers_runtime::ReconcileError;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::descendants::{self, Descendant};
use crate::{CLUSTER_NAME_LABEL, ownership};

/// Label of control plane Machines.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// The one kind of infrastructure there is.
pub(super) const INFRASTRUCTURE_KIND: &str = "OpenStackCluster";

/// What there is around a Cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub infrastructure: Option<OpenStackCluster>,
    pub control_plane: Vec<Machine>,
    pub workers: Vec<Machine>,
    /// Objects that are deleted before the Cluster. Listed only while it is being deleted.
    pub descendants: Vec<Descendant>,
}

/// Looks.
pub(super) async fn look(client: &Client, cluster: &Cluster) -> Result<Observed, ReconcileError> {
    let namespace = cluster.namespace().unwrap_or_default();
    let reference = cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == INFRASTRUCTURE_KIND);
    let api: Api<OpenStackCluster> = Api::namespaced(client.clone(), &namespace);
    let infrastructure = match reference {
        Some(reference) => api.get_opt(&reference.name).await?,
        None => None,
    };
    let api: Api<Machine> = Api::namespaced(client.clone(), &namespace);
    let name = cluster.name_any();
    // By the spec and not by the label: a Machine nobody has labelled yet belongs here too.
    let machines = api.list(&ListParams::default()).await?.into_iter();
    let machines = machines.filter(|machine| {
        machine.spec.cluster_name == name
            || machine.labels().get(CLUSTER_NAME_LABEL) == Some(&name)
            || ownership::is_owned(machine, cluster)
    });
    let (control_plane, workers) =
        machines.partition(|machine| machine.labels().contains_key(CONTROL_PLANE_LABEL));
    let mut observed = Observed { infrastructure, control_plane, workers, descendants: Vec::new() };
    if cluster.metadata.deletion_timestamp.is_some() {
        observed.descendants = descendants::list(client, cluster).await?;
        let machines = descendants::of_machines(&observed.control_plane, &observed.workers);
        observed.descendants.extend(machines);
    }
    Ok(observed)
}

impl Observed {
    /// Whether the infrastructure was complete once.
    pub(super) fn provisioned(&self) -> bool {
        let status = self.infrastructure.as_ref().and_then(|it| it.status.as_ref());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.provisioned) == Some(true)
    }
}
