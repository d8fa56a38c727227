//! Objects of a Cluster without a topology whose versions an upgrade changes.

use apiserver_types::{Cluster, KubeadmControlPlane, Machine, MachineDeployment};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};

use super::super::blueprint::value;
use super::super::current;
use super::super::metadata::{DEFER, HOLD};
use super::super::upgrade::{control_plane, workers};
use super::{BLOCKED, CONTROL_PLANE};
use crate::CLUSTER_NAME_LABEL;
use crate::machine_labels::DEPLOYMENT_NAME;
use crate::machine_versions::parse;

/// Control plane and workers of a Cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub control_plane: KubeadmControlPlane,
    /// Those with a version, in the order of their names.
    pub deployments: Vec<Deployment>,
}

/// MachineDeployment of a Cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Deployment {
    pub object: MachineDeployment,
    /// A Machine has another version than the MachineDeployment.
    pub is_upgrading: bool,
}

impl Deployment {
    /// Returns the version of new Machines.
    pub(super) fn version(&self) -> &str {
        self.object.spec.template.spec.version.as_deref().unwrap_or_default()
    }
}

impl Observed {
    /// Returns the state of the control plane for the decision on versions.
    pub(super) fn state(&self) -> control_plane::State {
        current::state(&value(&self.control_plane))
    }

    /// Returns the states of the workers for the decision on versions.
    pub(super) fn groups(&self) -> Vec<workers::Group> {
        let of = |deployment: &Deployment| {
            let (name, annotations) = (deployment.object.name_any(), deployment.object.annotations());
            workers::Group {
                topology_name: name.clone(),
                object: name,
                version: Some(deployment.version().to_owned()),
                is_upgrading: deployment.is_upgrading,
                defers: annotations.contains_key(DEFER),
                holds: annotations.contains_key(HOLD),
            }
        };
        self.deployments.iter().map(of).collect()
    }

    /// Returns the MachineDeployment of this name.
    pub(super) fn deployment(&self, name: &str) -> Option<&Deployment> {
        self.deployments.iter().find(|it| it.object.metadata.name.as_deref() == Some(name))
    }

    /// Checks that no worker is newer than the control plane. The versions of an upgrade are those of the control plane, so
    /// that such workers would go down.
    ///
    /// # Errors
    /// The first one that is newer. For people.
    pub(super) fn check(&self) -> Result<(), String> {
        let highest = &self.control_plane.spec.version;
        match self.deployments.iter().find(|it| parse(it.version()) > parse(highest)) {
            Some(newer) => Err(format!(
                "MachineDeployment {} has version {}, and the control plane {} only has {highest}. Workers must \
                 not be newer than the control plane. Upgrade the control plane first",
                newer.object.name_any(),
                newer.version(),
                self.control_plane.name_any()
            )),
            None => Ok(()),
        }
    }
}

/// Reads the objects of a Cluster.
///
/// # Errors
/// The Cluster has no control plane that can be upgraded, or the API's own failure.
pub(super) async fn read(context: &ControllerContext, cluster: &Cluster) -> Result<Observed, ReconcileError> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let blocked = |message: String| ReconcileError::waiting(BLOCKED, message);
    let group = KubeadmControlPlane::group(&());
    let reference = cluster.spec.control_plane_ref.as_ref();
    let reference = reference.filter(|it| it.kind == CONTROL_PLANE && it.api_group == group);
    let Some(reference) = reference else {
        return Err(blocked(format!(
            "spec.controlPlaneRef of Cluster {namespace}/{name} names no {CONTROL_PLANE}, and no other control \
             plane has an upgrade here"
        )));
    };
    let api: Api<KubeadmControlPlane> = Api::namespaced(context.client.clone(), &namespace);
    let Some(control_plane) = api.get_opt(&reference.name).await? else {
        let found = format!("{CONTROL_PLANE} {namespace}/{}", reference.name);
        return Err(blocked(format!("{found} of spec.controlPlaneRef does not exist")));
    };
    let api: Api<MachineDeployment> = Api::namespaced(context.client.clone(), &namespace);
    let mut found = api.list(&ListParams::default()).await?.items;
    found.retain(|it| {
        let is_going = it.metadata.deletion_timestamp.is_some();
        it.spec.cluster_name == name && !is_going && it.spec.template.spec.version.is_some()
    });
    found.sort_by_key(ResourceExt::name_any);
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let of_cluster = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={name}"));
    let machines = if found.is_empty() { Vec::new() } else { api.list(&of_cluster).await?.items };
    let deployments = found.into_iter().map(|object| deployment(object, &machines)).collect();
    Ok(Observed { control_plane, deployments })
}

fn deployment(object: MachineDeployment, machines: &[Machine]) -> Deployment {
    let found = Deployment { object, is_upgrading: false };
    let name = found.object.name_any();
    let own = machines.iter().filter(|it| it.labels().get(DEPLOYMENT_NAME) == Some(&name));
    let is_upgrading = current::is_upgrading(found.version(), own);
    Deployment { is_upgrading, ..found }
}
