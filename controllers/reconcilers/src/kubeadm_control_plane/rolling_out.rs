//! Condition `RollingOut`: the causes for which Machines are to be replaced, and what a person can do about them.

use std::collections::BTreeSet;

use apiserver_types::{Condition, ConditionStatus, Time};

use super::cause::Cause;
use super::observe::Observed;
use super::replica::Replica;

/// Sentence on rollouts that a person has to make.
const NO_ROLLOUT: &str = "* This version of Capstan does not replace Machines of a control plane by itself";

/// Sentence on the deletion of the only Machine.
const ONLY_MACHINE: &str = "Scale to 3 first: the only Machine has all data of the cluster";

/// Returns whether Machines are to be replaced, and for which causes.
pub(super) fn condition(observed: &Observed, now: &Time) -> Condition {
    let kind = "RollingOut";
    let outdated: Vec<&Replica> = observed.replicas.iter().filter(|it| it.is_outdated()).collect();
    if outdated.is_empty() {
        return Condition::new(kind, ConditionStatus::False, "NotRollingOut", "", now.clone());
    }
    let causes: BTreeSet<&Cause> = outdated.iter().flat_map(|it| &it.causes).collect();
    let bullets = causes.iter().map(|cause| format!("* {cause}"));
    let first = format!("Rolling out {} not up-to-date replicas", outdated.len());
    let last = remedies(&causes, observed.replicas.len() == 1);
    let lines: Vec<String> = std::iter::once(first).chain(bullets).chain([last]).collect();
    Condition::new(kind, ConditionStatus::True, "RollingOut", &lines.join("\n"), now.clone())
}

/// Returns what a person can do about the causes of a rollout.
fn remedies(causes: &BTreeSet<&Cause>, is_only: bool) -> String {
    let mut sentences = vec![NO_ROLLOUT.to_owned()];
    // While a change of the settings waits to be undone, no deleted Machine is made again.
    let blocks = causes.iter().any(|cause| cause.is_of_settings());
    let due = causes.iter().filter(|cause| !blocks || cause.is_of_settings());
    for remedy in due.map(|cause| cause.remedy()) {
        if !sentences.contains(&remedy) {
            sentences.push(remedy);
        }
    }
    if is_only && !blocks && causes.iter().any(|cause| cause.needs_new_machines()) {
        sentences.push(ONLY_MACHINE.to_owned());
    }
    sentences.join(". ")
}

#[cfg(test)]
mod tests {
    use super::super::replica::examples::{healthy, outdated};
    use super::*;

    fn observed(replicas: Vec<Replica>) -> Observed {
        Observed { replicas, ..Observed::default() }
    }

    /// A user who had set `spec.rollout.after` read that a change of the version had to be undone.
    #[test]
    fn d5_each_cause_of_a_rollout_has_its_own_words_and_its_own_remedy() {
        let version = |known: &str| Cause::Version { known: known.to_owned(), wished: "v1.33.0".to_owned() };
        let of_kind = || Cause::Infrastructure("OpenStackMachine".to_owned());
        let table = [
            (
                vec![version("v1.32.0"), version("v1.31.0")],
                "Undo the change of spec.version: no Machine is made until then",
            ),
            (vec![Cause::Config], "Undo the change of spec.kubeadmConfigSpec: no Machine is made until then"),
            (
                vec![of_kind()],
                "For the template of the OpenStackMachine, delete the Machines one at a time: each is made again from it",
            ),
            (
                vec![Cause::After],
                "For spec.rollout.after, delete the Machines one at a time, or remove the field",
            ),
            (
                vec![Cause::Expiry(30)],
                "For the certificates, run \"kubeadm certs renew all\" on the Nodes and restart their static pods, or delete \
                the Machines one at a time. Renewed certificates are noticed within a day",
            ),
        ];
        for (causes, expected) in table {
            let (mut a, mut b) = (healthy("a", 1), healthy("b", 1));
            a.causes = causes.clone();
            b.causes = causes.last().cloned().into_iter().collect();
            let found = condition(&observed(vec![a, b]), &Time::default());
            let last = found.message.lines().last().unwrap();
            assert_eq!(last, format!("{NO_ROLLOUT}. {expected}"), "{causes:?}");
            assert!(found.message.contains(&format!("\n* {}\n", causes[0])), "{}", found.message);
        }
        let mut only = healthy("a", 1);
        only.causes = vec![Cause::After, Cause::Config];
        let message = condition(&observed(vec![only.clone()]), &Time::default()).message;
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[1..3], ["* KubeadmConfig is not up-to-date", "* spec.rollout.after has passed"]);
        assert!(!message.contains("delete the Machines") && !message.contains(ONLY_MACHINE), "{message}");
        assert!(message.contains("Undo the change of spec.kubeadmConfigSpec"), "{message}");
        only.causes = vec![Cause::After];
        let message = condition(&observed(vec![only]), &Time::default()).message;
        assert!(message.ends_with(ONLY_MACHINE), "{message}");
    }

    #[test]
    fn a_rollout_that_is_not_made_is_shown_with_its_causes() {
        let now = Time::default();
        let mut other = outdated(healthy("a", 1));
        other.causes.insert(0, Cause::Config);
        let found = condition(&observed(vec![other, outdated(healthy("b", 1)), healthy("c", 1)]), &now);
        assert_eq!(found.status, ConditionStatus::True);
        let start = "Rolling out 2 not up-to-date replicas\n* Version v1.32.0, v1.33.0 required\n* KubeadmConfig is not";
        assert!(
            found.message.starts_with(start) && found.message.contains("does not replace"),
            "{}",
            found.message
        );
    }
}
