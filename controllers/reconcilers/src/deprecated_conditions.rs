//! Conditions in the form of v1beta1: setting and aggregation.

use apiserver_types::{DeprecatedCondition, Machine, Time};
use kube::ResourceExt;

/// State of a condition in the form of v1beta1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Old {
    True,
    /// Severity, reason and message.
    False(&'static str, String, String),
    /// Reason and message.
    Unknown(&'static str, String),
}

impl Old {
    /// Returns a False condition.
    pub(crate) fn no(severity: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::False(severity, reason.to_owned(), message.into())
    }
}

/// Severities, the worst first.
const SEVERITIES: [&str; 3] = ["Error", "Warning", "Info"];

/// Sets a condition. The transition time changes only with the status.
pub(crate) fn set(conditions: &mut Vec<DeprecatedCondition>, kind: &str, state: Old, now: &Time) {
    let filled = |text: String| (!text.is_empty()).then_some(text);
    let (status, severity, reason, message) = match state {
        Old::True => ("True", None, None, None),
        Old::False(severity, reason, message) => {
            ("False", Some(severity.to_owned()), filled(reason), filled(message))
        }
        Old::Unknown(reason, message) => ("Unknown", None, filled(reason.to_owned()), filled(message)),
    };
    let mut new = DeprecatedCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_transition_time: now.clone(),
        severity,
        reason,
        message,
    };
    match conditions.iter_mut().find(|known| known.kind == kind) {
        Some(known) => {
            if known.status == new.status {
                new.last_transition_time = known.last_transition_time.clone();
            }
            *known = new;
        }
        None => {
            conditions.push(new);
            // Upstream's order.
            conditions.sort_by(|a, b| (a.kind != "Ready", &a.kind).cmp(&(b.kind != "Ready", &b.kind)));
        }
    }
}

/// Returns the state of a condition, if it is reported and known.
pub(crate) fn state(conditions: &[DeprecatedCondition], kind: &str) -> Option<Old> {
    let found = conditions.iter().find(|condition| condition.kind == kind)?;
    match found.status.as_str() {
        "True" => Some(Old::True),
        "False" => {
            let severity = severity_of(found);
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            Some(Old::False(severity, text(&found.reason), text(&found.message)))
        }
        _ => None,
    }
}

/// Returns the worst of several states, the first of equally bad ones.
pub(crate) fn summary(states: &[Option<Old>]) -> Old {
    let bad = states.iter().flatten().filter(|state| **state != Old::True);
    let rank = |state: &&Old| match state {
        Old::True | Old::Unknown(..) => SEVERITIES.len(),
        Old::False(severity, ..) => SEVERITIES.iter().position(|it| it == severity).unwrap_or_default(),
    };
    bad.min_by_key(rank).cloned().unwrap_or(Old::True)
}

/// Returns the aggregate of the condition Ready of Machines: the worst one, and the number of ready ones.
pub(crate) fn machines_ready(machines: &[Machine]) -> Old {
    let states: Vec<(String, Option<Old>)> =
        machines.iter().map(|machine| (machine.name_any(), ready(machine))).collect();
    let all: Vec<Option<Old>> = states.iter().map(|(_, state)| state.clone()).collect();
    let Old::False(severity, reason, message) = summary(&all) else { return Old::True };
    let worst = Old::False(severity, reason.clone(), message);
    let mut names: Vec<&str> = states
        .iter()
        .filter(|(_, state)| state.as_ref() == Some(&worst))
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    let name = names.first().copied().unwrap_or_default();
    let ready = all.iter().filter(|state| **state == Some(Old::True)).count();
    Old::no(
        severity,
        &format!("{reason} @ Machine/{name}"),
        format!("{ready} of {} completed", machines.len()),
    )
}

/// Returns the condition Ready of a Machine, if it is reported and known.
pub(crate) fn ready(machine: &Machine) -> Option<Old> {
    let deprecated = machine.status.as_ref()?.deprecated.as_ref()?;
    state(deprecated.v1beta1.as_ref()?.conditions.as_deref()?, "Ready")
}

fn severity_of(condition: &DeprecatedCondition) -> &'static str {
    let known = condition.severity.as_deref().unwrap_or_default();
    SEVERITIES.into_iter().find(|severity| *severity == known).unwrap_or("Info")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_severity_wins_and_the_transition_time_follows_the_status() {
        let states =
            [Some(Old::True), Some(Old::no("Info", "A", "")), None, Some(Old::no("Error", "B", "b"))];
        assert_eq!(summary(&states), Old::no("Error", "B", "b"));
        assert_eq!(summary(&states[..1]), Old::True);
        let mut conditions = Vec::new();
        let at = |minute: u8| Time(format!("2026-11-21T06:{minute:02}:00Z"));
        set(&mut conditions, "Ready", Old::no("Info", "A", "a"), &at(1));
        set(&mut conditions, "Ready", Old::no("Error", "B", ""), &at(2));
        assert_eq!((conditions.len(), &conditions[0].last_transition_time), (1, &at(1)));
        assert_eq!(state(&conditions, "Ready"), Some(Old::no("Error", "B", "")));
        set(&mut conditions, "Ready", Old::True, &at(3));
        assert_eq!(conditions[0].last_transition_time, at(3));
        assert_eq!(conditions[0].severity, None);
        for kind in ["Zone", "Available"] {
            set(&mut conditions, kind, Old::True, &at(4));
        }
        let kinds: Vec<&str> = conditions.iter().map(|it| it.kind.as_str()).collect();
        assert_eq!(kinds, ["Ready", "Available", "Zone"]);
    }
}
