//! Status of a Machine.

use apiserver_types::{
    Condition, ConditionStatus, Gate, Machine, MachineAddress, MachineAddressType, MachineInitialization,
    MachinePhase, MachineStatus, Time, condition, set_condition,
};
use kube::ResourceExt;

use super::decide::Step;
use super::observe::{INFRASTRUCTURE_KIND, Observed};
use crate::{paused, summary};

/// Conditions that the readiness of a Machine is made of, in the order in which they are reported.
const PARTS: [&str; 3] = ["BootstrapConfigReady", "InfrastructureReady", "NodeHealthy"];

/// Writes the observed state and the pass's last step into the status.
pub(super) fn report(machine: &mut Machine, observed: &Observed, step: &Step, now: &Time) {
    let generation = machine.metadata.generation;
    let parts = [
        bootstrap(machine, observed, now),
        infrastructure(machine, observed, now),
        node("NodeHealthy", now),
        node("NodeReady", now),
        deleting(machine, step, now),
        paused::condition(machine, observed.cluster.as_ref(), now),
    ];
    let gates = machine.spec.readiness_gates.clone().unwrap_or_default();
    let phase = phase(machine, observed);
    let status = machine.status.get_or_insert_default();
    copy(status, observed);
    let conditions = status.conditions.get_or_insert_default();
    for condition in parts {
        set_condition(conditions, condition.at_generation(generation));
    }
    let ready = ready(conditions, &gates, now);
    let available = available(&ready, now);
    for condition in [ready, available] {
        set_condition(conditions, condition.at_generation(generation));
    }
    if status.phase != Some(phase) {
        status.phase = Some(phase);
        status.last_updated = Some(now.clone());
    }
    status.observed_generation = generation;
}

fn available(ready: &Condition, now: &Time) -> Condition {
    let (status, reason, message) = match ready.holds() {
        true => (ConditionStatus::True, "Available", ""),
        false => (ConditionStatus::False, "NotReady", "Machine is not Ready"),
    };
    Condition::new("Available", status, reason, message, now.clone())
}

/// Copies addresses and milestones from the infrastructure. Absent ones leave the status unchanged.
fn copy(status: &mut MachineStatus, observed: &Observed) {
    let initialization = status.initialization.get_or_insert_with(MachineInitialization::default);
    if observed.bootstrapped {
        initialization.bootstrap_data_secret_created = Some(true);
    }
    if observed.provisioned() {
        initialization.infrastructure_provisioned = Some(true);
    }
    if *initialization == MachineInitialization::default() {
        status.initialization = None;
    }
    let from = observed.infrastructure.as_ref().and_then(|it| it.status.as_ref());
    let addresses = from.and_then(|from| from.addresses.as_deref()).unwrap_or_default();
    let addresses: Vec<MachineAddress> = addresses.iter().filter_map(address).collect();
    if !addresses.is_empty() {
        status.addresses = Some(addresses);
    }
}

fn address(from: &apiserver_types::NodeAddress) -> Option<MachineAddress> {
    let kind = match from.kind.as_str() {
        "Hostname" => MachineAddressType::Hostname,
        "ExternalIP" => MachineAddressType::ExternalIP,
        "InternalIP" => MachineAddressType::InternalIP,
        "ExternalDNS" => MachineAddressType::ExternalDNS,
        "InternalDNS" => MachineAddressType::InternalDNS,
        _ => return None,
    };
    Some(MachineAddress { address: from.address.clone(), kind })
}

fn phase(machine: &Machine, observed: &Observed) -> MachinePhase {
    let status = machine.status.as_ref();
    let provisioned = observed.provisioned()
        || status.and_then(|it| it.initialization.as_ref()).and_then(|it| it.infrastructure_provisioned)
            == Some(true);
    let running = provisioned && status.is_some_and(|status| status.node_ref.is_some());
    match machine.metadata.deletion_timestamp {
        Some(_) => MachinePhase::Deleting,
        None if running => MachinePhase::Running,
        None if provisioned => MachinePhase::Provisioned,
        None if observed.bootstrapped => MachinePhase::Provisioning,
        None => MachinePhase::Pending,
    }
}

fn bootstrap(machine: &Machine, observed: &Observed, now: &Time) -> Condition {
    let kind = "BootstrapConfigReady";
    match (observed.bootstrapped, &machine.spec.bootstrap.config_ref) {
        (true, None) => Condition::new(kind, ConditionStatus::True, "DataSecretProvided", "", now.clone()),
        (true, Some(_)) => Condition::new(kind, ConditionStatus::True, "Ready", "", now.clone()),
        (false, Some(reference)) => {
            let message = format!(
                "waiting for {} {} to create the bootstrap data, which no controller of Capstan does yet. \
                 Set spec.bootstrap.dataSecretName",
                reference.kind, reference.name
            );
            Condition::new(kind, ConditionStatus::False, "NotReady", &message, now.clone())
        }
        (false, None) => {
            let message = "spec.bootstrap.dataSecretName is not set";
            Condition::new(kind, ConditionStatus::False, "NotReady", message, now.clone())
        }
    }
}

