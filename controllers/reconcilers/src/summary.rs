//! Summary condition of several conditions of one object: `Ready` of a Machine, `Available` of a Cluster.
//!
//! The rule is Cluster API's. A part with positive polarity is an issue when it is False, one with
//! negative polarity when it is True. The summary is False if any part is an issue, else Unknown if
//! any part is unknown, else True.

use apiserver_types::{Condition, ConditionStatus, Gate, Polarity, condition};

/// Reasons of a condition whose object is gone.
const GONE: [&str; 4] = ["ObjectDeleted", "ObjectDoesNotExist", "NodeDeleted", "NodeDoesNotExist"];

/// A part that keeps the summary from being True.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// False for an issue, Unknown for a part of which nothing is known.
    pub status: ConditionStatus,
    /// The part's type and its message, or its reason where it has no message.
    pub message: String,
}

/// Returns the obstacles among `parts`, which have positive polarity, and `gates`, in this order.
pub(crate) fn obstacles(conditions: &[Condition], parts: &[&str], gates: &[Gate]) -> Vec<Obstacle> {
    let parts = parts.iter().map(|kind| (*kind, Polarity::Positive));
    let gates = gates.iter().map(|gate| (gate.condition_type.as_str(), gate.polarity.unwrap_or_default()));
    parts.chain(gates).filter_map(|(kind, polarity)| obstacle(conditions, kind, polarity)).collect()
}

/// Returns the status of the summary.
pub(crate) fn status(obstacles: &[Obstacle]) -> ConditionStatus {
    let any = |status| obstacles.iter().any(|obstacle| obstacle.status == status);
    match (any(ConditionStatus::False), obstacles.is_empty()) {
        (true, _) => ConditionStatus::False,
        (false, false) => ConditionStatus::Unknown,
        (false, true) => ConditionStatus::True,
    }
}

/// Returns another object's condition under a name of its own, with its transition time. Without a reason, it gets one:
/// `good` while it is True.
pub(crate) fn mirror(kind: &str, source: &Condition, good: &str) -> Condition {
    let reason = match source.reason.as_str() {
        "" if source.holds() => good,
        "" => "NoReasonReported",
        reason => reason,
    };
    let at = source.last_transition_time.clone();
    Condition::new(kind, source.status, reason, &source.message, at)
}

/// Reports whether a condition only says that its object is gone. A deletion expects that.
pub(crate) fn is_gone(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|it| GONE.contains(&it.reason.as_str()))
}

/// Puts the obstacles of several parts under one name, if all of them have the same text.
pub(crate) fn folded(mut obstacles: Vec<Obstacle>, parts: &[&str], name: &str) -> Vec<Obstacle> {
    let text = |obstacle: &Obstacle| -> Option<String> {
        let mut texts = parts.iter().filter_map(|part| obstacle.message.strip_prefix(part));
        texts.find(|rest| rest.starts_with(':')).map(str::to_owned)
    };
    let texts: Vec<String> = obstacles.iter().filter_map(text).collect();
    let Some((first, others)) = texts.split_first() else { return obstacles };
    if others.is_empty() || others.iter().any(|text| text != first) {
        return obstacles;
    }
    let position = obstacles.iter().position(|it| text(it).is_some()).unwrap_or_default();
    let is_issue = obstacles.iter().any(|it| text(it).is_some() && it.status == ConditionStatus::False);
    obstacles.retain(|it| text(it).is_none());
    let status = if is_issue { ConditionStatus::False } else { ConditionStatus::Unknown };
    obstacles.insert(position, Obstacle { status, message: format!("{name}{first}") });
    obstacles
}

