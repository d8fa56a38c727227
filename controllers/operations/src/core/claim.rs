//! Claim of a server by an upgrade, and the record of the upgraded server in the Machine's objects.

use std::fmt::Debug;

use apiserver_types::{Machine, MachineOperation, OpenStackMachine};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::core::context::OperationContext;
use crate::core::target::Target;

/// Annotation of an OpenStackMachine with the name of the operation that claims its server. The
/// reconciler does not change a claimed server.
const OPERATION: &str = "capstan.dev/operation";

/// Annotation of an OpenStackMachine with the id of the image that its server was upgraded to. It has
/// precedence over `spec.image`, which is immutable and names the image that the server was created from.
pub(crate) const IMAGE: &str = "capstan.dev/image";

/// Step that claims a server.
pub(crate) const STEP: &str = "ClaimServer";

/// State of a Machine after an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpgradeGoal {
    /// Kubernetes version.
    pub version: String,
    /// Image id.
    pub image: String,
    /// Id of the new server, if there is a new one.
    pub server: Option<String>,
}

/// Returns true if this operation has claimed the server.
pub(crate) fn is_claimed(target: &Target) -> bool {
    target.infrastructure.annotations().get(OPERATION).map(String::as_str) == Some(target.name())
}

/// Claims the server. The revision guards the write, so that a reconciler that acts on the same
/// revision and an operation that claims it cannot both succeed.
pub(crate) async fn claim(target: &Target) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {
        "resourceVersion": target.infrastructure.resource_version(),
        "annotations": {OPERATION: target.name()},
    }});
    let name = target.infrastructure.name_any();
    target.infrastructures().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Releases the server, if this operation has claimed it.
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
        // The Machine that would name it does not exist any more.
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

/// Returns true if the objects describe the upgraded server. Their status does not count: it is written
/// before the Machine's version, and afterwards it belongs to the reconciler.
pub(crate) fn is_recorded(target: &Target, goal: &UpgradeGoal) -> bool {
    let provider_id = goal.server.as_deref().map(|server| provider_id(target, server));
    let points = |id: &Option<String>| provider_id.is_none() || *id == provider_id;
    target.machine.spec.version.as_ref() == Some(&goal.version)
        && points(&target.machine.spec.provider_id)
        && points(&target.infrastructure.spec.provider_id)
        && target.infrastructure.annotations().get(IMAGE) == Some(&goal.image)
}

/// Records the upgraded server, as far as it is not recorded yet. The Machine's version comes last: a
/// client that waits for it finds the rest complete.
pub(crate) async fn record(target: &Target, goal: &UpgradeGoal) -> Result<(), kube::Error> {
    let provider_id = goal.server.as_deref().map(|server| provider_id(target, server));
    let mut object = json!({"metadata": {"annotations": {IMAGE: goal.image}}});
    let mut status = json!({"resolved": {"imageID": goal.image}});
    let mut machine = json!({"version": goal.version});
    if let (Some(id), Some(server)) = (&provider_id, &goal.server) {
        object["spec"] = json!({"providerID": id});
        status["instanceID"] = json!(server);
        machine["providerID"] = json!(id);
    }
    let (infrastructures, machines) = (target.infrastructures(), target.machines());
    let present = json!(target.infrastructure);
    let name = target.infrastructure.name_any();
    patch(&infrastructures, &name, &present, &object, false).await?;
    patch(&infrastructures, &name, &present, &json!({"status": status}), true).await?;
    let present = json!(target.machine);
    patch(&machines, &target.machine.name_any(), &present, &json!({"spec": machine}), false).await
}

/// Patches an object, unless the change is in it already.
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

/// Returns true if a merge patch without deletions would change nothing.
fn is_in(change: &Value, present: &Value) -> bool {
    match change.as_object() {
        None => change == present,
        Some(fields) => fields.iter().all(|(name, value)| is_in(value, &present[name])),
    }
}

/// Returns the provider ID of a server, in the form of the Machine's present one.
fn provider_id(target: &Target, server: &str) -> String {
    let known = target.infrastructure.spec.provider_id.as_deref().and_then(|id| id.rsplit_once('/'));
    let prefix = known.map_or_else(|| "openstack://".to_owned(), |(prefix, _)| prefix.to_owned());
    format!("{prefix}/{server}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_already_present_is_not_written() {
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
