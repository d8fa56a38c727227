//! Passes over OpenStackServers, which have neither a Machine nor a cluster.

use std::time::Duration;

use apiserver_types::{
    Initialization, Machine, MachineSpec, OpenStackCluster, OpenStackClusterSpec, OpenStackMachine,
    OpenStackServer,
};
use controllers_runtime::{OwnershipTag, ReconcileError, Requeue, paused};
use kube::{Api, ResourceExt};

use super::OpenStackMachineReconciler;
use super::context::ReconcileContext;
use super::objects::ServerObjects;
use crate::names;

impl OpenStackMachineReconciler {
    /// Makes one pass over an OpenStackServer. Returns when the next one is due.
    pub(crate) async fn reconcile_server(&self, object: &OpenStackServer) -> Result<Requeue, kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let objects = ServerObjects::servers(&self.context.client, &namespace);
        self.reconcile_in(&objects, object).await
    }

    /// Provides or deletes the cloud resources of an OpenStackServer.
    pub(super) async fn provide_or_delete_server(
        &self,
        objects: &ServerObjects,
        api: &Api<OpenStackServer>,
        object: &mut OpenStackMachine,
    ) -> Result<Option<Duration>, ReconcileError> {
        if paused(object, None) {
            return Ok(None);
        }
        let deleting = object.metadata.deletion_timestamp.is_some();
        if is_of_a_machine(object) {
            // Upstream makes one for each OpenStackMachine. Here the machine itself has the server.
            if deleting {
                objects.remove_finalizer(object).await?;
            }
            return Ok(None);
        }
        if deleting {
            return self.delete(objects, object, None, true).await;
        }
        objects.add_finalizer(object).await?;
        let Some(server) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        self.provide(objects, object, &context_of(&server)).await
    }
}

/// Returns true if an OpenStackMachine controls the OpenStackServer.
fn is_of_a_machine(object: &OpenStackMachine) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == "OpenStackMachine")
}

/// Returns the Machine and the cluster that a server would have.
fn context_of(server: &OpenStackServer) -> ReconcileContext {
    let mut machine = Machine::new(&server.name_any(), MachineSpec::default());
    machine.spec.failure_domain.clone_from(&server.spec.availability_zone);
    let user_data = server.spec.user_data_ref.as_ref().and_then(|reference| reference.name.clone());
    machine.spec.bootstrap.data_secret_name = user_data.filter(|name| !name.is_empty());
    let mut cluster = OpenStackCluster::new("", OpenStackClusterSpec::default());
    // The server of a bastion belongs to a cluster.
    if let Some(id) = server.annotations().get(names::CLUSTER_ID) {
        cluster.annotations_mut().insert(OwnershipTag::ANNOTATION.to_owned(), id.clone());
    }
    cluster.status.get_or_insert_default().initialization = Some(Initialization { provisioned: Some(true) });
    ReconcileContext { machine, cluster, is_server: true }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::super::objects::form;
    use super::*;

    #[test]
    fn zone_and_user_data_of_a_server_are_used() {
        let mut server = OpenStackServer::new("s", apiserver_types::OpenStackServerSpec::default());
        server.spec.availability_zone = Some("z".to_owned());
        let reference = apiserver_types::UserDataRef { name: Some("data".to_owned()) };
        server.spec.user_data_ref = Some(reference);
        let machine = context_of(&server).machine;
        assert_eq!(machine.spec.failure_domain.as_deref(), Some("z"));
        assert_eq!(machine.spec.bootstrap.data_secret_name.as_deref(), Some("data"));
    }

    #[test]
    fn r10_1_the_server_of_an_upstream_machine_is_left_to_its_machine() {
        let mut server = OpenStackServer::new("s", apiserver_types::OpenStackServerSpec::default());
        assert!(!is_of_a_machine(&form(&server)));
        server.metadata.owner_references = Some(vec![OwnerReference {
            kind: "OpenStackMachine".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        assert!(is_of_a_machine(&form(&server)));
    }
}
