//! Validation of the spread of a MachineDeployment over failure domains.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::failure_domain_spread::{SPREAD_FAILURE_DOMAINS, failure_domain_spread};
use serde_json::{Value, json};

use crate::rules::json_fields::{annotation, text};

/// Failure domain of all Machines of a MachineDeployment.
const FIELD: &str = "spec.template.spec.failureDomain";

/// Adds an error if the annotation has an unusable value, or if the template names a failure domain, too. What is stored
/// already is no error, so that an object of an earlier version can still be changed.
pub(crate) fn validate(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(value) = annotation(new, SPREAD_FAILURE_DOMAINS) else { return };
    let is_stored = old.is_some_and(|old| annotation(old, SPREAD_FAILURE_DOMAINS) == Some(value));
    if !is_stored && failure_domain_spread(value).is_none() {
        let path = FieldPath::new("metadata.annotations").key(SPREAD_FAILURE_DOMAINS);
        let detail = "must be \"all\", or names of failure domains that are separated by commas";
        errors.push(FieldError::invalid(path, &json!(value), detail));
    }
    let domain = text(new, FIELD).filter(|domain| !domain.is_empty());
    let is_changed = !is_stored || old.is_none_or(|old| text(old, FIELD) != domain);
    if domain.is_some() && is_changed {
        let detail = format!(
            "must be empty, because the annotation {SPREAD_FAILURE_DOMAINS} distributes the Machines over failure domains"
        );
        errors.push(FieldError::forbidden(FieldPath::new(FIELD), &detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spread: Option<&str>, domain: Option<&str>) -> Value {
        let annotations = spread.map(|spread| json!({SPREAD_FAILURE_DOMAINS: spread}));
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"template": {"spec": {"failureDomain": domain}}},
        })
    }

    fn found(new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Vec::new();
        validate(new, old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_unusable_value_is_named_with_its_path_and_a_stored_one_is_let_through() {
        let bad = object(Some("az1,"), None);
        let expected = "metadata.annotations[capstan.dev/spread-failure-domains]: Invalid value: \"az1,\": must be \
            \"all\", or names of failure domains that are separated by commas";
        assert_eq!(found(&bad, None), [expected]);
        assert_eq!(found(&bad, Some(&object(Some("all"), None))), [expected]);
        assert_eq!(found(&bad, Some(&bad)), [""; 0]);
        assert_eq!(found(&object(Some("az1,az2"), None), None), [""; 0]);
    }

    #[test]
    fn the_template_of_a_spread_deployment_names_no_failure_domain() {
        let both = object(Some("all"), Some("az1"));
        let expected = "spec.template.spec.failureDomain: Forbidden: must be empty, because the annotation \
            capstan.dev/spread-failure-domains distributes the Machines over failure domains";
        let others = [object(None, Some("az1")), object(Some("all"), None), object(Some("all"), Some("az2"))];
        assert_eq!(found(&both, None), [expected]);
        for old in others {
            assert_eq!(found(&both, Some(&old)), [expected], "{old}");
        }
        assert_eq!(found(&both, Some(&both)), [""; 0]);
        for new in [object(None, Some("az1")), object(Some("all"), None), object(Some("all"), Some(""))] {
            assert_eq!(found(&new, None), [""; 0], "{new}");
        }
    }
}
