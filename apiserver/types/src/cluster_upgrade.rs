//! Upgrade of a Cluster by the verb `upgrade`: the annotations that keep the request, and their values.

use semver::Version;

/// Annotation of a Cluster without a topology with the versions that its upgrade takes, separated by commas, in their order.
/// The last one is the target. The verb writes it, and the controller removes it at the end.
pub const UPGRADE: &str = "capstan.dev/upgrade";

/// Annotation of a Cluster with a topology with the version at which its upgrade was cancelled. With it,
/// `spec.topology.version` may go back to that version, if no part of the cluster has a newer one.
pub const UPGRADE_STOP: &str = "capstan.dev/upgrade-stop";

/// Annotation of a Cluster with the version that its control plane takes. The controller writes it before the control plane
/// gets the version. Upstream's.
pub const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";

/// Condition of a Cluster without a topology: `True` while an upgrade by the verb is in progress.
pub const UPGRADING: &str = "Upgrading";

/// Returns the versions in a value of [`UPGRADE`].
///
/// # Errors
/// A part is no version, or the versions do not rise. For people.
pub fn upgrade_versions(text: &str) -> Result<Vec<String>, String> {
    let mut before: Option<Version> = None;
    let mut versions = Vec::new();
    for part in text.split(',') {
        let Some(version) = part.strip_prefix('v').and_then(|number| Version::parse(number).ok()) else {
            return Err(format!(
                "must be semantic versions with a leading v, separated by commas, such as \"v1.34.2,v1.35.0\"; \
                 {part:?} is none"
            ));
        };
        if let Some(before) = before.filter(|before| version <= *before) {
            return Err(format!("must be versions that rise; {part} is not above v{before}"));
        }
        before = Some(version);
        versions.push(part.to_owned());
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_complete_and_rise() {
        assert_eq!(upgrade_versions("v1.34.2").unwrap(), ["v1.34.2"]);
        assert_eq!(upgrade_versions("v1.34.2,v1.35.0-rc.1,v1.35.0").unwrap().len(), 3);
        for (text, expected) in [
            ("", "\"\" is none"),
            ("1.34.2", "\"1.34.2\" is none"),
            ("v1.34", "\"v1.34\" is none"),
            ("v1.34.2, v1.35.0", "\" v1.35.0\" is none"),
            ("v1.34.2,", "\"\" is none"),
            ("v1.34.2,v1.34.2", "v1.34.2 is not above v1.34.2"),
            ("v1.35.0,v1.34.2", "v1.34.2 is not above v1.35.0"),
        ] {
            let problem = upgrade_versions(text).unwrap_err();
            assert!(problem.starts_with("must be ") && problem.ends_with(expected), "{text}: {problem}");
        }
    }
}
