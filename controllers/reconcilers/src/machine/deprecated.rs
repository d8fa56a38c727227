//! Conditions of a Machine in the form of v1beta1, which clients of that version read.

use apiserver_types::{
    Condition, ConditionStatus, DeprecatedCondition, KubeadmConfig, Machine, MachineDeletionStatus,
    MachineStatus, OpenStackMachine, Time, condition,
};
use controllers_infrastructure::ErrorClass;
use kube::{Resource, ResourceExt};

use super::deletion::{PRE_DRAIN, PRE_TERMINATE, hooks};
use super::node::NodeObservation;
use super::observe::{Observed, is_bootstrapped};
use crate::deprecated_conditions::{self, Old};
use crate::object_refs::is_of;

/// Parts of the condition Ready, as far as they are reported.
const PARTS: [&str; 5] =
    ["InfrastructureReady", "BootstrapReady", "HealthCheckSucceeded", "OwnerRemediated", "DrainingSucceeded"];

/// Errors of a cloud without room for a server. Each may last for longer than cluster-autoscaler should wait.
const NO_ROOM: [ErrorClass; 3] = [ErrorClass::Quota, ErrorClass::NoValidHost, ErrorClass::AntiAffinity];

/// Reason of a Machine whose server's object is gone. Upstream's word.
const INVALID: &str = "InvalidConfiguration";

/// Writes the conditions that belong to the Machine's controller, and the failure that ends the Machine.
pub(super) fn report(machine: &mut Machine, observed: &Observed, now: &Time) {
    let states = [
        ("BootstrapReady", bootstrap(machine, observed)),
        ("InfrastructureReady", infrastructure(machine, observed)),
        ("NodeHealthy", node(machine, observed)),
    ];
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let provisioned = machine.spec.provider_id.is_some();
    let (reason, message) = failure(machine, observed).unzip();
    let hooks = [PRE_DRAIN, PRE_TERMINATE].map(|prefix| hooks(machine, prefix).next().is_some());
    let status = machine.status.get_or_insert_default();
    let drain = if deleting { deletion(status, &hooks, observed) } else { Vec::new() };
    let deprecated = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    (deprecated.failure_reason, deprecated.failure_message) = (reason, message);
    let conditions = deprecated.conditions.get_or_insert_default();
    for (kind, state) in states.into_iter().chain(drain) {
        deprecated_conditions::set(conditions, kind, state, now);
    }
    let ready = ready(conditions, deleting || provisioned);
    deprecated_conditions::set(conditions, "Ready", ready, now);
}

/// Returns reason and message of a failure that ends the Machine, or that another group of workers may avoid. It has no
/// effect on the phase.
fn failure(machine: &Machine, observed: &Observed) -> Option<(String, String)> {
    lost_server(machine, observed)
        .or_else(|| failed_bootstrap(observed))
        .or_else(|| without_room(machine, observed))
}

/// Returns the refusal of a server that the cloud has no room for. cluster-autoscaler takes a Machine with a failure for one
/// that never comes: it deletes the Machine and tries another group. The failure ends when there is room.
fn without_room(machine: &Machine, observed: &Observed) -> Option<(String, String)> {
    if machine.spec.provider_id.is_some() || machine.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let refused = observed.infrastructure.as_ref()?.condition("InstanceReady")?;
    let is_lasting = NO_ROOM.iter().any(|class| class.reason() == refused.reason);
    (is_lasting && !refused.holds()).then(|| (refused.reason.clone(), refused.message.clone()))
}

/// Returns the failure of a Machine whose server's object was deleted by another client.
fn lost_server(machine: &Machine, observed: &Observed) -> Option<(String, String)> {
    let reference = &machine.spec.infrastructure_ref;
    let initialization = machine.status.as_ref()?.initialization.as_ref()?;
    let existed = initialization.infrastructure_provisioned == Some(true);
    let is_lost = is_of::<OpenStackMachine>(reference)
        && observed.obstacle.is_none()
        && observed.infrastructure.is_none()
        && machine.metadata.deletion_timestamp.is_none();
    (existed && is_lost).then(|| {
        let name = format!("{} with name {:?}", reference.kind, reference.name);
        let message = format!("Machine infrastructure resource {name} has been deleted after being ready");
        (INVALID.to_owned(), message)
    })
}

/// Returns the failure that a KubeadmConfig reports. Ours do not, but those of older releases may have one.
fn failed_bootstrap(observed: &Observed) -> Option<(String, String)> {
    let config = observed.bootstrap.as_ref()?;
    let old = config.status.as_ref()?.deprecated.as_ref()?.v1beta1.as_ref()?;
    let (reason, message) = (old.failure_reason.clone()?, old.failure_message.clone().unwrap_or_default());
    let (api, kind) = (KubeadmConfig::api_version(&()), KubeadmConfig::kind(&()));
    let name = config.name_any();
    let message =
        format!("Failure detected from referenced resource {api}, Kind={kind} with name {name:?}: {message}");
    Some((reason, message))
}

