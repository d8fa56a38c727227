//! Upgrades of CoreDNS: versions between which its configuration can be migrated.

use apiserver_machinery::object;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

/// Annotation that excludes CoreDNS from upgrades.
const SKIP: &str = "controlplane.cluster.x-k8s.io/skip-coredns";

/// Versions in the order in which configurations can be migrated. Some numbers were never released.
const KNOWN: &[(u64, u64, &[u64])] = &[
    (1, 1, &[3, 4]),
    (1, 2, &[0, 1, 2, 3, 4, 5, 6]),
    (1, 3, &[0, 1]),
    (1, 4, &[0]),
    (1, 5, &[0, 1, 2]),
    (1, 6, &[0, 1, 2, 3, 4, 5, 6, 7, 9]),
    (1, 7, &[0, 1]),
    (1, 8, &[0, 3, 4, 5, 6, 7]),
    (1, 9, &[0, 1, 2, 3, 4]),
    (1, 10, &[0, 1]),
    (1, 11, &[0, 1, 3, 4]),
    (1, 12, &[0, 1, 2, 3, 4]),
    (1, 13, &[0, 1, 2]),
    (1, 14, &[0, 1, 2, 3, 4, 6]),
];

type Version = (u64, u64, u64);

/// First version whose configuration all later ones read as it is.
const UNCHANGED: Version = (1, 8, 0);

/// Adds an error if the configuration of CoreDNS cannot be migrated to the new version.
pub(super) fn validate(
    object: &Value,
    configuration: &Value,
    before: &Value,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some((from, to)) = change(object, configuration, before) else { return };
    let (to_text, from_text) = (show(to), show(from));
    let reason = if to > from && from >= UNCHANGED {
        return;
    } else if !is_known(from) {
        format!("start version '{from_text}' not supported")
    } else if !is_known(to) || to < from {
        format!("cannot migrate up to '{to_text}' from '{from_text}'")
    } else {
        return;
    };
    let detail = format!("cannot migrate CoreDNS up to '{to_text}' from '{from_text}': {reason}");
    errors.push(FieldError::forbidden(path.child("dns.imageTag"), &detail));
}

/// Returns the warning about a version that is not known here.
pub(super) fn warning(object: &Value, configuration: &Value, before: &Value) -> Option<String> {
    let (_, to) = change(object, configuration, before)?;
    (!is_known(to)).then(|| {
        let field = "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag";
        format!(
            "{field}: CoreDNS {} is not known here. The Corefile is kept as it is; verify that it fits",
            show(to)
        )
    })
}

/// Returns the old and the new version of CoreDNS, if they differ and upgrades are not excluded.
fn change(object: &Value, configuration: &Value, before: &Value) -> Option<(Version, Version)> {
    let tag = |configuration: &Value| {
        object::at(configuration, "dns.imageTag").and_then(Value::as_str).and_then(parse)
    };
    let (to, from) = (tag(configuration)?, tag(before)?);
    let skipped = object::at(object, "metadata.annotations").is_some_and(|all| all.get(SKIP).is_some());
    (to != from && !skipped).then_some((from, to))
}

fn show((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

fn is_known((major, minor, patch): Version) -> bool {
    KNOWN.iter().any(|(one, two, patches)| (*one, *two) == (major, minor) && patches.contains(&patch))
}

/// Parses major, minor and patch number of a tag. Missing numbers are 0.
pub(super) fn parse(tag: &str) -> Option<Version> {
    let text = tag.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '_', '+']).next()?;
    let mut numbers = core.split('.').map(|part| part.parse::<u64>().ok());
    let version = (numbers.next()??, numbers.next().unwrap_or(Some(0))?, numbers.next().unwrap_or(Some(0))?);
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn core_dns_can_only_migrate_between_supported_versions() {
        let dns = |tag: &str| json!({"dns": {"imageTag": tag}});
        for (from, to, expected) in [
            ("v1.11.1", "v1.12.0", None),
            ("1.12.0", "v1.12.0_x", None),
            ("v1.12.0-a", "v1.12.0", None),
            ("v1.12.0", "v1.11.3", Some("cannot migrate up to '1.11.3' from '1.12.0'")),
            ("v1.6.8", "v1.7.0", Some("start version '1.6.8' not supported")),
            ("v1.6.7", "v1.99.0", Some("cannot migrate up to '1.99.0' from '1.6.7'")),
            ("v1.12.0", "v1.99.0", None),
            ("v1.8.2", "v1.8.3", None),
            ("", "v1.7.0", None),
        ] {
            let mut errors = Vec::new();
            validate(&json!({}), &dns(to), &dns(from), &FieldPath::new("at"), &mut errors);
            let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), usize::from(expected.is_some()), "{from} to {to}: {found:?}");
            assert!(found.iter().all(|error| error.ends_with(expected.unwrap_or_default())), "{found:?}");
        }
        let mut errors = Vec::new();
        let skipped = json!({"metadata": {"annotations": {SKIP: ""}}});
        validate(&skipped, &dns("v1.1.3"), &dns("v1.12.0"), &FieldPath::new("at"), &mut errors);
        assert_eq!(errors, []);
    }

    /// A control plane could not go to a CoreDNS that was released after Capstan.
    #[test]
    fn a_version_that_is_not_known_causes_a_warning() {
        let dns = |tag: &str| json!({"dns": {"imageTag": tag}});
        let found = |object: &Value, to: &str| warning(object, &dns(to), &dns("v1.12.0"));
        let nothing = json!({});
        assert!(found(&nothing, "v1.99.0").is_some_and(|text| text.contains("CoreDNS 1.99.0 is not known")));
        assert_eq!(found(&nothing, "v1.12.1"), None);
        assert_eq!(found(&json!({"metadata": {"annotations": {SKIP: ""}}}), "v1.99.0"), None);
    }

    #[test]
    fn tags_are_parsed_leniently() {
        for (tag, expected) in [
            ("v1.12.0", Some((1, 12, 0))),
            ("1.12", Some((1, 12, 0))),
            ("1", Some((1, 0, 0))),
            ("1.8.0_x.1", Some((1, 8, 0))),
            ("1.8.0-rc.1", Some((1, 8, 0))),
            ("latest", None),
            ("1.2.3.4", None),
            ("", None),
        ] {
            assert_eq!(parse(tag), expected, "{tag}");
        }
    }
}
