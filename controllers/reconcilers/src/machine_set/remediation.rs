//! Remediation of unhealthy Machines: which are deleted, and which have to wait. Pure.

use std::cmp::Reverse;

use apiserver_types::{Condition, ConditionStatus, IntOrString, Machine, MachineDeployment};
use kube::ResourceExt;

use crate::machine_labels::REMEDIATE;
use crate::replica_status::{is_deleting, is_false, needs_remediation};

/// Reason of a Machine that is being replaced.
pub(super) const DELETING: &str = "MachineDeleting";

/// Reason of a Machine that has to wait.
const DEFERRED: &str = "RemediationDeferred";

/// Mark on a Machine: its condition OwnerRemediated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub name: String,
    pub reason: &'static str,
    pub message: String,
}

/// Plan of a remediation. Marks that are there already are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Remediation {
    /// Machines that are healthy again. Their condition is removed.
    pub recovered: Vec<String>,
    pub marks: Vec<Mark>,
    /// Machines to delete, after they are marked.
    pub deletions: Vec<String>,
}

impl Remediation {
    /// Returns true if nothing is to be done.
    pub(super) fn is_empty(&self) -> bool {
        self.recovered.is_empty() && self.marks.is_empty() && self.deletions.is_empty()
    }
}

/// Circumstances of a remediation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances<'a> {
    /// The set has the present template of its MachineDeployment.
    pub is_current: bool,
    /// Limit of remediations at the same time, and the value that it comes from.
    pub limit: Option<(usize, &'a IntOrString)>,
    /// Texts of the preflight checks that fail.
    pub preflight: &'a [String],
}

/// Plans the remediation of a set's Machines.
pub(super) fn plan(machines: &[Machine], circumstances: &Circumstances<'_>) -> Remediation {
    let recovered = machines.iter().filter(|machine| {
        machine.condition("HealthCheckSucceeded").is_some_and(Condition::holds)
            && is_false(machine, "OwnerRemediated")
    });
    let mut plan = Remediation { recovered: names(recovered), ..Remediation::default() };
    let mut todo: Vec<&Machine> =
        machines.iter().filter(|it| needs_remediation(it) && !is_deleting(it)).collect();
    if !circumstances.is_current {
        let message = "Machine won't be remediated because it is pending removal due to rollout";
        mark(&mut plan, &todo, "CannotBeRemediated", message);
        return plan;
    }
    todo.sort_by_key(|machine| {
        let created = machine.metadata.creation_timestamp.as_ref().map(|created| created.0);
        (!machine.annotations().contains_key(REMEDIATE), Reverse(created), machine.name_any())
    });
    let now = todo.len().min(room(machines, circumstances));
    let (now, later) = todo.split_at(now);
    let limit = circumstances.limit.map(|(_, text)| text_of(text)).unwrap_or_default();
    let message = format!(
        "Waiting because there are already too many remediations in progress \
         (spec.remediation.maxInFlight is {limit})"
    );
    mark(&mut plan, later, DEFERRED, &message);
    if !circumstances.preflight.is_empty() {
        let lines: Vec<String> = circumstances.preflight.iter().map(|text| format!("* {text}")).collect();
        mark(&mut plan, now, DEFERRED, &lines.join("\n"));
        return plan;
    }
    mark(&mut plan, now, DELETING, "Machine is deleting");
    plan.deletions = names(now.iter().copied());
    plan
}

/// Returns the limit of the remediations of a MachineDeployment's Machines at the same time.
pub(super) fn limit(deployment: Option<&MachineDeployment>) -> Option<(usize, &IntOrString)> {
    let deployment = deployment?;
    let value = deployment.spec.remediation.as_ref()?.max_in_flight.as_ref()?;
    let replicas = i64::from(deployment.spec.replicas.unwrap_or(1));
    let limit = crate::replica_counts::scaled(value, replicas, true)?;
    Some((usize::try_from(limit).unwrap_or_default(), value))
}

/// Returns how many Machines may be remediated now, beside those that already are.
fn room(machines: &[Machine], circumstances: &Circumstances<'_>) -> usize {
    let Some((limit, _)) = circumstances.limit else { return usize::MAX };
    // One that is marked, and not deleted because the pass was interrupted, is still to be deleted.
    let in_flight = machines.iter().filter(|machine| {
        is_deleting(machine) && machine.condition("OwnerRemediated").is_some_and(|it| it.reason == DELETING)
    });
    limit.saturating_sub(in_flight.count())
}

