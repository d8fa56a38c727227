//! Servers that two OpenStackMachines claim by the same provider id.

use apiserver_types::OpenStackMachine;
use controllers_infrastructure::{CloudError, ErrorClass, Server};
use controllers_runtime::{OwnershipTag, ReconcileError};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// Refuses the provider id of a server that belongs to another OpenStackMachine.
///
/// A server with our tag is ours, so only an id that a client wrote is compared with all others.
///
/// # Errors
/// Another object has the same server. The message names it.
pub(super) async fn check(
    client: &Client,
    object: &OpenStackMachine,
    server: Option<&Server>,
    tag: &OwnershipTag,
) -> Result<(), ReconcileError> {
    let Some(server) = server.filter(|server| !server.tags.contains(&tag.text())) else { return Ok(()) };
    if object.spec.provider_id.is_none() {
        return Ok(());
    }
    let all = Api::<OpenStackMachine>::all(client.clone()).list(&ListParams::default()).await?;
    match all.iter().find(|other| precedes(other, object, server)) {
        Some(other) => Err(refusal(object, other, server).into()),
        None => Ok(()),
    }
}

fn refusal(object: &OpenStackMachine, other: &OpenStackMachine, server: &Server) -> CloudError {
    let (namespace, name) = (other.namespace().unwrap_or_default(), other.name_any());
    let id = object.spec.provider_id.as_deref().unwrap_or_default();
    let message = format!(
        "server {} ({}) belongs to OpenStackMachine {namespace}/{name}. Delete this Machine, which deletes nothing of that \
         server, or correct spec.providerID",
        server.name, server.id
    );
    CloudError::new(ErrorClass::InvalidSpec, format!("use spec.providerID {id:?}"), message)
}

/// Returns true if another object has the same server with more right: the server has its tag, or no object's tag and
/// the other object is older.
fn precedes(other: &OpenStackMachine, object: &OpenStackMachine, server: &Server) -> bool {
    let id = |object: &OpenStackMachine| {
        object.spec.provider_id.as_deref().and_then(|id| id.rsplit('/').next()).map(str::to_owned)
    };
    if other.uid() == object.uid() || id(other) != id(object) {
        return false;
    }
    let age = |object: &OpenStackMachine| (object.creation_timestamp().map(|time| time.0), object.uid());
    server.tags.contains(&OwnershipTag::of(other).text()) || age(other) < age(object)
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackMachineSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn machine(name: &str, created: &str, id: &str) -> OpenStackMachine {
        let mut machine = OpenStackMachine::new(name, OpenStackMachineSpec::default());
        machine.metadata.uid = Some(format!("uid-{name}"));
        machine.metadata.creation_timestamp = Some(Time(created.parse().unwrap()));
        machine.spec.provider_id = Some(id.to_owned());
        machine
    }

    #[test]
    fn a_server_belongs_to_the_machine_with_its_tag_else_to_the_oldest() {
        let old = machine("old", "2026-01-01T00:00:00Z", "openstack:///s");
        let new = machine("new", "2026-01-02T00:00:00Z", "openstack://R/s");
        let untagged = Server { id: "s".to_owned(), ..Server::default() };
        assert!(precedes(&old, &new, &untagged) && !precedes(&new, &old, &untagged));
        let tagged = Server { tags: vec![OwnershipTag::of(&new).text()], ..untagged.clone() };
        assert!(precedes(&new, &old, &tagged));
        let other = machine("other", "2025-01-01T00:00:00Z", "openstack:///t");
        assert!(!precedes(&other, &new, &untagged) && !precedes(&new, &new, &untagged));
        let text = refusal(&new, &old, &untagged).to_string();
        assert!(text.starts_with(
            "use spec.providerID \"openstack://R/s\": server  (s) belongs to OpenStackMachine /old."
        ));
    }
}
