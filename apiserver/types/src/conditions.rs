//! Conditions of an object: reading, setting and removing.

use crate::shared::{Condition, ConditionStatus, Time};

/// Maximum length of a condition's message. The schema allows more. This limit keeps long cloud responses,
/// e.g. pages of HTML, out of objects.
const LONGEST_MESSAGE: usize = 10_240;

impl Condition {
    /// Creates a condition with `now` as its transition time. A message of more than 10,240 characters is
    /// truncated.
    pub fn new(kind: &str, status: ConditionStatus, reason: &str, message: &str, now: Time) -> Self {
        Self {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.chars().take(LONGEST_MESSAGE).collect(),
            last_transition_time: now,
            observed_generation: None,
        }
    }

    /// Returns the condition with this observed generation.
    #[must_use]
    pub fn at_generation(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }

    /// Returns true if the status is True.
    pub fn holds(&self) -> bool {
        self.status == ConditionStatus::True
    }
}

/// Returns the condition of this type, or `None` if there is none.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Replaces the condition of the same type, or appends `new`. While the status is unchanged,
/// `lastTransitionTime` is unchanged too. Returns true if a field changed.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    let Some(found) = conditions.iter_mut().find(|condition| condition.kind == new.kind) else {
        conditions.push(new);
        return true;
    };
    if found.status == new.status {
        new.last_transition_time = found.last_transition_time.clone();
    }
    if *found == new {
        return false;
    }
    *found = new;
    true
}

/// Removes the condition of this type. Returns true if it existed.
pub fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.kind != kind);
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: ConditionStatus, message: &str, minute: u8) -> Condition {
        let now = Time(format!("2026-11-21T06:{minute:02}:00Z"));
        Condition::new("Ready", status, "Reason", message, now)
    }

    #[test]
    fn only_a_status_change_sets_the_transition_time() {
        let (no, yes) = (ConditionStatus::False, ConditionStatus::True);
        let mut conditions = vec![Condition::new("Paused", no, "NotPaused", "", Time::default())];
        assert!(set_condition(&mut conditions, ready(no, "quota", 1)));
        assert!(set_condition(&mut conditions, ready(no, "no valid host", 2)));
        assert_eq!(conditions[1], ready(no, "no valid host", 1));
        assert!(!set_condition(&mut conditions, ready(no, "no valid host", 3)));
        assert!(set_condition(&mut conditions, ready(yes, "", 4)));
        assert_eq!(conditions[1], ready(yes, "", 4));
        assert!(set_condition(&mut conditions, ready(yes, "", 5).at_generation(Some(2))));
        assert_eq!(condition(&conditions, "Ready"), Some(&ready(yes, "", 4).at_generation(Some(2))));
        assert!(remove_condition(&mut conditions, "Ready"));
        assert!(!remove_condition(&mut conditions, "Ready"));
        assert_eq!(condition(&conditions, "Ready"), None);
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = ready(ConditionStatus::False, &"ß".repeat(LONGEST_MESSAGE + 1), 1);
        assert_eq!(long.message.chars().count(), LONGEST_MESSAGE);
    }
}