fn mark(plan: &mut Remediation, machines: &[&Machine], reason: &'static str, message: &str) {
    let due = machines.iter().filter(|machine| {
        let known = machine.condition("OwnerRemediated");
        known.is_none_or(|it| {
            it.status != ConditionStatus::False || it.reason != reason || it.message != message
        })
    });
    plan.marks.extend(due.map(|it| Mark { name: it.name_any(), reason, message: message.to_owned() }));
}

fn names<'a>(machines: impl Iterator<Item = &'a Machine>) -> Vec<String> {
    machines.map(ResourceExt::name_any).collect()
}

fn text_of(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineSpec, MachineStatus, Time};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn machine(name: &str, second: i64, healthy: ConditionStatus, reason: &str) -> Machine {
        let of = |kind, status, reason| Condition::new(kind, status, reason, "", Time::default());
        let mut machine = Machine::new(name, MachineSpec::default());
        machine.metadata.creation_timestamp = Some(Instant(Timestamp::from_second(second).unwrap()));
        let conditions = vec![
            of("HealthCheckSucceeded", healthy, "Health"),
            of("OwnerRemediated", ConditionStatus::False, reason),
        ];
        machine.status = Some(MachineStatus { conditions: Some(conditions), ..MachineStatus::default() });
        machine
    }

    fn all() -> Vec<Machine> {
        let no = ConditionStatus::False;
        let mut asked = machine("asked", 1, no, "WaitingForRemediation");
        asked.annotations_mut().insert(REMEDIATE.to_owned(), String::new());
        vec![
            machine("old", 2, no, "WaitingForRemediation"),
            machine("new", 3, no, "WaitingForRemediation"),
            asked,
            machine("well", 4, ConditionStatus::True, "WaitingForRemediation"),
        ]
    }

    fn deleting(name: &str) -> Machine {
        let mut machine = machine(name, 5, ConditionStatus::False, DELETING);
        machine.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
        machine
    }

    #[test]
    fn the_limit_decides_how_many_machines_are_deleted_at_the_same_time() {
        let (one, none) = (IntOrString::Int(1), IntOrString::Int(0));
        let (mut busy, one_left) = (all(), vec!["asked"]);
        busy.push(deleting("d"));
        let table = [
            ("no limit", all(), None, vec!["asked", "new", "old"]),
            ("one", all(), Some((1, &one)), one_left.clone()),
            ("one, in use", busy.clone(), Some((1, &one)), vec![]),
            ("two, one in use", busy, Some((2, &one)), one_left),
            ("zero", all(), Some((0, &none)), vec![]),
        ];
        for (case, machines, limit, expected) in table {
            let plan = plan(&machines, &Circumstances { is_current: true, limit, preflight: &[] });
            assert_eq!(plan.deletions, expected, "{case}");
            assert_eq!(plan.recovered, ["well"], "{case}");
            assert_eq!(plan.marks.len(), 3, "{case}: every Machine has a mark");
        }
    }

    #[test]
    fn machines_wait_while_a_preflight_check_fails_or_their_template_is_an_old_one() {
        let preflight = ["busy".to_owned()];
        let plan_of =
            |is_current, preflight| plan(&all(), &Circumstances { is_current, limit: None, preflight });
        let waiting = plan_of(true, &preflight);
        assert_eq!(waiting.deletions, [""; 0]);
        assert!(waiting.marks.iter().all(|mark| mark.reason == DEFERRED && mark.message == "* busy"));
        let outdated = plan_of(false, &[]);
        assert_eq!(outdated.deletions, [""; 0]);
        assert!(outdated.marks.iter().all(|mark| mark.reason == "CannotBeRemediated"));
    }

    #[test]
    fn a_mark_that_is_there_is_not_written_again() {
        let mut machines = vec![machine("m", 1, ConditionStatus::False, "CannotBeRemediated")];
        let circumstances = Circumstances { is_current: false, limit: None, preflight: &[] };
        let message = plan(&machines, &circumstances).marks[0].message.clone();
        machines[0].status.as_mut().unwrap().conditions.as_mut().unwrap()[1].message = message;
        assert!(plan(&machines, &circumstances).is_empty());
    }
}
