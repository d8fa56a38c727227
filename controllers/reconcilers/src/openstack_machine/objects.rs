//! Objects that have a server: OpenStackMachines, and OpenStackServers in the form of an OpenStackMachine.
//!
//! Both kinds have the same parts in the cloud, so one set of passes serves both. Only what is written differs.

use apiserver_types::{
    FlavorParam, Initialization, MachineResources, NameFilter, OpenStackMachine, OpenStackMachineSpec,
    OpenStackMachineStatus, OpenStackServer, OpenStackServerStatus, ResolvedMachineSpec, ResolvedServerSpec,
    ServerResources,
};
use controllers_runtime::{OwnershipTag, ReconcileError, Recorder, Severity, write_status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::{finalizers, ownership};

/// Annotation of an OpenStackServer with its provider id. It says that the server was complete once.
const PROVIDER_ID: &str = "capstan.dev/provider-id";

/// API of the objects of one kind in a namespace.
#[derive(Debug, Clone)]
pub(super) enum ServerObjects {
    /// OpenStackMachines.
    Machines(Api<OpenStackMachine>),
    /// OpenStackServers.
    Servers(Api<OpenStackServer>),
}

impl ServerObjects {
    /// Returns the API of OpenStackMachines.
    pub(super) fn machines(client: &Client, namespace: &str) -> Self {
        Self::Machines(Api::namespaced(client.clone(), namespace))
    }

    /// Returns the API of OpenStackServers.
    pub(super) fn servers(client: &Client, namespace: &str) -> Self {
        Self::Servers(Api::namespaced(client.clone(), namespace))
    }

    /// Returns the finalizer that keeps an object until its cloud resources are deleted. Upstream's names.
    pub(super) fn finalizer(&self) -> &'static str {
        match self {
            Self::Machines(_) => super::FINALIZER,
            Self::Servers(_) => "openstackserver.infrastructure.cluster.x-k8s.io",
        }
    }

    /// Reads an object.
    pub(super) async fn get(&self, name: &str) -> Result<Option<OpenStackMachine>, kube::Error> {
        Ok(match self {
            Self::Machines(api) => api.get_opt(name).await?,
            Self::Servers(api) => api.get_opt(name).await?.as_ref().map(form),
        })
    }

    /// Patches an object.
    pub(super) async fn patch(&self, name: &str, change: &Value) -> Result<OpenStackMachine, kube::Error> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(change));
        match self {
            Self::Machines(api) => api.patch(name, &params, &patch).await,
            Self::Servers(api) => Ok(form(&api.patch(name, &params, &patch).await?)),
        }
    }

    /// Writes the provider id of an object.
    pub(super) async fn set_provider_id(
        &self,
        object: &OpenStackMachine,
        id: &str,
    ) -> Result<OpenStackMachine, kube::Error> {
        let version = object.resource_version();
        let change = match self {
            Self::Machines(_) => {
                json!({"metadata": {"resourceVersion": version}, "spec": {"providerID": id}})
            }
            Self::Servers(_) => {
                json!({"metadata": {"resourceVersion": version, "annotations": {PROVIDER_ID: id}}})
            }
        };
        self.patch(&object.name_any(), &change).await
    }

    /// Writes the status of an object if it differs.
    pub(super) async fn write_status(
        &self,
        before: &OpenStackMachine,
        after: &OpenStackMachine,
    ) -> Result<OpenStackMachine, ReconcileError> {
        match self {
            Self::Machines(api) => write_status(api, before, after).await,
            Self::Servers(_) if before == after => Ok(before.clone()),
            Self::Servers(api) => {
                let Some(stored) = api.get_opt(&after.name_any()).await? else { return Ok(after.clone()) };
                let mut changed = stored.clone();
                // Guarded by the revision that the pass has worked on.
                changed.metadata.resource_version.clone_from(&after.metadata.resource_version);
                changed.status = Some(server_status(after));
                Ok(form(&write_status(api, &stored, &changed).await?))
            }
        }
    }

    /// Adds the finalizer if it is not there.
    pub(super) async fn add_finalizer(&self, object: &mut OpenStackMachine) -> Result<(), ReconcileError> {
        match self {
            Self::Machines(api) => finalizers::add_with_tag(api, object, self.finalizer()).await,
            Self::Servers(api) => {
                let mut server = stored(object);
                finalizers::add_with_tag(api, &mut server, self.finalizer()).await?;
                if server.metadata != object.metadata {
                    *object = form(&server);
                }
                Ok(())
            }
        }
    }

    /// Removes the finalizer. An object that does not exist any more is no error.
    pub(super) async fn remove_finalizer(&self, object: &OpenStackMachine) -> Result<(), ReconcileError> {
        match self {
            Self::Machines(api) => finalizers::remove(api, object, self.finalizer()).await,
            Self::Servers(api) => finalizers::remove(api, &stored(object), self.finalizer()).await,
        }
    }

    /// Records an Event.
    pub(super) async fn record(
        &self,
        events: &Recorder,
        object: &OpenStackMachine,
        severity: Severity,
        reason: &str,
        message: &str,
    ) {
        match self {
            Self::Machines(_) => events.record(object, severity, reason, message).await,
            Self::Servers(_) => events.record(&stored(object), severity, reason, message).await,
        }
    }

    /// Returns a reference to an object as the controller of others.
    pub(super) fn owner(&self, object: &OpenStackMachine) -> OwnerReference {
        match self {
            Self::Machines(_) => ownership::reference(object, true),
            Self::Servers(_) => ownership::reference(&stored(object), true),
        }
    }

    /// Returns the ownership tag of an object.
    pub(super) fn tag(&self, object: &OpenStackMachine) -> OwnershipTag {
        match self {
            Self::Machines(_) => OwnershipTag::of(object),
            Self::Servers(_) => OwnershipTag::of(&stored(object)),
        }
    }
}

