//! Status of a set: one condition for all of its Clusters. Pure.

use apiserver_types::{ClusterResourceSet, Condition, ConditionStatus, Time, set_condition};

use super::outcome::{Outcome, Words};
use crate::deprecated_conditions::{self, Old};
use crate::{condition_order, paused};

/// Condition about the resources.
pub(super) const APPLIED: &str = "ResourcesApplied";

/// Most Clusters that a message names.
const MOST: usize = 3;

/// Result of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Result {
    /// The set itself is wrong: reason, message, and reason in the form of v1beta1.
    Refused(&'static str, String, &'static str),
    /// Outcome on each Cluster, by its name.
    Clusters(Vec<(String, Outcome)>),
}

/// Writes the status.
pub(super) fn report(set: &mut ClusterResourceSet, result: &Result, now: &Time) {
    let (status, reason, message, old) = match result {
        Result::Refused(reason, message, deprecated) => {
            let old = Old::no("Warning", deprecated, message.clone());
            (ConditionStatus::False, *reason, message.clone(), old)
        }
        Result::Clusters(all) => of_clusters(all),
    };
    let generation = set.metadata.generation;
    let condition = Condition::new(APPLIED, status, reason, &message, now.clone());
    report_pause(set, now);
    let status = set.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    set_condition(conditions, condition.at_generation(generation));
    condition_order::sort(conditions);
    let old_conditions = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    deprecated_conditions::set(old_conditions.conditions.get_or_insert_default(), APPLIED, old, now);
    status.observed_generation = generation;
}

/// Writes the condition about the pause alone.
pub(super) fn report_pause(set: &mut ClusterResourceSet, now: &Time) {
    let condition = paused::condition(set, None, now).at_generation(set.metadata.generation);
    let conditions = set.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(conditions, condition);
    condition_order::sort(conditions);
}

/// Returns the condition over all Clusters: a failure on one is not hidden by the success on another.
fn of_clusters(all: &[(String, Outcome)]) -> (ConditionStatus, &'static str, String, Old) {
    let mut bad: Vec<(&String, Words)> = all
        .iter()
        .filter(|(_, outcome)| *outcome != Outcome::Applied)
        .map(|(name, outcome)| (name, Words::of(outcome)))
        .collect();
    // A failed object first: a Cluster that is not connected is reported by its own conditions, too.
    bad.sort_by_key(|(name, words)| (words.reason != "NotApplied", words.deprecated.1, *name));
    let Some((_, worst)) = bad.first() else {
        return (ConditionStatus::True, "Applied", String::new(), Old::True);
    };
    let mut lines: Vec<String> =
        bad.iter().take(MOST).map(|(name, words)| format!("* Cluster {name}: {}", words.message)).collect();
    let more = bad.len().saturating_sub(MOST);
    if more > 0 {
        lines.push(format!(
            "And {more} more Clusters; see the annotations of their ClusterResourceSetBindings"
        ));
    }
    let message = lines.join("\n");
    let (severity, reason) = worst.deprecated;
    (ConditionStatus::False, worst.reason, message.clone(), Old::no(severity, reason, message))
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterResourceSetSpec;

    use super::*;

    fn reported(result: &Result) -> ClusterResourceSet {
        let mut set = ClusterResourceSet::new("cni", ClusterResourceSetSpec::default());
        set.metadata.generation = Some(2);
        report(&mut set, result, &Time("2026-11-21T06:00:00Z".to_owned()));
        set
    }

    #[test]
    fn one_failure_is_not_hidden_by_other_clusters_whatever_their_order() {
        let failed = ("b".to_owned(), Outcome::Failed(vec!["refused".to_owned()]));
        let lost = ("a".to_owned(), Outcome::NotConnected("no route".to_owned()));
        let fine = ("c".to_owned(), Outcome::Applied);
        let all = [failed, lost, fine.clone()];
        let mut other = all.clone();
        other.reverse();
        for all in [all, other] {
            let set = reported(&Result::Clusters(all.into()));
            let condition = set.condition(APPLIED).unwrap();
            assert_eq!((condition.holds(), condition.reason.as_str()), (false, "NotApplied"));
            let expected = "* Cluster b: Failed to apply ClusterResourceSet resources to Cluster: refused\n\
                            * Cluster a: no route";
            assert_eq!(condition.message, expected);
            assert_eq!(condition.observed_generation, Some(2));
            let old = set.status.unwrap().deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
            assert_eq!((old[0].kind.as_str(), old[0].reason.as_deref()), (APPLIED, Some("ApplyFailed")));
        }
        assert!(reported(&Result::Clusters(vec![fine])).condition(APPLIED).unwrap().holds());
        assert!(reported(&Result::Clusters(Vec::new())).condition(APPLIED).unwrap().holds());
    }

    #[test]
    fn a_message_names_three_clusters() {
        let all = (0..5).map(|index| (format!("c{index}"), Outcome::NotConnected("x".to_owned())));
        let set = reported(&Result::Clusters(all.collect()));
        let message = &set.condition(APPLIED).unwrap().message;
        assert!(message.contains("Cluster c2") && !message.contains("Cluster c3"), "{message}");
        assert!(message.contains("And 2 more Clusters"), "{message}");
        let refused = Result::Refused("WrongSecretType", "m".to_owned(), "WrongSecretType");
        assert_eq!(reported(&refused).condition(APPLIED).unwrap().reason, "WrongSecretType");
    }
}
