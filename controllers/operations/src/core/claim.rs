//! What an upgrade writes on the objects of its Machine: that it owns the server while it lasts,
//! and afterwards what the server is now.

use std::fmt::Debug;

use apiserver_types::{Machine, MachineOperation, OpenStackMachine};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::core::context::OperationContext;
use crate::core::target::Target;

/// On an OpenStackMachine: the operation that owns its server. Its reconciler leaves the server
/// alone meanwhile.
const OPERATION: &str = "capstan.dev/operation";

/// On an OpenStackMachine: the id of the image that its server was upgraded to. It goes before
/// `spec.image`, which says what the server was made from and is immutable.
pub(crate) const IMAGE: &str = "capstan.dev/image";

/// The step that claims a server.
pub(crate) const STEP: &str = "ClaimServer";

/// What a Machine is after an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpgradeTarget {
    /// Kubernetes version.
    pub version: String,
    /// Image id.
    pub image: String,
    /// The new server's id, when there is a new one.
    pub server: Option<String>,
}

/// Whether the server is this operation's.
pub(crate) fn is_claimed(subject: &Target) -> bool {
    subject.infrastructure.annotations().get(OPERATION).map(String::as_str) == Some(subject.name())
}

/// Makes the server this operation's. Guarded, so that a reconciler that is about to act on the
/// same revision and one that claims it cannot both win.
pub(crate) async fn claim(subject: &Target) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {
        "resourceVersion": subject.infrastructure.resource_version(),
        "annotations": {OPERATION: subject.name()},
    }});
    let name = subject.infrastructure.name_any();
    subject.infrastructures().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Gives the server back to its reconciler, if it is this operation's.
pub(crate) async fn release(
    context: &OperationContext,
    operation: &MachineOperation,
    machine: Option<&Machine>,
) -> Result<(), kube::Error> {
    let namespace = operation.namespace().unwrap_or_default();
    let api: Api<OpenStackMachine> = Api::namespaced(context.client.clone(), &namespace);
    let is_claimed = |infrastructure: &OpenStackMachine| {
        infrastructure.annotations().get(OPERATION) == Some(&operation.name_any())
    };
    let found = match machine {
        Some(machine) => api.get_opt(&machine.spec.infrastructure_ref.name).await?,
        // The Machine that would name it is gone.
        None => api.list(&ListParams::default()).await?.items.into_iter().find(is_claimed),
    };
    let Some(infrastructure) = found.filter(is_claimed) else { return Ok(()) };
    let patch = json!({"metadata": {
        "resourceVersion": infrastructure.resource_version(),
        "annotations": {OPERATION: Value::Null},
    }});
    api.patch(&infrastructure.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Whether the objects say what the server is now. What a status says is not asked: it is written
/// before the Machine's version, and afterwards it is the reconciler's.
pub(crate) fn is_recorded(subject: &Target, target: &UpgradeTarget) -> bool {
    let provider_id = target.server.as_deref().map(|server| provider_id(subject, server));
    let points = |id: &Option<String>| provider_id.is_none() || *id == provider_id;
    subject.machine.spec.version.as_ref() == Some(&target.version)
        && points(&subject.machine.spec.provider_id)
        && points(&subject.infrastructure.spec.provider_id)
        && subject.infrastructure.annotations().get(IMAGE) == Some(&target.image)
}

/// Writes what the server is now, as far as it is not written yet. The Machine's version comes
/// last: whoever waits for it finds the rest in place.
pub(crate) async fn record(subject: &Target, target: &UpgradeTarget) -> Result<(), kube::Error> {
    let provider_id = target.server.as_deref().map(|server| provider_id(subject, server));
    let mut object = json!({"metadata": {"annotations": {IMAGE: target.image}}});
    let mut status = json!({"resolved": {"imageID": target.image}});
    let mut machine = json!({"version": target.version});
    if let (Some(id), Some(server)) = (&provider_id, &target.server) {
        object["spec"] = json!({"providerID": id});
        status["instanceID"] = json!(server);
        machine["providerID"] = json!(id);
    }
    let (infrastructures, machines) = (subject.infrastructures(), subject.machines());
    let present = json!(subject.infrastructure);
    let name = subject.infrastructure.name_any();
    patch(&infrastructures, &name, &present, &object, false).await?;
    patch(&infrastructures, &name, &present, &json!({"status": status}), true).await?;
    let present = json!(subject.machine);
    patch(&machines, &subject.machine.name_any(), &present, &json!({"spec": machine}), false).await
}

/// Makes a change, unless it is in the object already.
async fn patch<K>(
    api: &Api<K>,
    name: &str,
    present: &Value,
    change: &Value,
    of_status: bool,
) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    if is_in(change, present) {
        return Ok(());
    }
    let (params, change) = (PatchParams::default(), Patch::Merge(change));
    if of_status {
        api.patch_status(name, &params, &change).await?;
    } else {
        api.patch(name, &params, &change).await?;
    }
    Ok(())
}

/// Whether a merge patch without deletions would change nothing.
fn is_in(change: &Value, present: &Value) -> bool {
    match change.as_object() {
        None => change == present,
        Some(fields) => fields.iter().all(|(name, value)| is_in(value, &present[name])),
    }
}

/// The provider's id of a server, in the form that the Machine's has already.
fn provider_id(subject: &Target, server: &str) -> String {
    let known = subject.infrastructure.spec.provider_id.as_deref().and_then(|id| id.rsplit_once('/'));
    let prefix = known.map_or_else(|| "openstack://".to_owned(), |(prefix, _)| prefix.to_owned());
    format!("{prefix}/{server}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_there_already_is_not_written() {
        let present = json!({"spec": {"a": 1, "b": {"c": "x"}}, "status": {}});
        let table = [
            (json!({"spec": {"a": 1}}), true),
            (json!({"spec": {"b": {"c": "x"}}}), true),
            (json!({"spec": {"a": 2}}), false),
            (json!({"status": {"d": 1}}), false),
            (json!({"metadata": {"annotations": {"e": ""}}}), false),
        ];
        for (change, expected) in table {
            assert_eq!(is_in(&change, &present), expected, "{change}");
        }
    }
}
