//! Condition `Ready` of a Machine: the summary of its parts and its gates.

use apiserver_types::{Condition, ConditionStatus, Gate, Polarity, Time, condition as find};

use crate::summary::{self, Obstacle};

/// Conditions that the readiness of a Machine is made of, in the order in which they are reported.
const PARTS: [&str; 3] = ["BootstrapConfigReady", "InfrastructureReady", "NodeHealthy"];

/// Condition of a Machine that a health check watches.
const HEALTH_CHECK: &str = "HealthCheckSucceeded";

/// Condition of a Machine that is being updated in place. Until that is over, it is not ready.
const UPDATING: &str = "Updating";

/// Gates of a control plane Machine that share a line while all of them say the same, and the name of the line.
const PODS: [&str; 4] =
    ["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy"];
const PODS_NAME: &str = "Control plane components";

/// Returns the condition: False if a part is an issue, else Unknown if a part is unknown, else True. `stage` is that of a
/// deletion, which expects that objects are gone.
pub(super) fn condition(
    conditions: &[Condition],
    gates: &[Gate],
    stage: Option<&str>,
    now: &Time,
) -> Condition {
    let is_expected = |kind: &str| stage.is_some() && summary::is_gone(conditions, kind);
    // Only a health check writes this one.
    let checked = find(conditions, HEALTH_CHECK).map(|_| HEALTH_CHECK);
    let parts: Vec<&str> = PARTS.into_iter().chain(checked).filter(|kind| !is_expected(kind)).collect();
    let mut gates = gates.to_vec();
    if find(conditions, UPDATING).is_some_and(Condition::holds) {
        let polarity = Some(Polarity::Negative);
        gates.insert(0, Gate { condition_type: UPDATING.to_owned(), polarity });
    }
    let obstacles = summary::obstacles(conditions, &parts, &gates);
    let mut obstacles = summary::folded(obstacles, &PODS, PODS_NAME);
    if let Some(stage) = stage {
        let message = format!("Deleting: {stage}");
        obstacles.insert(0, Obstacle { status: ConditionStatus::False, message });
    }
    let status = summary::status(&obstacles);
    let reason = match status {
        ConditionStatus::True => "Ready",
        ConditionStatus::False => "NotReady",
        ConditionStatus::Unknown => "ReadyUnknown",
    };
    Condition::new("Ready", status, reason, &summary::message(&obstacles), now.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_not_ready_while_the_condition_of_a_negative_gate_is_true() {
        use ConditionStatus::{False, True, Unknown};
        let gates = [Gate { condition_type: "Burning".to_owned(), polarity: Some(Polarity::Negative) }];
        let parts = PARTS.map(|kind| Condition::new(kind, True, "Fine", "", Time::default()));
        for (burning, expected) in [(True, False), (False, True), (Unknown, Unknown)] {
            let gate = Condition::new("Burning", burning, "Fire", "it burns", Time::default());
            let conditions: Vec<Condition> = parts.iter().cloned().chain([gate]).collect();
            let ready = condition(&conditions, &gates, None, &Time::default());
            assert_eq!(ready.status, expected, "{ready:?}");
        }
    }

    #[test]
    fn a_failed_health_check_makes_a_machine_not_ready_and_a_missing_one_does_not() {
        let parts =
            PARTS.map(|kind| Condition::new(kind, ConditionStatus::True, "Fine", "", Time::default()));
        let of = |conditions: &[Condition]| condition(conditions, &[], None, &Time::default()).status;
        assert_eq!(of(&parts), ConditionStatus::True);
        let failed = Condition::new(HEALTH_CHECK, ConditionStatus::False, "Failed", "", Time::default());
        let all: Vec<Condition> = parts.into_iter().chain([failed]).collect();
        assert_eq!(of(&all), ConditionStatus::False);
    }

    fn of(kind: &str, status: ConditionStatus, reason: &str, message: &str) -> Condition {
        Condition::new(kind, status, reason, message, Time::default())
    }

    /// The text was recorded from upstream's controllers.
    #[test]
    fn a_control_plane_machine_that_goes_lists_its_stage_and_its_gates_and_not_what_is_gone() {
        use ConditionStatus::{False, Unknown};
        let labels = ("NodeKubeadmLabelsAndTaintsSet", "Node n does not have the label");
        let deleting = "Machine is deleting";
        let kinds = [labels.0].into_iter().chain(PODS).chain(["EtcdMemberHealthy"]);
        let gates: Vec<Gate> =
            kinds.clone().map(|kind| Gate { condition_type: kind.to_owned(), polarity: None }).collect();
        let text = |kind: &str| if kind == labels.0 { labels.1 } else { deleting };
        let mut conditions: Vec<Condition> =
            kinds.map(|kind| of(kind, False, "Deleting", text(kind))).collect();
        conditions.push(of("BootstrapConfigReady", False, "ObjectDeleted", "gone"));
        conditions.push(of("InfrastructureReady", False, "ObjectDeleted", "gone"));
        conditions.push(of("NodeHealthy", Unknown, "NodeDoesNotExist", "gone"));
        let stage = "Machine deletion in progress, stage: DeletionCompleted";
        let found = condition(&conditions, &gates, Some(stage), &Time::default());
        let expected = format!(
            "* Deleting: {stage}\n* NodeKubeadmLabelsAndTaintsSet: Node n does not have the label\n* Control plane \
             components: {deleting}\n* EtcdMemberHealthy: {deleting}"
        );
        assert_eq!((found.status, found.message), (False, expected));
        let there = condition(&conditions, &[], None, &Time::default());
        assert!(there.message.contains("InfrastructureReady: gone"), "without a deletion, it is an issue");
    }
}
