//! Progress of a drain, and its text. Other software reads the texts of single reasons.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Names in one line: more hide the reason.
const NAMES: usize = 3;

/// Reasons of failed evictions that the text lists: more hide the end of the text.
const REASONS: usize = 5;

/// Names for each reason in the list of Pods that a drain gives up: they are all that is left of them.
const GIVEN_UP: usize = 20;

/// Result of one pass of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainProgress {
    /// No Pod is left that the drain must remove or wait for, or the Node is gone.
    Done,
    /// Pods are left.
    Waiting(DrainWaiting),
}

/// Pods that a drain waits for, each as namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DrainWaiting {
    /// Pods that are being deleted and are still on the Node.
    pub terminating: Vec<String>,
    /// Pods that could not be evicted, by the reason. Reasons that begin with [`BUDGET`] are disruption budgets.
    pub failed: BTreeMap<String, Vec<String>>,
    /// Pods that are evicted after all the others are gone.
    pub evicted_later: Vec<String>,
    /// Pods whose completion the drain waits for.
    pub completing: Vec<String>,
    /// Pods whose completion the drain waits for after all the others are gone.
    pub completed_later: Vec<String>,
}

/// First words of a reason when a disruption budget refuses an eviction.
pub const BUDGET: &str = "cannot evict pod as it would violate the pod's disruption budget.";

impl DrainWaiting {
    /// Says whether no Pod is left.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the text for the condition of a Machine.
    pub fn message(&self, started: Timestamp) -> String {
        let mut lines = vec![format!("Drain not completed yet (started at {}):", seconds(started))];
        if !self.terminating.is_empty() {
            let text = "deletionTimestamp set, but still not removed from the Node";
            lines.push(line(&self.terminating, text));
        }
        lines.extend(self.failed.iter().take(REASONS).map(|(reason, pods)| line(pods, reason)));
        if !self.completing.is_empty() {
            lines.push(line(&self.completing, "waiting for completion"));
        }
        let others: usize = self.failed.values().skip(REASONS).map(Vec::len).sum();
        if others > 0 {
            lines.push(format!("* {others} {} with other issues", pods(others)));
        }
        lines.extend(self.later());
        lines.join("\n")
    }

    /// Returns all Pods with their reasons, in one line: what a drain that ends now gives up.
    pub fn given_up(&self) -> String {
        let lists = [
            (&self.terminating, "deletionTimestamp set, but still not removed from the Node"),
            (&self.completing, "not completed"),
            (&self.evicted_later, "not evicted yet, because other Pods come first"),
            (&self.completed_later, "not completed"),
        ];
        let failed = self.failed.iter().map(|(reason, pods)| (pods, reason.as_str()));
        let lists = failed.chain(lists).filter(|(list, _)| !list.is_empty());
        let texts =
            lists.map(|(list, text)| format!("{} {}: {text}", pods(list.len()), names(list, GIVEN_UP)));
        texts.collect::<Vec<_>>().join("; ")
    }

    /// Returns the sentence on the Pods of a later order.
    fn later(&self) -> Option<String> {
        let mut parts = Vec::new();
        if !self.evicted_later.is_empty() {
            let count = pods(self.evicted_later.len());
            parts.push(format!(
                "the following {count} will be evicted: {}",
                names(&self.evicted_later, NAMES)
            ));
        }
        if !self.completed_later.is_empty() {
            let count = pods(self.completed_later.len());
            let list = names(&self.completed_later, NAMES);
            parts.push(format!("waiting for the following {count} to complete without eviction: {list}"));
        }
        let failed: usize = self.failed.values().map(Vec::len).sum();
        let now = pods(self.terminating.len() + failed + self.completing.len());
        let have = if now == "Pod" { "has" } else { "have" };
        (!parts.is_empty())
            .then(|| format!("After above {now} {have} been removed from the Node, {}", parts.join(", ")))
    }
}

fn line(list: &[String], text: &str) -> String {
    format!("* {} {}: {text}", pods(list.len()), names(list, NAMES))
}

fn pods(count: usize) -> &'static str {
    if count == 1 { "Pod" } else { "Pods" }
}

/// Returns the first names and the number of the others.
pub(super) fn names(list: &[String], shown: usize) -> String {
    let mut sorted: Vec<&str> = list.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let rest = sorted.len().saturating_sub(shown);
    sorted.truncate(shown);
    let names = sorted.join(", ");
    if rest == 0 { names } else { format!("{names}, ... ({rest} more)") }
}

/// Returns a time without fractions, as RFC 3339.
pub(super) fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("ns/{name}")).collect()
    }

    #[test]
    fn the_text_names_the_reason_of_every_pod() {
        let budget = format!("{BUDGET} The disruption budget web needs 2 healthy pods and has 2 currently");
        let waiting = DrainWaiting {
            terminating: list(&["d", "a", "c", "b"]),
            failed: BTreeMap::from([
                (budget, list(&["w"])),
                ("failed to evict Pod, it is late".to_owned(), list(&["x", "y"])),
            ]),
            evicted_later: list(&["l"]),
            completing: list(&["j"]),
            completed_later: list(&["m", "n"]),
        };
        let expected = "\
Drain not completed yet (started at 2026-01-01T00:00:00Z):
* Pods ns/a, ns/b, ns/c, ... (1 more): deletionTimestamp set, but still not removed from the Node
* Pod ns/w: cannot evict pod as it would violate the pod's disruption budget. The disruption budget web needs 2 \
healthy pods and has 2 currently
* Pods ns/x, ns/y: failed to evict Pod, it is late
* Pod ns/j: waiting for completion
After above Pods have been removed from the Node, the following Pod will be evicted: ns/l, waiting for the following \
Pods to complete without eviction: ns/m, ns/n";
        assert_eq!(waiting.message("2026-01-01T00:00:00.7Z".parse().unwrap()), expected);
    }

    #[test]
    fn all_pods_that_are_given_up_are_named() {
        let many: Vec<String> = (10..40).map(|number| format!("ns/p{number}")).collect();
        let waiting = DrainWaiting {
            terminating: many,
            failed: BTreeMap::from([(format!("{BUDGET} web"), list(&["w"]))]),
            completed_later: list(&["j"]),
            ..DrainWaiting::default()
        };
        let text = waiting.given_up();
        assert!(text.starts_with(&format!("Pod ns/w: {BUDGET} web; Pods ns/p10, ns/p11, ")), "{text}");
        assert!(text.contains("ns/p29, ... (10 more): deletionTimestamp set"), "{text}");
        assert!(text.ends_with("; Pod ns/j: not completed"), "{text}");
        assert_eq!(DrainWaiting::default().given_up(), "");
    }

    #[test]
    fn reasons_after_the_fifth_are_counted() {
        let failed =
            (0..7).map(|number| (format!("failed to evict Pod, {number}"), list(&["a", "b"]))).collect();
        let waiting = DrainWaiting { failed, ..DrainWaiting::default() };
        let text = waiting.message(Timestamp::UNIX_EPOCH);
        assert_eq!(text.lines().count(), 7);
        assert!(text.ends_with("* 4 Pods with other issues"), "{text}");
    }

    #[test]
    fn one_pod_before_the_others_has_its_own_verb() {
        let waiting =
            DrainWaiting { completing: list(&["a"]), evicted_later: list(&["b"]), ..DrainWaiting::default() };
        let text = waiting.message(Timestamp::UNIX_EPOCH);
        assert!(
            text.contains("After above Pod has been removed from the Node, the following Pod will"),
            "{text}"
        );
    }
}