/// Ready is the worst of its parts. Until there is a provider ID, it counts the finished ones.
fn ready(conditions: &[DeprecatedCondition], is_plain: bool) -> Old {
    let states: Vec<Option<Old>> =
        PARTS.iter().map(|kind| deprecated_conditions::state(conditions, kind)).collect();
    match deprecated_conditions::summary(&states) {
        Old::False(severity, reason, _) if !is_plain => {
            let done = states[..2].iter().filter(|state| **state == Some(Old::True)).count();
            Old::no(severity, &reason, format!("{done} of 2 completed"))
        }
        other => other,
    }
}

fn mirrored(found: Option<&Condition>, reached: bool, waiting: &str) -> Old {
    match found {
        Some(found) if found.holds() => Old::True,
        Some(found) => Old::no("Info", &found.reason, found.message.clone()),
        None if reached => Old::True,
        None => Old::no("Info", waiting, ""),
    }
}

fn bootstrap(machine: &Machine, observed: &Observed) -> Old {
    let is_made = machine.spec.bootstrap.config_ref.is_some();
    match &observed.bootstrap {
        None if is_made && machine.metadata.deletion_timestamp.is_some() => Old::no("Info", "Deleted", ""),
        config => {
            let found = config.as_ref().and_then(|config| config.condition("Ready"));
            mirrored(found, is_bootstrapped(machine), "WaitingForDataSecret")
        }
    }
}

fn infrastructure(machine: &Machine, observed: &Observed) -> Old {
    match &observed.infrastructure {
        None if machine.metadata.deletion_timestamp.is_some() => Old::no("Info", "Deleted", ""),
        server => {
            let found = server.as_ref().and_then(|server| server.condition("Ready"));
            mirrored(found, observed.provisioned(), "WaitingForInfrastructure")
        }
    }
}

/// Reports whether the server is gone, or is being deleted.
fn is_going(observed: &Observed) -> bool {
    observed.infrastructure.as_ref().is_none_or(|it| it.metadata.deletion_timestamp.is_some())
}

fn node(machine: &Machine, observed: &Observed) -> Old {
    let status = machine.status.as_ref();
    let known = status.is_some_and(|status| status.node_ref.is_some());
    match &observed.node {
        _ if is_going(observed) && machine.metadata.deletion_timestamp.is_some() => {
            Old::no("Info", "Deleting", "")
        }
        NodeObservation::NotFound if known => Old::no("Error", "NodeNotFound", ""),
        NodeObservation::NotFound => Old::no("Warning", "NodeProvisioning", ""),
        NodeObservation::Found(_) => {
            let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            match condition(conditions, "NodeHealthy") {
                Some(found) if found.status == ConditionStatus::True => Old::True,
                Some(found) if found.status == ConditionStatus::Unknown => {
                    Old::Unknown("NodeConditionsFailed", found.message.clone())
                }
                Some(found) => Old::no("Warning", "NodeConditionsFailed", found.message.clone()),
                None => Old::no("Warning", "NodeProvisioning", ""),
            }
        }
        NodeObservation::NotConnected { message, .. } if known => {
            Old::Unknown("NodeInspectionFailed", message.clone())
        }
        _ => Old::no("Info", "WaitingForNodeRef", ""),
    }
}

/// Returns the conditions of the stages of a deletion that have begun.
/// `hooks` says whether there are hooks before the drain and before the server is deleted.
fn deletion(status: &MachineStatus, hooks: &[bool; 2], observed: &Observed) -> Vec<(&'static str, Old)> {
    use super::observe::Outcome::{Done, Failed, Waiting};
    let begun: &MachineDeletionStatus = match &status.deletion {
        Some(begun) => begun,
        None => return Vec::new(),
    };
    let mut states = Vec::new();
    if begun.wait_for_pre_drain_hook_start_time.is_some() {
        states.push(("PreDrainDeleteHookSucceeded", of_hook(hooks[0])));
    }
    if begun.node_drain_start_time.is_some() {
        let state = match &observed.deletion.drain {
            _ if super::deletion::off(observed).is_some() => Old::True,
            Some(Waiting(_)) => Old::no("Info", "Draining", "Draining the node before deletion"),
            Some(Failed(error)) => Old::no("Warning", "DrainingFailed", error.clone()),
            Some(Done) | None => Old::True,
        };
        states.push(("DrainingSucceeded", state));
    }
    if begun.wait_for_node_volume_detach_start_time.is_some() {
        let state = match &observed.deletion.volumes {
            Some(Waiting(_) | Failed(_)) => {
                Old::no("Info", "WaitingForVolumeDetach", "Waiting for node volumes to be detached")
            }
            Some(Done) | None => Old::True,
        };
        states.push(("VolumeDetachSucceeded", state));
    }
    if begun.wait_for_pre_terminate_hook_start_time.is_some() {
        states.push(("PreTerminateDeleteHookSucceeded", of_hook(hooks[1])));
    }
    states
}

