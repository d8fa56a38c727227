//! Conditions of a Cluster over many objects: Machines, and the objects that own them.

use apiserver_types::{Condition, ConditionStatus, Machine, MachineSet, Polarity, Time};
use jiff::SignedDuration;
use kube::ResourceExt;

use super::observe::Observed;
use crate::aggregate::{NAMES, Source, Target, aggregate, list_names, plural};

/// Age from which a Machine without the condition UpToDate counts as unknown. Upstream's value.
const JUDGED: SignedDuration = SignedDuration::from_secs(10);

/// Condition of many objects, with the reasons of its three states.
const fn target<'a>(
    kind: &'a str,
    source: &'a str,
    polarity: Polarity,
    [issue, unknown, fine]: [&'a str; 3],
) -> Target<'a> {
    Target { kind, source, polarity, issue, unknown, fine }
}

pub(super) fn workers_available(observed: &Observed, now: &Time) -> Condition {
    let kind = "WorkersAvailable";
    if observed.deployments.is_empty() {
        return Condition::new(kind, ConditionStatus::True, "NoWorkers", "", now.clone());
    }
    let names: Vec<String> = observed.deployments.iter().map(ResourceExt::name_any).collect();
    let sources = observed.deployments.iter().zip(&names).map(|(deployment, name)| Source {
        kind: "MachineDeployment",
        name,
        condition: deployment.condition("Available"),
        control_plane: false,
    });
    let reasons = ["NotAvailable", "AvailableUnknown", "Available"];
    let target = target(kind, "Available", Polarity::Positive, reasons);
    aggregate(&target, &sources.collect::<Vec<_>>(), now)
}

fn sources<'a>(machines: &'a [Machine], names: &'a [String], kind: &str) -> Vec<Source<'a>> {
    let pairs = machines.iter().zip(names);
    let sources = pairs.map(|(machine, name)| Source {
        kind: "Machine",
        name,
        condition: machine.condition(kind),
        control_plane: machine.labels().contains_key(crate::CONTROL_PLANE_LABEL),
    });
    sources.collect()
}

pub(super) fn machines_ready(kind: &str, machines: &[Machine], now: &Time) -> Condition {
    if machines.is_empty() {
        return Condition::new(kind, ConditionStatus::True, "NoReplicas", "", now.clone());
    }
    let names: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
    let target = target(kind, "Ready", Polarity::Positive, ["NotReady", "ReadyUnknown", "Ready"]);
    aggregate(&target, &sources(machines, &names, "Ready"), now)
}

pub(super) fn machines_up_to_date(
    kind: &str,
    machines: &[Machine],
    observed: &Observed,
    now: &Time,
) -> Condition {
    let is_judged = |machine: &&Machine| {
        let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let is_old = created.is_some_and(|at| observed.now.duration_since(at) > JUDGED);
        machine.condition("UpToDate").is_some()
            || is_old && crate::ownership::controller_of(*machine).is_some()
    };
    let machines: Vec<Machine> = machines.iter().filter(is_judged).cloned().collect();
    if machines.is_empty() {
        return Condition::new(kind, ConditionStatus::True, "NoReplicas", "", now.clone());
    }
    let names: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
    let reasons = ["NotUpToDate", "UpToDateUnknown", "UpToDate"];
    let target = target(kind, "UpToDate", Polarity::Positive, reasons);
    aggregate(&target, &sources(&machines, &names, "UpToDate"), now)
}

/// Aggregates one of RollingOut, ScalingUp and ScalingDown over control plane, MachineDeployments and the MachineSets
/// without one. A MachineSet does not roll out.
pub(super) fn movement(kind: &str, observed: &Observed, now: &Time) -> Condition {
    let sets: &[MachineSet] = if kind == "RollingOut" { &[] } else { &observed.sets };
    let mut names: Vec<String> = observed.deployments.iter().map(ResourceExt::name_any).collect();
    names.extend(sets.iter().map(ResourceExt::name_any));
    names.extend(observed.control_plane.as_ref().map(ResourceExt::name_any));
    let sets = sets.iter().map(|it| ("MachineSet", it.condition(kind)));
    let deployments = observed.deployments.iter().map(|it| ("MachineDeployment", it.condition(kind)));
    // A control plane that does not report the condition is left out.
    let control_plane = observed.control_plane.as_ref().map(|it| ("KubeadmControlPlane", it.condition(kind)));
    let all = deployments.chain(sets).chain(control_plane).zip(&names);
    let sources = all.filter(|((of, condition), _)| *of != "KubeadmControlPlane" || condition.is_some());
    let sources: Vec<Source<'_>> = sources
        .map(|((kind, condition), name)| Source {
            kind,
            name,
            condition,
            control_plane: kind == "KubeadmControlPlane",
        })
        .collect();
    let (not, unknown) = (format!("Not{kind}"), format!("{kind}Unknown"));
    aggregate(&target(kind, kind, Polarity::Negative, [kind, &unknown, &not]), &sources, now)
}

pub(super) fn remediating(observed: &Observed, now: &Time) -> Condition {
    let kind = "Remediating";
    let machines = || observed.control_plane_machines.iter().chain(&observed.workers);
    let is_false = |machine: &Machine, kind| {
        machine.condition(kind).is_some_and(|it| it.status == ConditionStatus::False)
    };
    let unhealthy = |machine: &&Machine| is_false(machine, "HealthCheckSucceeded");
    let remediated: Vec<Machine> = machines()
        .filter(unhealthy)
        .filter(|machine| is_false(machine, "OwnerRemediated"))
        .cloned()
        .collect();
    if remediated.is_empty() {
        let names: Vec<String> = machines().filter(unhealthy).map(ResourceExt::name_any).collect();
        let message = match names.len() {
            0 => String::new(),
            count => {
                let list = list_names(names.iter().map(String::as_str), NAMES);
                let verb = if count == 1 { "is" } else { "are" };
                format!("{} {list} {verb} not healthy (not to be remediated)", plural("Machine", count))
            }
        };
        return Condition::new(kind, ConditionStatus::False, "NotRemediating", &message, now.clone());
    }
    let names: Vec<String> = remediated.iter().map(ResourceExt::name_any).collect();
    let reasons = ["Remediating", "Remediating", "Remediating"];
    let target = target(kind, "OwnerRemediated", Polarity::Positive, reasons);
    let found = aggregate(&target, &sources(&remediated, &names, "OwnerRemediated"), now);
    Condition { status: ConditionStatus::True, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_no_owner_replaces_are_named_as_not_healthy() {
        let unhealthy = |name: &str| {
            let mut machine = Machine::new(name, Default::default());
            let failed = Condition::new(
                "HealthCheckSucceeded",
                ConditionStatus::False,
                "NodeConditionFailed",
                "",
                Time::default(),
            );
            machine.status.get_or_insert_default().conditions = Some(vec![failed]);
            machine
        };
        let of = |workers: Vec<Machine>| {
            remediating(&Observed { workers, ..Observed::default() }, &Time::default()).message
        };
        let one = of(vec![unhealthy("a")]);
        assert_eq!(one, "Machine a is not healthy (not to be remediated)");
        let two = of(vec![unhealthy("b"), unhealthy("a")]);
        assert_eq!(two, "Machines a, b are not healthy (not to be remediated)");
    }
}
