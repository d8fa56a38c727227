//! IPAddressClaim.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use serde_json::Value;

/// IPAddressClaim's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IPAddressClaimStrategy;

impl Strategy for IPAddressClaimStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(old) = old else { return validate_pool(new).into_iter().collect() };
        let changed = old.get("spec") != new.get("spec");
        changed
            .then(|| FieldError::forbidden(FieldPath::new("spec"), "IPAddressClaim spec is immutable"))
            .into_iter()
            .collect()
    }
}

/// A fault when the pool is of no group: v1beta2 asks for one, older versions do not.
pub(crate) fn validate_pool(new: &Value) -> Option<FieldError> {
    let pool = object::at(new, "spec.poolRef")?;
    let has_group = pool.get("apiGroup").and_then(Value::as_str).is_some_and(|group| !group.is_empty());
    let detail = "the pool reference needs to contain a group";
    (!has_group).then(|| FieldError::invalid(FieldPath::new("spec.poolRef.apiGroup"), &Value::Null, detail))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_not_changed() {
        let claim = json!({"spec": {"poolRef": {"apiGroup": "g", "name": "a"}}, "status": {}});
        let mut other = claim.clone();
        other["status"] = json!({"addressRef": {"name": "x"}});
        assert_eq!(IPAddressClaimStrategy.validate(&other, Some(&claim)), []);
        assert_eq!(IPAddressClaimStrategy.validate(&other, None), []);
        other["spec"]["poolRef"]["apiGroup"] = json!("");
        let faults = IPAddressClaimStrategy.validate(&other, None);
        assert_eq!(
            faults[0].to_string(),
            "spec.poolRef.apiGroup: Invalid value: null: the pool reference needs to contain a group"
        );
        other["spec"]["poolRef"]["name"] = json!("b");
        let faults = IPAddressClaimStrategy.validate(&other, Some(&claim));
        assert_eq!(faults[0].to_string(), "spec: Forbidden: IPAddressClaim spec is immutable");
    }
}