/// Returns an OpenStackServer in the form of an OpenStackMachine.
pub(super) fn form(server: &OpenStackServer) -> OpenStackMachine {
    let spec = server.spec.clone();
    let provider_id = server.annotations().get(PROVIDER_ID).cloned();
    let filter = spec.flavor.map(|name| NameFilter { name: Some(name) }).filter(|_| spec.flavor_id.is_none());
    let spec = OpenStackMachineSpec {
        flavor: FlavorParam { id: spec.flavor_id, filter },
        image: spec.image,
        additional_block_devices: spec.additional_block_devices,
        config_drive: spec.config_drive,
        floating_ip_pool_ref: spec.floating_ip_pool_ref,
        identity_ref: Some(spec.identity_ref),
        ports: Some(spec.ports),
        provider_id: provider_id.clone(),
        root_volume: spec.root_volume,
        scheduler_hint_additional_properties: spec.scheduler_hint_additional_properties,
        security_groups: spec.security_groups,
        server_group: spec.server_group,
        server_metadata: spec.server_metadata,
        ssh_key_name: Some(spec.ssh_key_name),
        tags: spec.tags,
        trunk: spec.trunk,
    };
    let mut object = OpenStackMachine::new(&server.name_any(), spec);
    object.metadata = server.metadata.clone();
    object.status = server.status.as_ref().map(|status| machine_status(status, provider_id.is_some()));
    object
}

fn machine_status(status: &OpenStackServerStatus, complete: bool) -> OpenStackMachineStatus {
    let resolved = status.resolved.clone().map(|resolved| ResolvedMachineSpec {
        flavor_id: resolved.flavor_id,
        image_id: resolved.image_id,
        ports: resolved.ports,
        server_group_id: resolved.server_group_id,
    });
    OpenStackMachineStatus {
        addresses: status.addresses.clone(),
        conditions: status.conditions.clone(),
        initialization: complete.then_some(Initialization { provisioned: Some(true) }),
        instance_id: status.instance_id.clone(),
        instance_state: status.instance_state.clone(),
        resolved,
        resources: status.resources.clone().map(|resources| MachineResources { ports: resources.ports }),
    }
}

fn server_status(object: &OpenStackMachine) -> OpenStackServerStatus {
    let status = object.status.clone().unwrap_or_default();
    let ready = object.condition("Ready").is_some_and(apiserver_types::Condition::holds);
    let resolved = status.resolved.map(|resolved| ResolvedServerSpec {
        flavor_id: resolved.flavor_id,
        image_id: resolved.image_id,
        ports: resolved.ports,
        server_group_id: resolved.server_group_id,
    });
    OpenStackServerStatus {
        ready,
        addresses: status.addresses,
        conditions: status.conditions,
        instance_id: status.instance_id,
        instance_state: status.instance_state,
        resolved,
        resources: status.resources.map(|resources| ServerResources { ports: resources.ports }),
    }
}

/// Returns an OpenStackServer with the metadata of its form, for calls that need nothing else.
fn stored(object: &OpenStackMachine) -> OpenStackServer {
    let mut server =
        OpenStackServer::new(&object.name_any(), apiserver_types::OpenStackServerSpec::default());
    server.metadata = object.metadata.clone();
    server
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Condition, ConditionStatus};
    use controllers_runtime::now;

    use super::*;

    fn server() -> OpenStackServer {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
            "metadata": {"name": "s", "namespace": "n", "uid": "u"},
            "spec": {
                "identityRef": {"name": "i", "cloudName": "c"}, "flavor": "small", "image": {"id": "i"},
                "ports": [{"nameSuffix": "a"}], "sshKeyName": "k", "trunk": true, "tags": ["t"],
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_id_of_a_flavor_precedes_its_name() {
        let mut server = server();
        let name = form(&server).spec.flavor;
        assert_eq!((name.id, name.filter.unwrap().name.as_deref()), (None, Some("small")));
        server.spec.flavor_id = Some("f".to_owned());
        let id = form(&server).spec.flavor;
        assert_eq!((id.id.as_deref(), id.filter), (Some("f"), None));
    }

    #[test]
    fn a_server_that_was_complete_once_is_not_created_again() {
        let mut server = server();
        assert_eq!(form(&server).spec.provider_id, None);
        server.annotations_mut().insert(PROVIDER_ID.to_owned(), "openstack:///s".to_owned());
        server.status = Some(OpenStackServerStatus::default());
        let form = form(&server);
        assert_eq!(form.spec.provider_id.as_deref(), Some("openstack:///s"));
        assert_eq!(form.status.unwrap().initialization.unwrap().provisioned, Some(true));
    }

    #[test]
    fn a_server_is_ready_while_its_condition_holds() {
        let mut object = form(&server());
        assert!(!server_status(&object).ready);
        let ready = Condition::new("Ready", ConditionStatus::True, "Ready", "", now());
        object.status.get_or_insert_default().conditions = Some(vec![ready]);
        assert!(server_status(&object).ready);
        let tag = OwnershipTag::of(&stored(&object));
        assert_eq!(tag.description(), "capstan: OpenStackServer n/s u");
    }
}
