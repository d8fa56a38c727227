//! Remediation of unhealthy Machines: which are deleted, and which have to wait. Pure.

use std::cmp::Reverse;
use std::time::Duration;

use apiserver_types::{Condition, ConditionStatus, Machine};
use kube::ResourceExt;

use super::chains::{Chains, Obstacle};
use super::limits::Limit;
use crate::machine_labels::REMEDIATE;
use crate::replica_status::{is_deleting, is_false, needs_remediation};
use crate::rollout_gate::Hold;
use crate::{protection, remediation_urgency};

/// Reason of a Machine that is being replaced.
pub(super) const DELETING: &str = "MachineDeleting";

/// Reason of a Machine that has to wait.
const DEFERRED: &str = "RemediationDeferred";

/// Reason of a Machine that is not replaced any more, because its replacements were unhealthy, too.
pub(super) const EXHAUSTED: &str = "RemediationExhausted";

/// Interval of a set that waits for the remediations of other sets. Their Machines do not wake it.
const OTHERS: Duration = Duration::from_secs(15);

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
    /// Machines that are healthy again, and not being deleted. Their condition is removed.
    pub recovered: Vec<String>,
    pub marks: Vec<Mark>,
    /// Chains of remediations, to be recorded before the Machines are deleted.
    pub chains: Option<String>,
    /// Machines to delete, after they are marked.
    pub deletions: Vec<String>,
    /// Time after which the decision may be another one, although no object of the set changes.
    pub wait: Option<Duration>,
}

impl Remediation {
    /// Returns true if nothing is to be done.
    pub(super) fn is_empty(&self) -> bool {
        self.recovered.is_empty() && self.marks.is_empty() && self.deletions.is_empty()
    }
}

/// Circumstances of a remediation.
#[derive(Debug, Clone)]
pub(super) struct Circumstances<'a> {
    /// The set has the present template of its MachineDeployment.
    pub is_current: bool,
    /// Limits of remediations at the same time. The lowest one wins.
    pub limits: Vec<&'a Limit>,
    /// Texts of the preflight checks that fail.
    pub preflight: &'a [String],
    /// Chains of the set, if its retries have settings.
    pub chains: Option<Chains>,
    /// Hold of remediations that are not urgent, outside the maintenance window.
    pub hold: Option<Hold>,
}

/// Plans the remediation of a set's Machines.
pub(super) fn plan(machines: &[Machine], mut circumstances: Circumstances<'_>) -> Remediation {
    // One that is being deleted keeps the mark, by which it counts as in flight.
    let recovered = machines.iter().filter(|machine| {
        machine.condition("HealthCheckSucceeded").is_some_and(Condition::holds)
            && is_false(machine, "OwnerRemediated")
            && !is_deleting(machine)
    });
    let mut plan = Remediation { recovered: names(recovered), ..Remediation::default() };
    let mut todo: Vec<&Machine> =
        machines.iter().filter(|it| needs_remediation(it) && !is_deleting(it)).collect();
    if !circumstances.is_current {
        let message = "Machine won't be remediated because it is pending removal due to rollout";
        todo.into_iter().for_each(|machine| mark(&mut plan, machine, "CannotBeRemediated", message));
        return plan;
    }
    todo.sort_by_key(|machine| {
        let created = machine.metadata.creation_timestamp.as_ref().map(|created| created.0);
        (!machine.annotations().contains_key(REMEDIATE), Reverse(created), machine.name_any())
    });
    let lowest = lowest(machines, &circumstances.limits);
    let checks: Vec<String> = circumstances.preflight.iter().map(|text| format!("* {text}")).collect();
    let mut taken = 0;
    for machine in todo {
        // The server would refuse its deletion, and the set would make no further step.
        if let Some(note) = protection::note(std::slice::from_ref(machine)) {
            mark(&mut plan, machine, DEFERRED, &note);
            continue;
        }
        if let Some(hold) = circumstances.hold.as_ref().filter(|_| !remediation_urgency::is_urgent(machine)) {
            let message = format!("Waiting because it is not urgent. {}", hold.message);
            mark(&mut plan, machine, DEFERRED, &message);
            plan.wait = plan.wait.into_iter().chain(hold.wait).min();
            continue;
        }
        if let Some(Err(obstacle)) = circumstances.chains.as_mut().map(|chains| chains.judge(machine)) {
            stop(&mut plan, machine, obstacle);
            continue;
        }
        if let Some((_, limit)) = lowest.filter(|(room, _)| *room <= taken) {
            let message = format!(
                "Waiting because there are already too many remediations in progress ({})",
                limit.text
            );
            mark(&mut plan, machine, DEFERRED, &message);
            plan.wait = plan.wait.into_iter().chain(limit.elsewhere.map(|_| OTHERS)).min();
            continue;
        }
        taken += 1;
        if !checks.is_empty() {
            mark(&mut plan, machine, DEFERRED, &checks.join("\n"));
            continue;
        }
        mark(&mut plan, machine, DELETING, "Machine is deleting");
        plan.deletions.push(machine.name_any());
        if let Some(chains) = &mut circumstances.chains {
            chains.add(machine);
        }
    }
    plan.chains = circumstances.chains.filter(|_| !plan.deletions.is_empty()).map(|it| it.text(machines));
    plan
}

