//! Conditions of a webhook, in CEL over the SubjectAccessReview.

use std::sync::LazyLock;

use apiserver_schema::{Expression, Schema};
use serde_json::{Value, json};

/// Variable with the `spec` of the review.
const REQUEST: &str = "request";

/// Schema of the variable.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let requirement = object(json!({"key": text, "operator": text, "values": texts}));
    let selector =
        object(json!({"rawSelector": text, "requirements": {"type": "array", "items": requirement}}));
    let resource = object(json!({"namespace": text, "verb": text, "group": text, "version": text,
        "resource": text, "subresource": text, "name": text, "fieldSelector": selector,
        "labelSelector": selector}));
    let spec = object(json!({"user": text, "uid": text, "groups": texts,
        "extra": {"type": "object", "additionalProperties": texts}, "resourceAttributes": resource,
        "nonResourceAttributes": object(json!({"path": text, "verb": text}))}));
    // It is a constant, and a test compiles it.
    Schema::compile(&spec).unwrap_or_default()
});

/// Conditions, all of which must be true for a request that the webhook is called about.
#[derive(Debug, Default)]
pub(super) struct Conditions(pub(super) Vec<Expression>);

/// Result of the conditions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Matched {
    /// All are true.
    Yes,
    /// One is false.
    No,
    /// None is false, and one cannot be evaluated.
    Failed(String),
}

/// Compiles a condition.
///
/// # Errors
/// The text of the error.
pub(super) fn compile(source: &str) -> Result<Expression, String> {
    Expression::condition(source, REQUEST, &SCHEMA)
}

impl Conditions {
    /// Evaluates the conditions about the `spec` of a review.
    pub(super) fn matches(&self, spec: &Value) -> Matched {
        let mut failed = None;
        for condition in &self.0 {
            match condition.evaluate(spec) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Matched::No,
                Err(error) => {
                    failed.get_or_insert_with(|| format!("{}: {error}", condition.source()));
                }
            }
        }
        failed.map_or(Matched::Yes, Matched::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_false_condition_skips_and_an_error_counts_only_without_one() {
        let spec = json!({"user": "alice", "groups": ["dev"],
            "resourceAttributes": {"resource": "machines", "verb": "get"}});
        let of_machines =
            "has(request.resourceAttributes) && request.resourceAttributes.resource == 'machines'";
        let (no, fails) = ("request.user == 'bob'", "request.extra['scope'][0] == 'x'");
        for (sources, expected) in [
            (vec![], "yes"),
            (vec![of_machines, "'dev' in request.groups"], "yes"),
            (vec![of_machines, no], "no"),
            (vec![fails, no], "no"),
            (vec![of_machines, fails], "failed"),
        ] {
            let conditions = Conditions(sources.iter().map(|source| compile(source).unwrap()).collect());
            let found = match conditions.matches(&spec) {
                Matched::Yes => "yes",
                Matched::No => "no",
                Matched::Failed(error) => {
                    assert!(error.contains("scope"), "{error}");
                    "failed"
                }
            };
            assert_eq!(found, expected, "{sources:?}");
        }
        for bad in ["request.name == 'a'", "request.user", "user == 'a'", "1 +"] {
            assert!(compile(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_documented_condition_keeps_users_without_a_scope_from_a_webhook() {
        let source = "!has(request.extra) || !('capstan.dev/unscoped' in request.extra)";
        let conditions = Conditions(vec![compile(source).unwrap()]);
        for (spec, expected) in [
            (json!({"user": "keystone:alice"}), Matched::Yes),
            (json!({"user": "keystone:alice", "extra": {"scopes": ["a"]}}), Matched::Yes),
            (json!({"user": "keystone:alice", "extra": {"capstan.dev/unscoped": ["true"]}}), Matched::No),
        ] {
            assert_eq!(conditions.matches(&spec), expected, "{spec}");
        }
    }
}