/// Returns the message of the summary: a bullet for each obstacle, issues and unknown parts alike.
pub(crate) fn message(obstacles: &[Obstacle]) -> String {
    let lines = obstacles.iter().map(|obstacle| format!("* {}", obstacle.message));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the obstacle that one part is, if it is one.
pub(crate) fn obstacle(conditions: &[Condition], kind: &str, polarity: Polarity) -> Option<Obstacle> {
    let Some(part) = condition(conditions, kind) else {
        let message = format!("{kind}: Condition not yet reported");
        return Some(Obstacle { status: ConditionStatus::Unknown, message });
    };
    let status = match (part.status, polarity) {
        (ConditionStatus::True, Polarity::Positive) | (ConditionStatus::False, Polarity::Negative) => {
            return None;
        }
        (ConditionStatus::Unknown, _) => ConditionStatus::Unknown,
        (ConditionStatus::True | ConditionStatus::False, _) => ConditionStatus::False,
    };
    let text = if part.message.is_empty() { &part.reason } else { &part.message };
    let message = match text.starts_with("* ") {
        true => format!("{kind}:\n  {}", text.replace('\n', "\n  ")),
        false => format!("{kind}: {}", text.replace('\n', "\n  ")),
    };
    Some(Obstacle { status, message })
}

#[cfg(test)]
mod tests {
    use apiserver_types::Time;

    use super::*;

    /// A gate on `Gate` with negative polarity was taken for a positive one: the Machine was Ready
    /// while the condition that must not hold was True.
    #[test]
    fn a_negative_gate_is_an_issue_when_its_condition_is_true() {
        use ConditionStatus::{False, True, Unknown};
        let table = [
            (None, Some(True), True),
            (None, Some(False), False),
            (None, Some(Unknown), Unknown),
            (None, None, Unknown),
            (Some(Polarity::Positive), Some(True), True),
            (Some(Polarity::Positive), Some(False), False),
            (Some(Polarity::Negative), Some(True), False),
            (Some(Polarity::Negative), Some(False), True),
            (Some(Polarity::Negative), Some(Unknown), Unknown),
            (Some(Polarity::Negative), None, Unknown),
        ];
        for (polarity, gate, expected) in table {
            let part = Condition::new("Part", True, "Fine", "", Time::default());
            let gate = gate.map(|status| Condition::new("Gate", status, "Reason", "", Time::default()));
            let conditions: Vec<Condition> = [Some(part), gate].into_iter().flatten().collect();
            let gates = [Gate { condition_type: "Gate".to_owned(), polarity }];
            let found = obstacles(&conditions, &["Part"], &gates);
            assert_eq!(status(&found), expected, "{polarity:?}: {conditions:?}");
        }
    }

    #[test]
    fn an_issue_outweighs_an_unknown_condition_and_a_reason_replaces_a_missing_message() {
        let part = Condition::new("Part", ConditionStatus::Unknown, "NotInspected", "", Time::default());
        let gate = Condition::new("Gate", ConditionStatus::True, "Draining", "", Time::default());
        let gates = [Gate { condition_type: "Gate".to_owned(), polarity: Some(Polarity::Negative) }];
        let found = obstacles(&[part, gate], &["Part"], &gates);
        let messages: Vec<&str> = found.iter().map(|obstacle| obstacle.message.as_str()).collect();
        assert_eq!(messages, ["Part: NotInspected", "Gate: Draining"]);
        assert_eq!(status(&found), ConditionStatus::False);
    }

    #[test]
    fn a_mirrored_condition_keeps_its_time_and_has_a_reason() {
        use ConditionStatus::{False, True};
        let at = Time("2026-11-26T10:00:00Z".to_owned());
        for (status, reason, expected) in
            [(True, "", "Ready"), (False, "", "NoReasonReported"), (False, "Quota", "Quota")]
        {
            let source = Condition::new("Ready", status, reason, "text", at.clone());
            let expected = Condition::new("InfrastructureReady", status, expected, "text", at.clone());
            assert_eq!(mirror("InfrastructureReady", &source, "Ready"), expected);
        }
    }

    #[test]
    fn parts_with_the_same_text_share_a_line_and_others_keep_theirs() {
        let of = |kind: &str, text: &str| Obstacle {
            status: ConditionStatus::Unknown,
            message: format!("{kind}: {text}"),
        };
        let lines = |obstacles: Vec<Obstacle>| -> Vec<String> {
            folded(obstacles, &["A", "B"], "Both").into_iter().map(|it| it.message).collect()
        };
        assert_eq!(
            lines(vec![of("X", "x"), of("A", "a"), of("Y", "a"), of("B", "a")]),
            ["X: x", "Both: a", "Y: a"]
        );
        assert_eq!(lines(vec![of("A", "a"), of("B", "b")]), ["A: a", "B: b"]);
        assert_eq!(lines(vec![of("A", "a"), of("AB", "a")]), ["A: a", "AB: a"]);
    }
}
