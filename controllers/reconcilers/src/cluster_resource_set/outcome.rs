//! Result of a set on one Cluster, and the words for it. Pure.

use apiserver_types::ResourceRef;

use super::resources::{State, shown};

/// Result of a set on one Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Applied,
    /// The next resource waits for these objects.
    Unready(String),
    /// Each resource that cannot be applied now, and why.
    Missing(Vec<String>),
    NotConnected(String),
    /// Each object that could not be applied, and why.
    Failed(Vec<String>),
}

/// Reason and message for an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    pub reason: &'static str,
    pub message: String,
    /// Severity and reason in the form of v1beta1.
    pub deprecated: (&'static str, &'static str),
}

/// Beginning of the messages about failures, as upstream has it.
const FAILED: &str = "Failed to apply ClusterResourceSet resources to Cluster";

impl Words {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let words = |reason, message, deprecated| Self { reason, message, deprecated };
        match outcome {
            Outcome::Applied => words("Applied", String::new(), ("", "")),
            Outcome::Unready(objects) => {
                let message = format!("the next resource waits until these objects are ready: {objects}");
                words("NotApplied", message, ("Info", "ApplyFailed"))
            }
            Outcome::Missing(all) => {
                words("InternalError", all.join("; "), ("Warning", "RetrievingResourceFailed"))
            }
            Outcome::NotConnected(why) => {
                words("InternalError", why.clone(), ("Error", "RemoteClusterClientFailed"))
            }
            Outcome::Failed(all) => {
                let message = format!("{FAILED}: {}", limited(all));
                words("NotApplied", message, ("Warning", "ApplyFailed"))
            }
        }
    }
}

/// Most failures in one message: the first shows the cause.
const MOST: usize = 5;

/// Joins the first texts, and says how many there are more.
pub(super) fn limited(all: &[String]) -> String {
    let shown: Vec<&str> = all.iter().take(MOST).map(String::as_str).collect();
    let more = all.len().saturating_sub(MOST);
    let rest = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{rest}", shown.join("; "))
}

impl State {
    /// Returns why a resource cannot be applied, and what to do.
    pub(super) fn obstacle(&self, resource: &ResourceRef) -> Option<String> {
        let name = shown(resource);
        match self {
            Self::Found(_) => None,
            Self::Missing => {
                Some(format!("{name} does not exist. Create it, or remove it from spec.resources"))
            }
            Self::WrongType => Some(format!("Secret type of resource {} is not supported", resource.name)),
            Self::Unreadable(why) => Some(format!("{name} cannot be read: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_first_causes_and_their_number() {
        let all: Vec<String> = (0..7).map(|index| format!("e{index}")).collect();
        let words = Words::of(&Outcome::Failed(all));
        assert_eq!((words.reason, words.deprecated), ("NotApplied", ("Warning", "ApplyFailed")));
        assert_eq!(words.message, format!("{FAILED}: e0; e1; e2; e3; e4; and 2 more"));
        let words = Words::of(&Outcome::NotConnected("why".to_owned()));
        assert_eq!((words.reason, words.deprecated.1), ("InternalError", "RemoteClusterClientFailed"));
    }
}