/// Returns true if a Machine is being replaced. One that is marked, and not deleted because the pass was interrupted, is
/// still to be deleted.
pub(super) fn is_in_flight(machine: &Machine) -> bool {
    is_deleting(machine) && machine.condition("OwnerRemediated").is_some_and(|it| it.reason == DELETING)
}

/// Returns how many Machines may be remediated now, beside those that already are, and the limit that says so. `None`:
/// there is no limit.
fn lowest<'a>(machines: &[Machine], limits: &[&'a Limit]) -> Option<(usize, &'a Limit)> {
    let own = machines.iter().filter(|machine| is_in_flight(machine)).count();
    let room = |limit: &'a Limit| {
        let in_flight = own.saturating_add(limit.elsewhere.unwrap_or_default());
        (limit.number.saturating_sub(in_flight), limit)
    };
    limits.iter().copied().map(room).min_by_key(|(room, _)| *room)
}

fn stop(plan: &mut Remediation, machine: &Machine, obstacle: Obstacle) {
    match obstacle {
        Obstacle::Early(message, wait) => {
            mark(plan, machine, DEFERRED, &message);
            plan.wait = Some(plan.wait.map_or(wait, |known| known.min(wait)));
        }
        Obstacle::Exhausted(message) => mark(plan, machine, EXHAUSTED, &message),
    }
}

fn mark(plan: &mut Remediation, machine: &Machine, reason: &'static str, message: &str) {
    let known = machine.condition("OwnerRemediated");
    let is_due = known
        .is_none_or(|it| it.status != ConditionStatus::False || it.reason != reason || it.message != message);
    if is_due {
        plan.marks.push(Mark { name: machine.name_any(), reason, message: message.to_owned() });
    }
}

