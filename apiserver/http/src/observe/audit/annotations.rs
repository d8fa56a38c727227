//! Annotations of an audit event: the realm of the user, the decision of authorization, and those of filters.

use std::collections::BTreeMap;

use apiserver_access::{REALM, User};
use serde_json::{Map, Value, json};

/// Annotation with the decision of authorization.
const DECISION: &str = "authorization.k8s.io/decision";

/// Annotation with the reason of the decision.
const REASON: &str = "authorization.k8s.io/reason";

/// Annotation of a request for a deprecated version.
const DEPRECATED: &str = "k8s.io/deprecated";

/// Annotations, as they are collected in the filters.
#[derive(Debug, Clone, Default)]
pub(super) struct Annotations {
    /// Decision of authorization, `allow` or `forbid`, and its reason. If the authorizers failed, there is a reason alone.
    decision: Option<(Option<&'static str>, String)>,
    /// Annotations of filters, such as those of admission webhooks.
    of_filters: BTreeMap<String, String>,
    is_deprecated: bool,
}

impl Annotations {
    pub(super) fn set_decision(&mut self, decision: Option<&'static str>, reason: &str) {
        self.decision = Some((decision, reason.to_owned()));
    }

    pub(super) fn set_deprecated(&mut self) {
        self.is_deprecated = true;
    }

    pub(super) fn insert_all(&mut self, annotations: BTreeMap<String, String>) {
        self.of_filters.extend(annotations);
    }

    /// Returns the annotations of a request of this user, as an event has them.
    pub(super) fn shown(&self, user: &User) -> Map<String, Value> {
        let mut shown: Map<String, Value> =
            self.of_filters.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        if let Some((decision, reason)) = &self.decision {
            if let Some(decision) = decision {
                shown.insert(DECISION.to_owned(), json!(decision));
            }
            shown.insert(REASON.to_owned(), json!(reason));
        }
        // As with the extra attribute of this name, a client without credentials has none. A name is empty before
        // authentication.
        if !user.name.is_empty() && !user.is_anonymous() {
            shown.insert(REALM.to_owned(), json!(user.realm.name()));
        }
        if self.is_deprecated {
            shown.insert(DEPRECATED.to_owned(), json!("true"));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use apiserver_access::Realm;

    use super::*;

    #[test]
    fn iz_05_an_event_has_the_realm_of_its_user_and_a_failed_authorization_has_a_reason_alone() {
        let of = |realm: Realm| User::authenticated("alice", []).in_realm(realm);
        let (allow, forbid) = (Some("allow"), Some("forbid"));
        for (user, decision, expected) in [
            (of(Realm::Own), allow, json!({DECISION: "allow", REASON: "r", REALM: "own"})),
            (of(Realm::Host), forbid, json!({DECISION: "forbid", REASON: "r", REALM: "host"})),
            (of(Realm::Issuer("https://id".into())), None, json!({REASON: "r", REALM: "issuer/https://id"})),
            (User::controller("machine"), allow, json!({DECISION: "allow", REASON: "r", REALM: "own"})),
            (User::anonymous().in_realm(Realm::Host), forbid, json!({DECISION: "forbid", REASON: "r"})),
        ] {
            let mut annotations = Annotations::default();
            annotations.set_decision(decision, "r");
            assert_eq!(Value::Object(annotations.shown(&user)), expected, "{user:?}");
        }
        let unknown = Annotations::default().shown(&User::default());
        assert!(unknown.is_empty(), "no user is known before authentication: {unknown:?}");
    }

    #[test]
    fn an_event_has_the_annotations_of_filters_and_of_deprecated_versions() {
        let mut annotations = Annotations::default();
        annotations.insert_all(BTreeMap::from([("a".to_owned(), "1".to_owned())]));
        annotations.insert_all(BTreeMap::from([("b".to_owned(), "2".to_owned())]));
        annotations.set_deprecated();
        let found = Value::Object(annotations.shown(&User::anonymous()));
        assert_eq!(found, json!({"a": "1", "b": "2", DEPRECATED: "true"}));
    }
}
