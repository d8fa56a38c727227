//! Last known conditions of a Machine: the annotations that keep them while the workload cluster cannot be read. People
//! read them, and no controller decides by them. The controllers write them, and the server reads them.

use std::collections::BTreeMap;

use crate::shared::ConditionStatus;

/// Annotation of a Machine with the last known state of its Node. The Machine's controller writes it before `NodeReady`
/// and `NodeHealthy` become unknown with the connection.
pub const LAST_KNOWN_NODE: &str = "capstan.dev/last-known-node";

/// Annotation of a control plane Machine with the last known state of its components. The controller of the control plane
/// writes it.
pub const LAST_KNOWN_CONTROL_PLANE: &str = "capstan.dev/last-known-control-plane";

/// Reasons of conditions that say nothing about a Node or a component, because it could not be read.
const UNREAD: [&str; 2] = ["ConnectionDown", "InspectionFailed"];

/// State of a condition before it became unknown.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LastKnown {
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason of the condition.
    pub reason: String,
}

/// Conditions by type, in JSON the value of the annotations.
pub type LastKnownConditions = BTreeMap<String, LastKnown>;

/// Returns true if a condition with this reason only says that the workload cluster could not be read.
#[must_use]
pub fn is_unread(reason: &str) -> bool {
    UNREAD.contains(&reason)
}

/// Returns the conditions in the value of an annotation; none if it is absent or cannot be read.
#[must_use]
pub fn last_known(value: Option<&str>) -> LastKnownConditions {
    value.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_read_has_no_conditions() {
        let ready = LastKnown { status: ConditionStatus::True, reason: "NodeReady".to_owned() };
        let known = LastKnownConditions::from([("NodeReady".to_owned(), ready)]);
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(text, r#"{"NodeReady":{"status":"True","reason":"NodeReady"}}"#);
        assert_eq!(last_known(Some(&text)), known);
        for unreadable in
            [None, Some(""), Some("[]"), Some(r#"{"NodeReady":{"status":"Maybe","reason":""}}"#)]
        {
            assert_eq!(last_known(unreadable), LastKnownConditions::new(), "{unreadable:?}");
        }
        assert!(
            is_unread("ConnectionDown") && is_unread("InspectionFailed") && !is_unread("NodeReadyUnknown")
        );
    }
}
