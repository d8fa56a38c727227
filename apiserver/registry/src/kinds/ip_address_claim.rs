//! IPAddressClaim: strategy and validation.

use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

/// Strategy of IPAddressClaim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IPAddressClaimStrategy;

impl Strategy for IPAddressClaimStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let changed = old.is_some_and(|old| old.get("spec") != new.get("spec"));
        changed
            .then(|| FieldError::forbidden(FieldPath::new("spec"), "IPAddressClaim spec is immutable"))
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_spec_of_a_claim_is_immutable() {
        let claim = json!({"spec": {"poolRef": {"apiGroup": "g", "name": "a"}}, "status": {}});
        let mut other = claim.clone();
        other["status"] = json!({"addressRef": {"name": "x"}});
        assert_eq!(IPAddressClaimStrategy.validate(&other, Some(&claim)), []);
        assert_eq!(IPAddressClaimStrategy.validate(&other, None), []);
        other["spec"]["poolRef"]["name"] = json!("b");
        let errors = IPAddressClaimStrategy.validate(&other, Some(&claim));
        assert_eq!(errors[0].to_string(), "spec: Forbidden: IPAddressClaim spec is immutable");
    }
}
