//! Validation of the settings of the whole cluster: images, and the location of etcd.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::core_dns;

/// Adds every error of a ClusterConfiguration. `before` is the old one, absent on create.
pub(crate) fn validate(
    configuration: &Value,
    before: Option<&Value>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let tag = |pointer: &str| configuration.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    for (pointer, field) in
        [("/dns/imageTag", "dns.imageTag"), ("/etcd/local/imageTag", "etcd.local.imageTag")]
    {
        if !is_tag(tag(pointer)) {
            let detail = format!("tag {} is invalid", tag(pointer));
            errors.push(FieldError::forbidden(path.child(field), &detail));
        }
    }
    let dns = tag("/dns/imageTag");
    if !dns.is_empty() && core_dns::parse(dns).is_none() {
        // The path is upstream's, which lacks its beginning.
        let detail = "failed to parse CoreDNS version: must be a version, e.g. v1.12.0";
        errors.push(FieldError::invalid(FieldPath::new("dns.imageTag"), &json!(dns), detail));
    }
    let has = |configuration: &Value, part: &str| configuration.pointer(&format!("/etcd/{part}")).is_some();
    if has(configuration, "local") && has(configuration, "external") {
        errors.push(FieldError::forbidden(
            path.child("etcd.local"),
            "cannot have both external and local etcd",
        ));
    }
    if before.is_some_and(|before| has(before, "external") != has(configuration, "external")) {
        let detail = "cannot change between external and local etcd";
        errors.push(FieldError::forbidden(path.child("etcd.external"), detail));
    }
}

/// Reports whether a text has only characters that are allowed in an image tag.
fn is_tag(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(configuration: &Value, before: Option<&Value>) -> Vec<String> {
        let mut errors = Vec::new();
        validate(configuration, before, &FieldPath::new("at"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn image_tags_must_be_valid() {
        let tags =
            |dns: &str, etcd: &str| json!({"dns": {"imageTag": dns}, "etcd": {"local": {"imageTag": etcd}}});
        assert_eq!(found(&tags("v1.12.0_build.1", "3.6.4-0"), None), Vec::<String>::new());
        assert_eq!(
            found(&tags("1.12.0", "3.6/4"), None),
            ["at.etcd.local.imageTag: Forbidden: tag 3.6/4 is invalid"]
        );
        assert_eq!(
            found(&tags("latest", "3"), None),
            [
                "dns.imageTag: Invalid value: \"latest\": failed to parse CoreDNS version: must be a version, e.g. v1.12.0"
            ]
        );
        assert_eq!(found(&Value::Null, None), Vec::<String>::new());
    }

    #[test]
    fn etcd_cannot_change_between_local_and_external() {
        let external = json!({"etcd": {"external": {"endpoints": ["https://e"]}}});
        let local = json!({"etcd": {"local": {"dataDir": "/d"}}});
        let both = json!({"etcd": {"external": {}, "local": {}}});
        assert_eq!(found(&local, Some(&Value::Null)), Vec::<String>::new());
        assert_eq!(
            found(&external, Some(&local)),
            ["at.etcd.external: Forbidden: cannot change between external and local etcd"]
        );
        assert_eq!(found(&local, Some(&external)).len(), 1);
        assert_eq!(
            found(&both, None),
            ["at.etcd.local: Forbidden: cannot have both external and local etcd"]
        );
    }
}
