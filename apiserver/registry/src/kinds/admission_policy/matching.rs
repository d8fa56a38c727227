//! Validation of the requests that a policy or a binding matches.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::admission_rules::{entries, one_of, validate_named_rule, validate_selector};

/// Adds every error of `matchConstraints` or `matchResources`.
pub(super) fn validate(resources: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    one_of(resources, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    validate_selector(resources, "namespaceSelector", path, errors);
    validate_selector(resources, "objectSelector", path, errors);
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in entries(resources, field).iter().enumerate() {
            validate_named_rule(rule, &path.child(field).index(index), errors);
        }
    }
}
