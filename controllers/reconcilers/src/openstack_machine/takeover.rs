//! Takeover of a server that upstream's provider created.
//!
//! Upstream has an OpenStackServer of the same name for each OpenStackMachine. After an import of all objects, it names
//! the server and the ports of the machine. They get the machine's ownership tag, and the object is deleted without them.

use std::sync::Arc;

use apiserver_types::{OpenStackMachine, OpenStackServer};
use controllers_infrastructure::{Cloud, PortQuery, Server, TaggedKind};
use controllers_runtime::{OwnershipTag, ReconcileError, Severity};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};

use super::decide::Observed;
use super::objects::ServerObjects;
use super::{OpenStackMachineReconciler, act};
use crate::names;

impl OpenStackMachineReconciler {
    /// Takes over the server of an imported machine, if there is one.
    pub(super) async fn take_over(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        cloud: &Arc<dyn Cloud>,
        observed: &mut Observed,
        tag: &OwnershipTag,
    ) -> Result<(), ReconcileError> {
        let Some(server) = observed.server.clone().filter(|server| is_unmarked(objects, server)) else {
            return Ok(());
        };
        let api: Api<OpenStackServer> =
            Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default());
        let known = api.get_opt(&object.name_any()).await?;
        let Some(known) = known.filter(|known| is_record_of(known, object, &server)) else { return Ok(()) };
        for id in ports_of(&known) {
            let query = PortQuery { id: Some(id), ..PortQuery::default() };
            if let Some(port) = cloud.ports(&query).await?.into_iter().next() {
                observed.journal.learn(names::PORT, &port.name, &port.id);
                cloud.change_tags(TaggedKind::Port, &port.id, &tag.tags(None), &[]).await?;
            }
        }
        observed.journal.learn(names::SERVER, &server.name, &server.id);
        act::write_journal(objects, object, observed).await?;
        // The tag of the server is last, because a server with it is not looked at again.
        let tags = tag.tags(Some(&server.tags));
        cloud.change_tags(TaggedKind::Server, &server.id, &tag.tags(None), &[]).await?;
        observed.server = Some(Server { tags, ..server.clone() });
        let same = Preconditions { uid: known.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(same), ..DeleteParams::background() };
        match api.delete(&known.name_any(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            result => drop(result?),
        }
        let message = format!("took over server {} ({}) from its OpenStackServer", server.name, server.id);
        objects.record(&self.context.events, object, Severity::Normal, "ServerTakenOver", &message).await;
        Ok(())
    }
}

/// Returns true for the server of a machine without the ownership tag of any object.
fn is_unmarked(objects: &ServerObjects, server: &Server) -> bool {
    let is_marked = server.tags.iter().any(|tag| tag.starts_with(OwnershipTag::PREFIX));
    // One whose state Nova cannot say has no tags in the list.
    matches!(objects, ServerObjects::Machines(_)) && !is_marked && server.status == "ACTIVE"
}

/// Returns true if upstream's provider keeps the record of a machine's server in this object.
fn is_record_of(known: &OpenStackServer, object: &OpenStackMachine, server: &Server) -> bool {
    let mut owners = known.owner_references().iter();
    let owned = owners.any(|owner| owner.kind == "OpenStackMachine" && owner.name == object.name_any());
    let id = known.status.as_ref().and_then(|status| status.instance_id.as_ref());
    // An import without statuses leaves the id only in the machine.
    owned && id.is_none_or(|id| *id == server.id)
}

/// Returns the ids of the ports in a record.
fn ports_of(known: &OpenStackServer) -> Vec<String> {
    let resources = known.status.as_ref().and_then(|status| status.resources.as_ref());
    let ports = resources.and_then(|resources| resources.ports.as_ref());
    ports.into_iter().flatten().map(|port| port.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackMachineSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn r10_1_the_record_of_an_imported_machine_names_its_server_and_ports() {
        let record = |owner: &str, id: &str| -> OpenStackServer {
            serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
                "metadata": {"name": "m", "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine",
                    "name": owner, "uid": "of another server", "controller": true,
                }]},
                "spec": {
                    "identityRef": {"name": "i", "cloudName": "c"}, "flavor": "small", "image": {"id": "i"},
                    "ports": [], "sshKeyName": "k",
                },
                "status": {"ready": true, "instanceID": id, "resources": {"ports": [{"id": "p"}]}},
            }))
            .unwrap()
        };
        let object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        let server = Server { id: "s".to_owned(), ..Server::default() };
        assert!(is_record_of(&record("m", "s"), &object, &server));
        assert!(!is_record_of(&record("m", "other"), &object, &server));
        assert!(!is_record_of(&record("other", "s"), &object, &server));
        let mut bare = record("m", "s");
        assert_eq!(ports_of(&bare), ["p"]);
        bare.status = None;
        assert!(is_record_of(&bare, &object, &server) && ports_of(&bare).is_empty());
    }
}
