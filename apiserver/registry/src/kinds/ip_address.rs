//! IPAddress: strategy and validation.

use std::net::IpAddr;

use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::rules::json_fields::text;

/// Strategy of IPAddress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IPAddressStrategy;

#[async_trait]
impl Strategy for IPAddressStrategy {
    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let claim = text(new, "spec.claimRef.name").filter(|claim| old.is_none() && !claim.is_empty());
        let Some(claim) = claim else { return Ok(Verdict::default()) };
        let found =
            others.find("ipam.cluster.x-k8s.io", "ipaddressclaims", object::namespace(new), claim).await?;
        let errors = found.and_then(|claim| other_pool(new, &claim)).into_iter().collect();
        Ok(Verdict { errors, warnings: Vec::new() })
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let path = FieldPath::new("spec");
        if let Some(old) = old {
            let changed = old.get("spec") != new.get("spec");
            return changed
                .then(|| FieldError::forbidden(path, "IPAddress spec is immutable"))
                .into_iter()
                .collect();
        }
        let mut errors = Vec::new();
        let mut address = |field: &str, given: &str| -> Option<IpAddr> {
            let found = parse(given);
            if found.is_none() {
                errors.push(FieldError::invalid(path.child(field), &json!(given), "not a valid IP address"));
            }
            found
        };
        // Older versions do not require a spec. Without one, there is no address.
        let found = address("address", text(new, "spec.address").unwrap_or_default());
        if let Some(gateway) = text(new, "spec.gateway").filter(|gateway| !gateway.is_empty()) {
            address("gateway", gateway);
        }
        let prefix = object::at(new, "spec.prefix").and_then(Value::as_i64).unwrap_or_default();
        let detail = match found {
            _ if prefix < 0 => "prefix cannot be negative",
            Some(IpAddr::V4(_)) if prefix > 32 => "prefix is too large for an IPv4 address",
            Some(IpAddr::V6(_)) if prefix > 128 => "prefix is too large for an IPv6 address",
            _ => return errors,
        };
        errors.push(FieldError::invalid(path.child("prefix"), &json!(prefix), detail));
        errors
    }
}

/// Returns the error of an address from another pool than the pool of its claim.
fn other_pool(new: &Value, claim: &Value) -> Option<FieldError> {
    let [own, claimed] = [new, claim].map(|object| object::at(object, "spec.poolRef"));
    let detail =
        "the referenced pool is different from the pool referenced by the claim this address should fulfill";
    (own != claimed)
        .then(|| FieldError::invalid(FieldPath::new("spec.poolRef"), own.unwrap_or(&Value::Null), detail))
}

/// Parses an address. An IPv6 address can have a zone.
fn parse(text: &str) -> Option<IpAddr> {
    match text.split_once('%') {
        None => text.parse().ok(),
        Some((address, zone)) if !zone.is_empty() => {
            address.parse().ok().filter(|address: &IpAddr| address.is_ipv6())
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_gateways_must_be_valid() {
        let found = |spec: Value| -> Vec<String> {
            let errors = IPAddressStrategy.validate(&json!({"spec": spec}), None);
            errors.iter().map(ToString::to_string).collect()
        };
        let none = Vec::<String>::new();
        assert_eq!(found(json!({"address": "10.0.0.1", "prefix": 24, "gateway": "10.0.0.254"})), none);
        assert_eq!(found(json!({"address": "fe80::1%eth0", "prefix": 64})), none);
        assert_eq!(
            found(json!({"address": "10.0.0", "prefix": 24, "gateway": "x%y"})),
            [
                "spec.address: Invalid value: \"10.0.0\": not a valid IP address",
                "spec.gateway: Invalid value: \"x%y\": not a valid IP address",
            ]
        );
        assert_eq!(
            IPAddressStrategy.validate(&json!({}), None)[0].to_string(),
            "spec.address: Invalid value: \"\": not a valid IP address"
        );
        assert_eq!(
            found(json!({"address": "10.0.0.1", "prefix": 33})),
            ["spec.prefix: Invalid value: 33: prefix is too large for an IPv4 address"]
        );
    }

    #[test]
    fn the_spec_of_an_address_is_immutable() {
        let address = json!({"spec": {"address": "10.0.0.1", "prefix": 24}});
        let mut other = address.clone();
        assert_eq!(IPAddressStrategy.validate(&other, Some(&address)), []);
        other["spec"]["prefix"] = json!(25);
        let errors = IPAddressStrategy.validate(&other, Some(&address));
        assert_eq!(errors[0].to_string(), "spec: Forbidden: IPAddress spec is immutable");
    }
}
