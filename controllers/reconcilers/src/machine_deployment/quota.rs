//! Quota that a MachineDeployment lacks, as part of the condition ScalingUp and of plans. Pure.

use apiserver_types::{Condition, ConditionStatus, Machine, MachineDeployment};

use super::observe::Observed;
use crate::aggregate::{NAMES, list_names, plural};
use crate::preflight::QUOTA_EXCEEDED;
use crate::replica_status::is_deleting;

/// Begin of the line about a rollout whose surplus Machine has no room.
const NO_SURGE: &str = "The rollout goes on without maxSurge: ";

/// Adds to the condition ScalingUp why a rollout makes no surplus Machine, and the Machines that wait for quota.
pub(super) fn explained(
    condition: Condition,
    deployment: &MachineDeployment,
    observed: &Observed,
) -> Condition {
    let surge = observed.shortage.iter().map(|text| format!("{NO_SURGE}{text}"));
    let lines: Vec<String> = surge.chain(waiting(observed)).collect();
    if lines.is_empty() || deployment.metadata.deletion_timestamp.is_some() {
        return condition;
    }
    let lines = lines.join("\n* ");
    let message = if condition.holds() { format!("{}\n* {lines}", condition.message) } else { lines };
    let yes = ConditionStatus::True;
    Condition::new(&condition.kind, yes, "ScalingUp", &message, condition.last_transition_time.clone())
}

/// Returns the line about the Machines that wait for quota, with the text of the first one. Such Machines exist already,
/// but the cloud has nothing of them.
pub(super) fn waiting(observed: &Observed) -> Option<String> {
    let machines = observed.machines.iter().filter(|it| !is_deleting(it));
    let mut waiting: Vec<(&str, &str)> = machines.filter_map(shortage).collect();
    waiting.sort_unstable();
    let (_, text) = waiting.first()?;
    let (noun, verb) = (plural("Machine", waiting.len()), if waiting.len() == 1 { "waits" } else { "wait" });
    let names = list_names(waiting.iter().map(|(name, _)| *name), NAMES);
    Some(format!("{noun} {names} {verb} for quota: {text}"))
}

/// Returns the reported line about a rollout whose surplus Machine has no room. A plan repeats it.
pub(super) fn reported(deployment: &MachineDeployment) -> Option<&str> {
    let mut lines = deployment.condition("ScalingUp")?.message.lines();
    lines.find_map(|line| {
        let line = line.strip_prefix("* ").unwrap_or(line);
        line.starts_with(NO_SURGE).then_some(line)
    })
}

/// Returns the name of a Machine that waits for quota, and the text about it.
fn shortage(machine: &Machine) -> Option<(&str, &str)> {
    let condition = machine.condition("InfrastructureReady")?;
    let is_short = condition.status == ConditionStatus::False && condition.reason == QUOTA_EXCEEDED;
    is_short.then(|| (machine.metadata.name.as_deref().unwrap_or_default(), condition.message.as_str()))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineDeploymentSpec, MachineSpec, MachineStatus, Time};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn machine(name: &str, status: ConditionStatus, reason: &str) -> Machine {
        let text = "spec.flavor needs 4 cores, 1 left of 40 (project quota)";
        let condition = Condition::new("InfrastructureReady", status, reason, text, Time::default());
        let mut machine = Machine::new(name, MachineSpec::default());
        machine.status =
            Some(MachineStatus { conditions: Some(vec![condition]), ..MachineStatus::default() });
        machine
    }

    #[test]
    fn a_surge_without_room_is_reported_and_a_plan_finds_the_line_again() {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        let short = "in project p, spec.flavor needs 4 cores, 1 left of 40";
        let waits = machine("a", ConditionStatus::False, QUOTA_EXCEEDED);
        let no = Condition::new("ScalingUp", ConditionStatus::False, "R", "", Time::default());
        let alone = Observed { shortage: Some(short.to_owned()), ..Observed::default() };
        let condition = explained(no.clone(), &deployment, &alone);
        let line = format!("The rollout goes on without maxSurge: {short}");
        assert_eq!((condition.holds(), &condition.message), (true, &line));
        assert_eq!(reported(&deployment), None);
        let both = Observed { machines: vec![waits], ..alone };
        let condition = explained(condition, &deployment, &both);
        assert_eq!(condition.message.matches(&line).count(), 2, "{}", condition.message);
        let condition = explained(no, &deployment, &both);
        let rest = condition.message.strip_prefix(&format!("{line}\n* ")).unwrap();
        assert!(rest.starts_with("Machine a waits for quota: "), "{rest}");
        deployment.status.get_or_insert_default().conditions = Some(vec![condition]);
        assert_eq!(reported(&deployment), Some(line.as_str()));
    }

    #[test]
    fn machines_that_wait_for_quota_are_named_with_the_numbers() {
        use ConditionStatus::{False, True};
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        let told = |deployment: &MachineDeployment, status, message: &str, machines: Vec<Machine>| {
            let condition = Condition::new("ScalingUp", status, "R", message, Time::default());
            let observed = Observed { machines, ..Observed::default() };
            let found = explained(condition, deployment, &observed);
            (found.status, found.message)
        };
        let short = |name: &str| machine(name, False, QUOTA_EXCEEDED);
        let text = "for quota: spec.flavor needs 4 cores, 1 left of 40 (project quota)";
        let one = told(&deployment, False, "", vec![machine("a", True, "Ready"), short("b")]);
        assert_eq!(one, (True, format!("Machine b waits {text}")));
        let two = told(&deployment, True, "Scaling up from 2 to 3 replicas", vec![short("b"), short("a")]);
        assert_eq!(two, (True, format!("Scaling up from 2 to 3 replicas\n* Machines a, b wait {text}")));
        let mut gone = short("a");
        gone.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
        let others = vec![gone, machine("b", False, "Building"), machine("c", True, QUOTA_EXCEEDED)];
        assert_eq!(told(&deployment, False, "", others), (False, String::new()));
        deployment.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
        assert_eq!(told(&deployment, False, "", vec![short("a")]), (False, String::new()));
    }
}
