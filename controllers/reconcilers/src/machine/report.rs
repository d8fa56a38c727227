//! Status of a Machine.

use apiserver_types::{
    Condition, ConditionStatus, Machine, MachineAddress, MachineAddressType, MachineInitialization,
    MachinePhase, MachineStatus, NodeReference, Time, set_condition,
};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::decide::{Stage, Step};
use super::observe::{Observed, is_bootstrapped};
use super::{conditions, deprecated, node, node_conditions, ready, up_to_date};
use crate::replica_status::{self, Now};
use crate::{CERTIFICATES_EXPIRY_ANNOTATION, CONTROL_PLANE_LABEL, condition_order, paused};

/// Label with the zone of a Node, which the cloud's own controller sets in the workload cluster.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Writes the observed state and the pass's last step into the status.
pub(super) fn report(machine: &mut Machine, observed: &Observed, step: &Step, now: &Time) {
    let generation = machine.metadata.generation;
    let parts = parts(machine, observed, step, now);
    let gates = machine.spec.readiness_gates.clone().unwrap_or_default();
    let phase = phase(machine, observed);
    // Data that the user gave was not created here.
    let bootstrapped = is_bootstrapped(machine) && machine.spec.bootstrap.config_ref.is_some();
    let deletion = machine.metadata.deletion_timestamp.is_some();
    let certificates_expiry = certificates_expiry(machine, observed);
    let domain = failure_domain(machine, observed);
    let status = machine.status.get_or_insert_default();
    copy(status, observed, bootstrapped);
    status.failure_domain = domain.or_else(|| status.failure_domain.take());
    status.certificates_expiry_date = certificates_expiry.map(Time);
    if deletion {
        begin_wait(status, step, now);
    }
    let conditions = status.conditions.get_or_insert_default();
    for condition in parts {
        set_condition(conditions, condition.at_generation(generation));
    }
    let at = Now { time: now.clone(), instant: observed.now };
    let stage = replica_status::deletion_stage(machine, &at);
    let conditions = machine.status.get_or_insert_default().conditions.get_or_insert_default();
    let ready = ready::condition(conditions, &gates, stage.as_deref(), now);
    set_condition(conditions, ready.clone().at_generation(generation));
    let wait = remaining(machine, observed.now);
    let status = machine.status.get_or_insert_default();
    let available = available(&ready, wait, now).at_generation(generation);
    let conditions = status.conditions.get_or_insert_default();
    set_condition(conditions, available);
    condition_order::sort(conditions);
    if status.phase != Some(phase) {
        status.phase = Some(phase);
        status.last_updated = Some(now.clone());
    }
    if observed.error.is_none() {
        status.observed_generation = generation;
    }
    deprecated::report(machine, observed, now);
}

/// Returns every condition but those that sum up others.
fn parts(machine: &Machine, observed: &Observed, step: &Step, now: &Time) -> Vec<Condition> {
    let mut parts = vec![
        conditions::bootstrap(machine, observed, now),
        conditions::infrastructure(machine, observed, now),
        conditions::updating(machine, observed, now),
        conditions::deleting(machine, observed, step, now),
        paused::condition(machine, observed.cluster.as_ref(), now),
    ];
    parts.extend(node_conditions::conditions(machine, observed, now));
    parts.extend(up_to_date::condition(machine, observed, now));
    parts
}

/// Writes only that the Machine is paused: a paused object is not touched otherwise.
pub(super) fn report_pause(machine: &mut Machine, observed: &Observed, now: &Time) {
    let condition = paused::condition(machine, observed.cluster.as_ref(), now);
    let condition = condition.at_generation(machine.metadata.generation);
    set_condition(machine.status.get_or_insert_default().conditions.get_or_insert_default(), condition);
}

/// Available: Ready for at least `spec.minReadySeconds`.
fn available(ready: &Condition, wait: Option<SignedDuration>, now: &Time) -> Condition {
    let (status, reason, message) = match (ready.holds(), wait) {
        (true, None) => (ConditionStatus::True, "Available", ""),
        (true, Some(_)) => (ConditionStatus::False, "WaitingForMinReadySeconds", ""),
        (false, _) => (ConditionStatus::False, "NotReady", ""),
    };
    Condition::new("Available", status, reason, message, now.clone())
}