fn infrastructure(machine: &Machine, observed: &Observed, now: &Time) -> Condition {
    let kind = "InfrastructureReady";
    let no = |reason: &str, message: &str| {
        Condition::new(kind, ConditionStatus::False, reason, message, now.clone())
    };
    let reference = &machine.spec.infrastructure_ref;
    if reference.kind != INFRASTRUCTURE_KIND {
        let message = format!("infrastructureRef names a {}, which is not served here", reference.kind);
        return no("UnknownKind", &message);
    }
    if let Some(obstacle) = &observed.obstacle {
        return no("NotReady", obstacle);
    }
    let Some(infrastructure) = &observed.infrastructure else {
        let message = format!("OpenStackMachine {} does not exist", reference.name);
        let deleting = machine.metadata.deletion_timestamp.is_some();
        return if deleting { no("Deleted", &message) } else { no("DoesNotExist", &message) };
    };
    match infrastructure.condition("Ready") {
        Some(ready) => Condition::new(kind, ready.status, &ready.reason, &ready.message, now.clone()),
        None => no(
            "NotReady",
            &format!("OpenStackMachine {} has no condition Ready yet", infrastructure.name_any()),
        ),
    }
}

/// Returns a condition of the Node, which is not inspected yet.
fn node(kind: &str, now: &Time) -> Condition {
    let message = "workload clusters are not inspected yet";
    Condition::new(kind, ConditionStatus::Unknown, "NotInspected", message, now.clone())
}

fn deleting(machine: &Machine, step: &Step, now: &Time) -> Condition {
    if machine.metadata.deletion_timestamp.is_none() {
        return Condition::new("Deleting", ConditionStatus::False, "NotDeleting", "", now.clone());
    }
    let infrastructure = "WaitingForInfrastructureDeletion";
    let (reason, message) = match step {
        Step::WaitForHook(reason, annotation) => {
            (*reason, format!("waiting until the annotation {annotation} is removed"))
        }
        Step::DeleteInfrastructure => (infrastructure, "deleting the server".to_owned()),
        Step::WaitForInfrastructure(message) => (infrastructure, message.clone()),
        Step::Release => ("DeletionCompleted", String::new()),
        _ => ("Paused", "the deletion continues when the Machine is no longer paused".to_owned()),
    };
    Condition::new("Deleting", ConditionStatus::True, reason, &message, now.clone())
}

/// Ready: False with the first issue's message, else Unknown with the message of the first
/// unknown part, else True.
fn ready(conditions: &[Condition], gates: &[Gate], now: &Time) -> Condition {
    let deleting = condition(conditions, "Deleting").filter(|it| it.holds());
    if let Some(deleting) = deleting {
        let message = format!("Deleting: {}", deleting.message);
        return Condition::new("Ready", ConditionStatus::False, "NotReady", &message, now.clone());
    }
    let obstacles = summary::obstacles(conditions, &PARTS, gates);
    let status = summary::status(&obstacles);
    let reason = match status {
        ConditionStatus::True => "Ready",
        ConditionStatus::False => "NotReady",
        ConditionStatus::Unknown => "ReadyUnknown",
    };
    let decisive = obstacles.iter().find(|obstacle| obstacle.status == status);
    let message = decisive.map(|obstacle| obstacle.message.as_str()).unwrap_or_default();
    Condition::new("Ready", status, reason, message, now.clone())
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineSpec, Polarity};

    use super::*;

    #[test]
    fn a_machine_is_not_ready_while_the_condition_of_a_negative_gate_is_true() {
        use ConditionStatus::{False, True, Unknown};
        let gates = [Gate { condition_type: "Burning".to_owned(), polarity: Some(Polarity::Negative) }];
        let parts = PARTS.map(|kind| Condition::new(kind, True, "Fine", "", Time::default()));
        for (burning, expected) in [(True, False), (False, True), (Unknown, Unknown)] {
            let gate = Condition::new("Burning", burning, "Fire", "it burns", Time::default());
            let conditions: Vec<Condition> = parts.iter().cloned().chain([gate]).collect();
            let ready = ready(&conditions, &gates, &Time::default());
            assert_eq!(ready.status, expected, "{ready:?}");
        }
    }

    #[test]
    fn gates_affect_the_ready_and_available_conditions() {
        let gate = Gate { condition_type: "Burning".to_owned(), polarity: Some(Polarity::Negative) };
        let spec = MachineSpec { readiness_gates: Some(vec![gate]), ..MachineSpec::default() };
        let mut machine = Machine::new("m", spec);
        let burning = Condition::new("Burning", ConditionStatus::True, "Fire", "it burns", Time::default());
        machine.status = Some(MachineStatus { conditions: Some(vec![burning]), ..MachineStatus::default() });
        report(&mut machine, &Observed::default(), &Step::Nothing, &Time::default());
        let ready = machine.condition("Ready").unwrap();
        assert_eq!(ready.status, ConditionStatus::False);
        assert!(machine.condition("Burning").is_some_and(Condition::holds), "not ours to change");
        assert_eq!(machine.condition("Available").unwrap().status, ConditionStatus::False);
    }
}
