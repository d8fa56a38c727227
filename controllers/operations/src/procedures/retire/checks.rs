//! Checks before a retirement begins: a Node is not drained if its Machine cannot be deleted.

use apiserver_types::Machine;
use apiserver_types::protection::{PROTECTED, UNPROTECTED};
use controllers_workload::describe;
use kube::ResourceExt;
use kube::api::ListParams;

use super::{DELETE, delete};
use crate::core::decision::Outcome;
use crate::core::node_drain::DRAIN;
use crate::core::rejoin::is_control_plane;
use crate::core::target::Target;

/// Prefix of annotations that hold a deletion before the Node is drained. Upstream's.
const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";

/// Reason of an operation that is not possible for its Machine.
const UNSUPPORTED: &str = "Unsupported";

/// Returns the end of an operation whose Machine must not be deleted in this way.
///
/// # Errors
/// The API's own failure.
pub(super) async fn refusal(target: &Target) -> Result<Option<Outcome>, kube::Error> {
    if target.step(DRAIN).is_some()
        && let Some(message) = hooked(&target.machine)
    {
        return Ok(Some(Outcome::failed(DELETE, UNSUPPORTED, message)));
    }
    if let Some(message) = last_control_plane(target).await? {
        return Ok(Some(Outcome::failed(DELETE, UNSUPPORTED, message)));
    }
    match delete(target, true).await {
        Err(error) if is_refusal(&error) => {
            let message = format!("the Machine cannot be deleted: {}", describe(&error));
            Ok(Some(Outcome::failed(DELETE, "Forbidden", message)))
        }
        result => result.map(|()| None),
    }
}

/// Returns the reason why the only control plane Machine of a Cluster is not deleted. Others may go while its Node is
/// drained, so that it is also the last check before the deletion.
///
/// # Errors
/// The API's own failure.
pub(super) async fn last_control_plane(target: &Target) -> Result<Option<String>, kube::Error> {
    if !is_control_plane(&target.machine) {
        return Ok(None);
    }
    let machines = target.machines().list(&ListParams::default()).await?.items;
    Ok(is_last(&target.machine, &machines).then(|| {
        format!(
            "the Machine is the only control plane Machine of its Cluster, and the workload API ends with it. To delete \
             it with the cluster, set its annotation {PROTECTED} to {UNPROTECTED:?} first"
        )
    }))
}

/// Reports whether the API server has refused the deletion of a Machine for a reason that a person has to know. A missing
/// Machine and a conflict are none: the next pass reads the Machine again.
pub(super) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if (400..500).contains(&status.code) && ![404, 409, 429].contains(&status.code))
}

/// Returns the reason why a Machine with a hook before its drain is not drained: the owner of the hook acts only once the
/// Machine is being deleted.
fn hooked(machine: &Machine) -> Option<String> {
    let hook = machine.annotations().keys().find(|key| key.starts_with(PRE_DRAIN))?;
    Some(format!(
        "the Machine has the annotation {hook}, whose owner acts after the deletion and before the drain. Delete the \
         Machine, or remove the annotation"
    ))
}

/// Reports whether a control plane Machine is the last one of its Cluster, and may not be deleted as such.
fn is_last(machine: &Machine, all: &[Machine]) -> bool {
    let is_allowed = machine.annotations().get(PROTECTED).is_some_and(|value| value == UNPROTECTED);
    let stays = |other: &Machine| {
        is_control_plane(other)
            && other.name_any() != machine.name_any()
            && other.spec.cluster_name == machine.spec.cluster_name
            && other.metadata.deletion_timestamp.is_none()
    };
    !is_allowed && !all.iter().any(stays)
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn machine(name: &str, cluster: &str) -> Machine {
        let spec = MachineSpec { cluster_name: cluster.to_owned(), ..MachineSpec::default() };
        let mut machine = Machine::new(name, spec);
        machine.labels_mut().insert("cluster.x-k8s.io/control-plane".to_owned(), String::new());
        machine
    }

    #[test]
    fn the_last_control_plane_machine_is_one_without_another_that_stays() {
        let last = machine("a", "c");
        let mut going = machine("b", "c");
        going.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let mut worker = machine("w", "c");
        worker.metadata.labels = None;
        let mut allowed = last.clone();
        allowed.annotations_mut().insert(PROTECTED.to_owned(), UNPROTECTED.to_owned());
        let table = [
            ("alone", last.clone(), vec![last.clone()], true),
            ("with others that do not stay", last.clone(), vec![last.clone(), going, worker], true),
            ("with one of another Cluster", last.clone(), vec![last.clone(), machine("d", "other")], true),
            ("with another one", last.clone(), vec![last.clone(), machine("e", "c")], false),
            ("allowed", allowed, vec![last], false),
        ];
        for (case, machine, all, expected) in table {
            assert_eq!(is_last(&machine, &all), expected, "{case}");
        }
    }

    #[test]
    fn only_a_hook_before_the_drain_forbids_the_drain() {
        let mut hooked_one = machine("a", "c");
        assert_eq!(hooked(&hooked_one), None);
        hooked_one
            .annotations_mut()
            .insert("pre-terminate.delete.hook.machine.cluster.x-k8s.io/x".to_owned(), String::new());
        assert_eq!(hooked(&hooked_one), None);
        let hook = format!("{PRE_DRAIN}/backup");
        hooked_one.annotations_mut().insert(hook.clone(), String::new());
        assert!(hooked(&hooked_one).is_some_and(|why| why.contains(&hook)));
    }
}