/// Returns how long a Machine must still be Ready until it is available; `None` if it need not wait, or is not Ready.
pub(super) fn remaining(machine: &Machine, now: Timestamp) -> Option<SignedDuration> {
    let ready = machine.condition("Ready").filter(|ready| ready.holds())?;
    let since: Timestamp = ready.last_transition_time.0.parse().ok()?;
    let wanted = SignedDuration::from_secs(i64::from(machine.spec.min_ready_seconds.unwrap_or(0)));
    Some(wanted.saturating_sub(now.duration_since(since))).filter(SignedDuration::is_positive)
}

/// Copies addresses and milestones from the infrastructure. Absent ones leave the status unchanged.
fn copy(status: &mut MachineStatus, observed: &Observed, bootstrapped: bool) {
    let initialization = status.initialization.get_or_insert_with(MachineInitialization::default);
    if bootstrapped {
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
    if let Some(found) = observed.node.found() {
        status.node_ref = Some(NodeReference { name: found.name_any() });
        status.node_info = node::info(found).or_else(|| status.node_info.take());
    }
}

/// Returns the failure domain of a server that exists: the zone that the cloud reports on its Node, or the requested one.
fn failure_domain(machine: &Machine, observed: &Observed) -> Option<String> {
    let zone = observed.node.found().and_then(|node| node.labels().get(ZONE_LABEL));
    let requested = machine.spec.failure_domain.as_ref().filter(|_| observed.provisioned());
    zone.or(requested).filter(|domain| !domain.is_empty()).cloned()
}

/// Returns when the certificates of a control plane Machine expire. An annotation on the Machine itself wins. Without
/// one, the expiry is not known any more.
fn certificates_expiry(machine: &Machine, observed: &Observed) -> Option<String> {
    if !machine.labels().contains_key(CONTROL_PLANE_LABEL) {
        return None;
    }
    let (_, found) = expiry_annotation(machine, observed)?;
    let expiry: Timestamp = found.parse().ok()?;
    Some(expiry.to_string())
}

/// Returns the annotation with the expiry, and the kind of the object that has it.
fn expiry_annotation<'a>(machine: &'a Machine, observed: &'a Observed) -> Option<(&'static str, &'a str)> {
    let own = machine.annotations().get(CERTIFICATES_EXPIRY_ANNOTATION).map(|text| ("Machine", text));
    let config = observed.bootstrap.as_ref();
    let of_config = || Some(("KubeadmConfig", config?.annotations().get(CERTIFICATES_EXPIRY_ANNOTATION)?));
    own.or_else(of_config).map(|(kind, text)| (kind, text.as_str()))
}

/// Describes an annotation with the expiry of the certificates that is no time.
pub(super) fn invalid_expiry(machine: &Machine, observed: &Observed) -> Option<String> {
    if !machine.labels().contains_key(CONTROL_PLANE_LABEL) {
        return None;
    }
    let (kind, text) = expiry_annotation(machine, observed)?;
    let error = text.parse::<Timestamp>().err()?;
    Some(format!(
        "annotation {CERTIFICATES_EXPIRY_ANNOTATION} of the {kind} is {text:?}, which is no time: {error}. Write a time \
         like 2027-01-01T00:00:00Z, or remove the annotation"
    ))
}