fn names<'a>(machines: impl Iterator<Item = &'a Machine>) -> Vec<String> {
    machines.map(ResourceExt::name_any).collect()
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

    fn deleting(name: &str, healthy: ConditionStatus) -> Machine {
        let mut machine = machine(name, 5, healthy, DELETING);
        machine.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
        machine
    }

    fn circumstances(is_current: bool, preflight: &[String]) -> Circumstances<'_> {
        Circumstances { is_current, limits: Vec::new(), preflight, chains: None, hold: None }
    }

    fn limit(number: usize, elsewhere: Option<usize>) -> Limit {
        Limit { number, text: "maxInFlight is X".to_owned(), elsewhere }
    }

    fn names_of(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn outside_the_window_only_urgent_machines_are_deleted() {
        let mut machines = all();
        for machine in machines.iter_mut().filter(|it| it.name_any() != "old") {
            let conditions = machine.status.as_mut().unwrap().conditions.as_mut().unwrap();
            for kind in ["InfrastructureReady", "NodeReady"] {
                conditions.push(Condition::new(kind, ConditionStatus::True, kind, "", Time::default()));
            }
        }
        let wait = Some(Duration::from_secs(90));
        let hold = Hold { reason: "R", message: "The window begins later".to_owned(), wait };
        let plan = plan(&machines, Circumstances { hold: Some(hold), ..circumstances(true, &[]) });
        assert_eq!(plan.deletions, ["asked", "old"], "marked by a person, and without a Node");
        let deferred = plan.marks.iter().find(|it| it.name == "new").unwrap();
        let expected = "Waiting because it is not urgent. The window begins later";
        assert_eq!((deferred.reason, deferred.message.as_str(), plan.wait), (DEFERRED, expected, wait));
    }

    #[test]
    fn a_protected_machine_waits_and_does_not_keep_the_others() {
        let mut machines = all();
        machines[0].annotations_mut().insert("capstan.dev/protected".to_owned(), "true".to_owned());
        let plan = plan(&machines, circumstances(true, &[]));
        assert_eq!(plan.deletions, ["asked", "new"]);
        let deferred = plan.marks.iter().find(|it| it.name == "old").unwrap();
        assert_eq!(deferred.reason, DEFERRED);
        assert!(deferred.message.contains("capstan.dev/protected: old"), "{}", deferred.message);
    }

    #[test]
    fn the_limit_decides_how_many_machines_are_deleted_at_the_same_time() {
        let (mut busy, one_left) = (all(), vec!["asked"]);
        busy.push(deleting("d", ConditionStatus::False));
        let mut late = all();
        late.push(deleting("d", ConditionStatus::True));
        let (own, shared) = (|number| limit(number, None), |number, used| limit(number, Some(used)));
        let table = [
            ("no limit", all(), vec![], vec!["asked", "new", "old"], None),
            ("one", all(), vec![own(1)], one_left.clone(), None),
            ("one, in use", busy.clone(), vec![own(1)], vec![], None),
            ("one, in use by a Machine that became healthy since", late, vec![own(1)], vec![], None),
            ("two, one in use", busy.clone(), vec![own(2)], one_left.clone(), None),
            ("zero", all(), vec![own(0)], vec![], None),
            ("the Cluster has one", all(), vec![own(2), shared(1, 0)], one_left.clone(), Some(OTHERS)),
            (
                "the Cluster has two, of which another set uses one",
                all(),
                vec![shared(2, 1)],
                one_left,
                Some(OTHERS),
            ),
            (
                "the Cluster has two, and both are in use",
                busy,
                vec![own(3), shared(2, 1)],
                vec![],
                Some(OTHERS),
            ),
            ("the set has less than the Cluster", all(), vec![own(0), shared(9, 0)], vec![], None),
        ];
        for (case, machines, limits, expected, wait) in table {
            let limits = limits.iter().collect();
            let plan = plan(&machines, Circumstances { limits, ..circumstances(true, &[]) });
            assert_eq!((plan.deletions, plan.wait), (names_of(&expected), wait), "{case}");
            assert_eq!(plan.recovered, ["well"], "{case}");
            assert_eq!(plan.marks.len(), 3, "{case}: every Machine has a mark");
            assert_eq!(plan.chains, None, "{case}");
        }
    }

    #[test]
    fn machines_wait_while_a_preflight_check_fails_or_their_template_is_an_old_one() {
        let preflight = ["busy".to_owned()];
        let plan_of = |is_current, preflight| plan(&all(), circumstances(is_current, preflight));
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
        let message = plan(&machines, circumstances(false, &[])).marks[0].message.clone();
        machines[0].status.as_mut().unwrap().conditions.as_mut().unwrap()[1].message = message;
        assert!(plan(&machines, circumstances(false, &[])).is_empty());
    }
}
