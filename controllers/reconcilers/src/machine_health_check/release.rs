//! End of the marks of Machines that a health check has marked and does not look at any more.
//!
//! No pass would find such a Machine healthy again, and its owner would replace it at any later time.

use apiserver_types::{Cluster, Machine, MachineHealthCheck, remove_condition};
use controllers_runtime::{ControllerContext, ReconcileError, paused, write_status};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::act::{ATTEMPTS, EXTERNAL, HEALTH, OWNER};
use super::observe;
use super::requests::{self, Request};
use crate::replica_status::{is_deleting, is_unhealthy};

/// Returns the Machines that the last pass of a health check has looked at, except those of these names.
fn former<'a>(check: &'a MachineHealthCheck, targets: &[String]) -> Vec<&'a str> {
    let known = check.status.as_ref().and_then(|status| status.targets.as_ref());
    known.into_iter().flatten().filter(|name| !targets.contains(name)).map(String::as_str).collect()
}

/// Ends the marks of the Machines that a health check has looked at, except those of these names. A Machine that another
/// health check looks at keeps its marks, and so does one that is paused or being deleted.
///
/// # Errors
/// The API's own failure.
pub(super) async fn release(
    context: &ControllerContext,
    check: &MachineHealthCheck,
    cluster: &Cluster,
    targets: &[String],
) -> Result<(), ReconcileError> {
    let names = former(check, targets);
    if names.is_empty() {
        return Ok(());
    }
    let namespace = check.namespace().unwrap_or_default();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let mut machines = Vec::new();
    for name in names {
        machines.extend(api.get_opt(name).await?.filter(|it| is_marked(it, cluster)));
    }
    if machines.is_empty() {
        return Ok(());
    }
    let checks: Api<MachineHealthCheck> = Api::namespaced(context.client.clone(), &namespace);
    let others = checks.list(&ListParams::default()).await?.items;
    let looks = |other: &MachineHealthCheck, machine: &Machine| {
        other.uid() != check.uid()
            && other.metadata.deletion_timestamp.is_none()
            && observe::is_target(other, machine)
    };
    machines.retain(|machine| !others.iter().any(|other| looks(other, machine)));
    let requests = requests::observe(context, check, &machines).await?;
    for machine in machines {
        let request = requests.as_ref().and_then(|it| it.existing.get(&machine.name_any()));
        if let (Some(known), Some(Request::Ours { uid, deleting: false })) = (&requests, request) {
            requests::delete(context, known, &machine, uid).await?;
        }
        unmark(&api, machine, cluster).await?;
    }
    Ok(())
}

/// Returns true if a health check has marked a Machine as unhealthy, and the mark can be ended.
fn is_marked(machine: &Machine, cluster: &Cluster) -> bool {
    is_unhealthy(machine) && !is_deleting(machine) && !paused(machine, Some(cluster))
}

async fn unmark(api: &Api<Machine>, mut machine: Machine, cluster: &Cluster) -> Result<(), ReconcileError> {
    for attempt in 1..=ATTEMPTS {
        let mut new = machine.clone();
        remove_marks(&mut new);
        match write_status(api, &machine, &new).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
        let newest = api.get_opt(&machine.name_any()).await?;
        let Some(newest) = newest.filter(|it| it.uid() == machine.uid() && is_marked(it, cluster)) else {
            return Ok(());
        };
        machine = newest;
    }
    Ok(())
}

/// Removes the conditions of a health check from a Machine, in both forms.
fn remove_marks(machine: &mut Machine) {
    let Some(status) = &mut machine.status else { return };
    for kind in [HEALTH, OWNER, EXTERNAL] {
        remove_condition(status.conditions.get_or_insert_default(), kind);
    }
    let old = status.deprecated.as_mut().and_then(|it| it.v1beta1.as_mut()?.conditions.as_mut());
    if let Some(old) = old {
        old.retain(|condition| condition.kind != HEALTH && condition.kind != OWNER);
    }
}

#[cfg(test)]
#[path = "release_tests.rs"]
mod tests;
