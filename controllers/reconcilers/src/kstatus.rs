//! Conditions `Reconciling` and `Stalled`, from which kstatus computes the status of an object for Flux and Helm.
//!
//! They are there only while they are True, and never both, because kstatus takes the first one that it finds. They are
//! computed from the other conditions of the object. Pure.

use apiserver_types::{Condition, ConditionStatus, Time, condition, remove_condition, set_condition};

/// Condition of an object that its controller works on, or waits with. To kstatus, it is in progress.
const RECONCILING: &str = "Reconciling";

/// Condition of an object in which nothing changes until a person acts. To kstatus, it has failed.
const STALLED: &str = "Stalled";

/// Condition with the deadline of a MachineDeployment. It is True also if nothing is left to do.
const PROGRESSING: &str = "Progressing";

/// Reasons of [`PROGRESSING`] with which a rollout is no work: nothing is left to do, or `spec.paused` stops it.
const SETTLED: [&str; 2] = ["Complete", "RolloutPaused"];

/// Conditions that are True while the number of Machines is adjusted, or unhealthy ones are replaced.
const MOVES: [&str; 3] = ["Remediating", "ScalingUp", "ScalingDown"];

/// Conditions that are True when the work is done. An object need not have all of them.
const GOALS: [&str; 5] =
    ["Ready", "Available", "MachinesReady", "ControlPlaneMachinesReady", "WorkerMachinesReady"];

/// Conditions whose reason can be one of [`BY_PERSON`], besides `RollingOut`.
const DECISIVE: [&str; 4] = [PROGRESSING, "Ready", "InfrastructureReady", "ControlPlaneAvailable"];

/// Reason of a rollout that a setting forbids. Other changes of the Machines go on.
const BLOCKED: &str = "RolloutBlocked";

/// Reasons with which a person has to act, by their pages. Flux and Helm end their wait with them. So a reason that can
/// also end without a person is not in the list.
const BY_PERSON: [&str; 7] = [
    BLOCKED,
    "MarkInUse",
    "NetworkLost",
    "ProgressDeadlineExceeded",
    "ProjectChanged",
    "SecurityGroupRuleInvalid",
    "UnknownKind",
];

/// Sets the condition that follows from the other ones, and removes the one that does not. `work` has reason and message of
/// work that the other conditions do not show.
pub(crate) fn report(
    conditions: &mut Vec<Condition>,
    work: Option<(&str, &str)>,
    generation: Option<i64>,
    now: &Time,
) {
    let found = found(conditions, work, now);
    for kind in [RECONCILING, STALLED] {
        if found.as_ref().is_none_or(|found| found.kind != kind) {
            remove_condition(conditions, kind);
        }
    }
    if let Some(found) = found {
        set_condition(conditions, found.at_generation(generation));
    }
}

/// Removes both conditions: no controller works on a paused object.
pub(crate) fn remove(conditions: &mut Vec<Condition>) {
    for kind in [RECONCILING, STALLED] {
        remove_condition(conditions, kind);
    }
}

/// Returns the condition that follows from the other ones, if one does.
fn found(conditions: &[Condition], work: Option<(&str, &str)>, now: &Time) -> Option<Condition> {
    let new = |kind: &str, reason: &str, message: &str| {
        Condition::new(kind, ConditionStatus::True, reason, message, now.clone())
    };
    // The message stays while the state of the work changes.
    let reconciling =
        |source: &Condition| new(RECONCILING, &source.reason, &format!("See the condition {}", source.kind));
    if held(conditions, "Paused").is_some() {
        return None;
    }
    if let Some(deleting) = held(conditions, "Deleting") {
        return Some(reconciling(deleting));
    }
    if let Some(source) = stalled(conditions) {
        return Some(new(STALLED, &source.reason, &source.message));
    }
    let hidden = || work.map(|(reason, message)| new(RECONCILING, reason, message));
    working(conditions).map(reconciling).or_else(hidden)
}

/// Returns the condition of this type if it is True.
fn held<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    condition(conditions, kind).filter(|it| it.holds())
}

/// Reports whether a MachineDeployment has nothing to roll out, or a rollout that is paused. With OnDelete, outdated
/// Machines wait for a person, and the MachineDeployment is complete.
fn is_settled(conditions: &[Condition]) -> bool {
    condition(conditions, PROGRESSING).is_some_and(|it| SETTLED.contains(&it.reason.as_str()))
}

/// Returns the condition of a rollout that is not finished.
fn rolling_out(conditions: &[Condition]) -> Option<&Condition> {
    held(conditions, "RollingOut").filter(|_| !is_settled(conditions))
}

/// Returns the first condition by which the number or the health of Machines is repaired.
fn moving(conditions: &[Condition]) -> Option<&Condition> {
    MOVES.iter().find_map(|kind| held(conditions, kind))
}

/// Returns the condition with which a person has to act.
fn stalled(conditions: &[Condition]) -> Option<&Condition> {
    let is_moving = moving(conditions).is_some();
    let decisive = DECISIVE.iter().filter_map(|kind| condition(conditions, kind));
    decisive
        .chain(rolling_out(conditions))
        .find(|it| BY_PERSON.contains(&it.reason.as_str()) && (it.reason != BLOCKED || !is_moving))
}

