//! Observation of the objects around a Cluster.

use apiserver_types::{Cluster, Machine, OpenStackCluster};
use controllers_runtime::ReconcileError;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::descendants::{self, Descendant};
use crate::CLUSTER_NAME_LABEL;
use crate::ownership::{self, Adoption};

/// Label of control plane Machines.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// The one kind of infrastructure that is served.
pub(super) const INFRASTRUCTURE_KIND: &str = "OpenStackCluster";

/// Objects around a Cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// The OpenStackCluster that the Cluster names, unless another owner controls it.
    pub infrastructure: Option<OpenStackCluster>,
    /// Reason why the OpenStackCluster that the Cluster names does not belong to it.
    pub refused: Option<String>,
    pub control_plane: Vec<Machine>,
    pub workers: Vec<Machine>,
    /// Objects that are deleted before the Cluster. Listed only while it is being deleted.
    pub descendants: Vec<Descendant>,
}

/// Reads the objects around a Cluster.
pub(super) async fn observe(client: &Client, cluster: &Cluster) -> Result<Observed, ReconcileError> {
    let mut observed = Observed::default();
    infrastructure(client, cluster, &mut observed).await?;
    machines(client, cluster, &mut observed).await?;
    if cluster.metadata.deletion_timestamp.is_some() {
        observed.descendants = descendants::list(client, cluster).await?;
        let machines = descendants::of_machines(&observed.control_plane, &observed.workers);
        observed.descendants.extend(machines);
    }
    Ok(observed)
}

async fn infrastructure(
    client: &Client,
    cluster: &Cluster,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let reference = cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == INFRASTRUCTURE_KIND);
    let Some(reference) = reference else { return Ok(()) };
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<OpenStackCluster> = Api::namespaced(client.clone(), &namespace);
    let Some(found) = api.get_opt(&reference.name).await? else { return Ok(()) };
    match ownership::adoption(&found, &ownership::reference(cluster, true), &cluster.name_any()) {
        Adoption::Refused(message) => observed.refused = Some(message),
        Adoption::Complete | Adoption::Due => observed.infrastructure = Some(found),
    }
    Ok(())
}

async fn machines(client: &Client, cluster: &Cluster, observed: &mut Observed) -> Result<(), ReconcileError> {
    let api: Api<Machine> = Api::namespaced(client.clone(), &cluster.namespace().unwrap_or_default());
    let name = cluster.name_any();
    // By the spec as well as by the label: a Machine that no controller has labelled yet counts too.
    let belongs = |machine: &Machine| {
        machine.spec.cluster_name == name
            || machine.labels().get(CLUSTER_NAME_LABEL) == Some(&name)
            || ownership::is_owned(machine, cluster)
    };
    let machines = api.list(&ListParams::default()).await?.into_iter().filter(belongs);
    (observed.control_plane, observed.workers) =
        machines.partition(|machine| machine.labels().contains_key(CONTROL_PLANE_LABEL));
    Ok(())
}

impl Observed {
    /// Reports whether the infrastructure was complete once.
    pub(super) fn provisioned(&self) -> bool {
        let status = self.infrastructure.as_ref().and_then(|it| it.status.as_ref());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.provisioned) == Some(true)
    }
}