/// Records when a wait for hooks began.
fn begin_wait(status: &mut MachineStatus, step: &Step, now: &Time) {
    let Step::WaitForHook(stage, _) = step else { return };
    let deletion = status.deletion.get_or_insert_default();
    let field = match stage {
        Stage::PreDrainHook => &mut deletion.wait_for_pre_drain_hook_start_time,
        _ => &mut deletion.wait_for_pre_terminate_hook_start_time,
    };
    field.get_or_insert_with(|| now.clone());
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
        None if running && conditions::is_updating(machine, observed) => MachinePhase::Updating,
        None if running => MachinePhase::Running,
        None if provisioned || machine.spec.provider_id.is_some() => MachinePhase::Provisioned,
        None if is_bootstrapped(machine) => MachinePhase::Provisioning,
        None => MachinePhase::Pending,
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Gate, MachineSpec, OpenStackMachine, Polarity};
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_expiry_of_certificates_follows_the_annotation_of_control_plane_machines() {
        let mut machine = Machine::new("m", MachineSpec::default());
        let key = CERTIFICATES_EXPIRY_ANNOTATION.to_owned();
        machine.annotations_mut().insert(key.clone(), "2027-01-01T00:00:00Z".to_owned());
        let expiry = |machine: &mut Machine| {
            report(machine, &Observed::default(), &Step::Nothing, &Time::default());
            machine.status.as_ref().and_then(|it| it.certificates_expiry_date.clone())
        };
        assert_eq!(expiry(&mut machine), None, "a worker has no such certificates");
        machine.labels_mut().insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
        assert_eq!(expiry(&mut machine), Some(Time("2027-01-01T00:00:00Z".to_owned())));
        machine.annotations_mut().insert(key.clone(), "in a year".to_owned());
        assert_eq!(expiry(&mut machine), None);
        let text = invalid_expiry(&machine, &Observed::default()).unwrap();
        assert!(text.contains("of the Machine is \"in a year\", which is no time"), "{text}");
        machine.annotations_mut().remove(&key);
        assert_eq!(expiry(&mut machine), None);
        assert_eq!(invalid_expiry(&machine, &Observed::default()), None);
    }

    #[test]
    fn only_bootstrap_data_that_was_created_reaches_the_milestone() {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.bootstrap.data_secret_name = Some("data".to_owned());
        let created = |machine: &mut Machine| {
            report(machine, &Observed::default(), &Step::Nothing, &Time::default());
            let status = machine.status.as_ref().unwrap();
            status.initialization.as_ref().and_then(|it| it.bootstrap_data_secret_created)
        };
        assert_eq!(created(&mut machine), None, "the user gave it");
        assert_eq!(machine.status.as_ref().unwrap().phase, Some(MachinePhase::Provisioning));
        machine.spec.bootstrap.config_ref = Some(Default::default());
        assert_eq!(created(&mut machine), Some(true));
    }

    #[test]
    fn the_failure_domain_is_that_of_the_server_as_soon_as_it_exists() {
        use crate::machine::node::NodeObservation;
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.failure_domain = Some("az1".to_owned());
        let domain = |machine: &mut Machine, observed: &Observed| {
            report(machine, observed, &Step::Nothing, &Time::default());
            machine.status.as_ref().and_then(|it| it.failure_domain.clone())
        };
        let mut observed = Observed::default();
        assert_eq!(domain(&mut machine, &observed), None, "no server exists");
        let mut server = OpenStackMachine::new("m", Default::default());
        server.status = serde_json::from_value(json!({"initialization": {"provisioned": true}})).unwrap();
        observed.infrastructure = Some(server);
        assert_eq!(domain(&mut machine, &observed).as_deref(), Some("az1"));
        let mut node = Node::default();
        node.labels_mut().insert(ZONE_LABEL.to_owned(), "az2".to_owned());
        observed.node = NodeObservation::Found(Box::new(node));
        assert_eq!(domain(&mut machine, &observed).as_deref(), Some("az2"), "where it really runs");
        assert_eq!(domain(&mut machine, &Observed::default()).as_deref(), Some("az2"), "it does not move");
    }

    #[test]
    fn a_machine_with_a_provider_id_is_provisioned_whatever_its_server_says() {
        let mut machine = Machine::new("m", MachineSpec::default());
        let phase = |machine: &mut Machine| {
            report(machine, &Observed::default(), &Step::Nothing, &Time::default());
            machine.status.as_ref().and_then(|it| it.phase)
        };
        assert_eq!(phase(&mut machine), Some(MachinePhase::Pending));
        machine.spec.bootstrap.data_secret_name = Some("data".to_owned());
        assert_eq!(phase(&mut machine), Some(MachinePhase::Provisioning));
        machine.spec.provider_id = Some("openstack:///1".to_owned());
        assert_eq!(phase(&mut machine), Some(MachinePhase::Provisioned));
    }

    #[test]
    fn a_machine_that_is_updated_in_place_says_so_and_is_not_ready() {
        let mut machine = Machine::new("m", MachineSpec::default());
        let status = json!({"nodeRef": {"name": "n"}, "initialization": {"infrastructureProvisioned": true}});
        machine.status = serde_json::from_value(status).unwrap();
        machine.annotations_mut().insert(crate::machine_labels::UPDATING.to_owned(), String::new());
        report(&mut machine, &Observed::default(), &Step::Nothing, &Time::default());
        let found = machine.condition("Updating").unwrap();
        assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::True, "InPlaceUpdating"));
        assert_eq!(machine.status.as_ref().unwrap().phase, Some(MachinePhase::Updating));
        let ready = machine.condition("Ready").unwrap();
        assert!(ready.message.contains("* Updating: In-place update in progress"), "{ready:?}");
        machine.annotations_mut().clear();
        report(&mut machine, &Observed::default(), &Step::Nothing, &Time::default());
        assert_eq!(machine.status.as_ref().unwrap().phase, Some(MachinePhase::Running));
        assert_eq!(machine.condition("Updating").unwrap().reason, "NotUpdating");
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