/// Returns the first condition by which work goes on.
fn working(conditions: &[Condition]) -> Option<&Condition> {
    let rollout = rolling_out(conditions).filter(|it| it.reason != BLOCKED);
    let progress = || condition(conditions, PROGRESSING).filter(|_| !is_settled(conditions));
    let missed = || {
        let mut goals = GOALS.iter().filter_map(|kind| condition(conditions, kind));
        goals.find(|it| !it.holds())
    };
    rollout.or_else(|| moving(conditions)).or_else(progress).or_else(missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns conditions from words such as `Ready=False/Creating`.
    fn conditions(text: &str) -> Vec<Condition> {
        let one = |word: &str| {
            let (kind, rest) = word.split_once('=').unwrap();
            let (status, reason) = rest.split_once('/').unwrap();
            let status = match status {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            Condition::new(kind, status, reason, "why", Time::default())
        };
        text.split_whitespace().map(one).collect()
    }

    /// Returns type and reason of the new condition; an empty text without one.
    fn of(text: &str) -> String {
        let found = found(&conditions(text), None, &Time::default());
        found.map(|it| format!("{}/{}", it.kind, it.reason)).unwrap_or_default()
    }

    #[test]
    fn an_object_is_in_progress_until_its_work_is_done() {
        let table = [
            ("", ""),
            ("Available=True/Available MachinesReady=True/Ready RollingOut=False/NotRollingOut", ""),
            ("Available=False/NotAvailable ScalingUp=False/NotScalingUp", "Reconciling/NotAvailable"),
            ("Available=False/NotAvailable ScalingUp=True/ScalingUp", "Reconciling/ScalingUp"),
            ("Available=True/Available MachinesReady=Unknown/ReadyUnknown", "Reconciling/ReadyUnknown"),
            ("RollingOut=True/RollingOut ScalingDown=True/ScalingDown", "Reconciling/RollingOut"),
            ("RollingOut=Unknown/RollingOutUnknown Available=True/Available", ""),
            ("Ready=True/Ready APIEndpointReady=True/LoadBalancerDegraded", ""),
            ("Ready=False/QuotaExceeded NetworkReady=False/QuotaExceeded", "Reconciling/QuotaExceeded"),
            (
                "Deleting=True/WaitingForWorkersDeletion Progressing=False/ProgressDeadlineExceeded",
                "Reconciling/WaitingForWorkersDeletion",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_machine_deployment_is_in_progress_until_it_is_complete() {
        let table = [
            ("Progressing=True/Progressing RollingOut=False/NotRollingOut", "Reconciling/Progressing"),
            ("Progressing=True/Progressing RollingOut=True/RollingOut", "Reconciling/RollingOut"),
            ("Progressing=True/Complete RollingOut=True/RollingOut", ""),
            ("Progressing=Unknown/RolloutPaused RollingOut=True/RolloutBlocked", ""),
            ("Progressing=Unknown/RolloutPaused ScalingUp=True/ScalingUp", "Reconciling/ScalingUp"),
            (
                "Progressing=Unknown/WaitingForMaintenanceWindow Available=True/Available",
                "Reconciling/WaitingForMaintenanceWindow",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn an_object_is_stalled_only_if_a_person_has_to_act() {
        let table = [
            (
                "Progressing=False/ProgressDeadlineExceeded ScalingUp=True/ScalingUp",
                "Stalled/ProgressDeadlineExceeded",
            ),
            ("Progressing=Unknown/RolloutBlocked RollingOut=True/RolloutBlocked", "Stalled/RolloutBlocked"),
            ("RollingOut=True/RolloutBlocked Available=True/Available", "Stalled/RolloutBlocked"),
            ("RollingOut=True/RolloutBlocked ScalingUp=True/ScalingUp", "Reconciling/ScalingUp"),
            ("Ready=False/MarkInUse", "Stalled/MarkInUse"),
            ("Ready=False/NameTaken", "Reconciling/NameTaken"),
            ("InfrastructureReady=False/NetworkLost Available=False/NotAvailable", "Stalled/NetworkLost"),
        ];
        for (text, expected) in table {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_paused_object_has_neither_condition() {
        assert_eq!(of("Paused=True/Paused Available=False/NotAvailable"), "");
        assert_eq!(of("Paused=True/Paused RollingOut=True/RolloutBlocked Deleting=True/Deleting"), "");
        let mut known =
            conditions("Stalled=True/RolloutBlocked Reconciling=True/ScalingUp Paused=True/Paused");
        remove(&mut known);
        assert_eq!(known, conditions("Paused=True/Paused"));
    }

    #[test]
    fn a_condition_changes_only_with_the_work_and_goes_with_it() {
        let at = |minute: u8| Time(format!("2026-11-21T06:{minute:02}:00Z"));
        let mut known = conditions("RollingOut=True/RollingOut");
        report(&mut known, None, Some(3), &at(1));
        let first = known.clone();
        report(&mut known, None, Some(3), &at(2));
        assert_eq!(known, first, "nothing has changed");
        let new = condition(&known, RECONCILING).unwrap();
        assert_eq!(
            (new.message.as_str(), new.observed_generation),
            ("See the condition RollingOut", Some(3))
        );
        set_condition(&mut known, conditions("RollingOut=True/RolloutBlocked").remove(0));
        report(&mut known, None, Some(3), &at(4));
        let kinds: Vec<&str> = known.iter().map(|it| it.kind.as_str()).collect();
        assert_eq!(kinds, ["RollingOut", STALLED]);
        assert_eq!((known[1].message.as_str(), &known[1].last_transition_time), ("why", &at(4)));
        let done = || conditions("RollingOut=False/NotRollingOut").remove(0);
        set_condition(&mut known, done());
        report(&mut known, Some(("ScalingUp", "more")), Some(3), &at(5));
        assert_eq!((known.len(), known[1].reason.as_str()), (2, "ScalingUp"), "work without a condition");
        report(&mut known, None, Some(3), &at(6));
        assert_eq!(known.iter().map(|it| it.kind.as_str()).collect::<Vec<_>>(), ["RollingOut"]);
    }
}