fn of_hook(is_there: bool) -> Old {
    if is_there { Old::no("Info", "WaitingExternalHook", "") } else { Old::True }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{KubeadmConfigSpec, OpenStackMachine};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hook_is_waited_for_until_its_annotation_is_gone() {
        let mut machine: Machine = serde_json::from_value(json!({
            "metadata": {"deletionTimestamp": "2026-11-26T10:00:00Z"},
            "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "given"},
                "infrastructureRef": {"apiGroup": "g", "kind": "OpenStackMachine", "name": "m"}},
            "status": {"deletion": {"waitForPreDrainHookStartTime": "2026-11-26T10:00:00Z"}},
        }))
        .unwrap();
        let mut state = |hook: bool, kind: &str| {
            machine.metadata.annotations = hook.then(|| [(PRE_DRAIN.to_owned(), String::new())].into());
            report(&mut machine, &Observed::default(), &Time::default());
            let old = machine.status.as_ref().unwrap().deprecated.as_ref().unwrap().v1beta1.as_ref().unwrap();
            deprecated_conditions::state(old.conditions.as_deref().unwrap(), kind)
        };
        let kind = "PreDrainDeleteHookSucceeded";
        assert_eq!(state(true, kind), Some(Old::no("Info", "WaitingExternalHook", "")));
        assert_eq!(state(false, kind), Some(Old::True), "also if the Node is not drained");
        assert_eq!(state(false, "BootstrapReady"), Some(Old::True), "no object was made for it");
    }

    #[test]
    fn a_lost_server_and_a_failed_bootstrap_end_a_machine() {
        let machine = |provisioned: bool| -> Machine {
            serde_json::from_value(json!({
                "spec": {"clusterName": "c", "bootstrap": {},
                    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine",
                        "name": "m"}},
                "status": {"initialization": {"infrastructureProvisioned": provisioned}},
            }))
            .unwrap()
        };
        let mut config = KubeadmConfig::new("k", KubeadmConfigSpec::default());
        let old = json!({"deprecated": {"v1beta1": {"failureReason": "Bad", "failureMessage": "no"}}});
        config.status = serde_json::from_value(old).unwrap();
        let server = || Some(OpenStackMachine::new("m", Default::default()));
        let lost = "Machine infrastructure resource OpenStackMachine with name \"m\" has been deleted after being ready";
        let failed = "Failure detected from referenced resource bootstrap.cluster.x-k8s.io/v1beta2, \
            Kind=KubeadmConfig with name \"k\": no";
        let table = [
            ("not there yet", false, None, None, None),
            ("there", true, server(), None, None),
            ("lost", true, None, None, Some((INVALID, lost))),
            ("failed", true, server(), Some(config.clone()), Some(("Bad", failed))),
            ("both", true, None, Some(config), Some((INVALID, lost))),
        ];
        for (case, provisioned, infrastructure, bootstrap, expected) in table {
            let observed = Observed { infrastructure, bootstrap, ..Observed::default() };
            let mut machine = machine(provisioned);
            report(&mut machine, &observed, &Time::default());
            let old = machine.status.unwrap().deprecated.unwrap().v1beta1.unwrap();
            let found = old.failure_reason.as_deref().zip(old.failure_message.as_deref());
            assert_eq!(found, expected, "{case}");
        }
        let refused = Observed { obstacle: Some("of another".to_owned()), ..Observed::default() };
        assert_eq!(failure(&machine(true), &refused), None, "the object exists");
    }

    #[test]
    fn a_machine_that_the_cloud_has_no_room_for_has_a_failure_until_it_has_a_server() {
        let observed = |status: &str, reason: &str| {
            let mut server = OpenStackMachine::new("m", Default::default());
            let condition = json!({"type": "InstanceReady", "status": status, "reason": reason, "message": "full",
                "lastTransitionTime": "2026-11-26T10:00:00Z"});
            server.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
            Observed { infrastructure: Some(server), ..Observed::default() }
        };
        let mut machine: Machine = serde_json::from_value(json!({
            "spec": {"clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine",
                    "name": "m"}},
        }))
        .unwrap();
        for reason in ["QuotaExceeded", "NoCapacity", "AntiAffinityUnsatisfiable"] {
            let expected = Some((reason.to_owned(), "full".to_owned()));
            assert_eq!(failure(&machine, &observed("False", reason)), expected);
        }
        for reason in ["Building", "Throttled", "CloudUnreachable"] {
            assert_eq!(failure(&machine, &observed("False", reason)), None, "{reason} passes");
        }
        assert_eq!(failure(&machine, &observed("True", "QuotaExceeded")), None);
        machine.spec.provider_id = Some("openstack:///1".to_owned());
        assert_eq!(failure(&machine, &observed("False", "QuotaExceeded")), None, "it has a server");
    }
}
