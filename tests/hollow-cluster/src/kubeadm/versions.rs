//! Versions of Kubernetes, and rules that depend on them.

use serde_json::Value;

/// A version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    /// The version as it was written, with `v`.
    pub(crate) text: String,
}

/// Parses a version such as `v1.33.1`.
pub(crate) fn parse(text: &str) -> Result<Version, String> {
    let invalid =
        || format!("version {text:?} doesn't match patterns for neither semantic version nor labels");
    let plain = text.strip_prefix('v').ok_or_else(invalid)?;
    let release = plain.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<u64> =
        release.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| invalid())?;
    match numbers.as_slice() {
        [major, minor, patch] => {
            Ok(Version { major: *major, minor: *minor, patch: *patch, text: text.to_owned() })
        }
        _ => Err(invalid()),
    }
}

/// Returns the version of the binaries in an image called `...-kube-v1.33.0`.
pub(crate) fn of_image(image: Option<&str>) -> Option<Version> {
    let (_, version) = image?.rsplit_once("-kube-")?;
    parse(version).ok()
}

/// Returns the version of the kubeadm that a command downloads from the archive of releases.
pub(crate) fn downloaded(command: &str) -> Option<Version> {
    let words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let (_, path) =
        words.filter(|word| word.ends_with("/kubeadm")).find_map(|word| word.split_once("/release/"))?;
    parse(path.split('/').next()?).ok()
}

/// Returns an error if a kubeadm cannot work with a control plane of this version. It must not be more than one
/// minor older than kubeadm. About a newer one, kubeadm only warns: workers lag behind during an upgrade.
pub(crate) fn check_skew(kubeadm: &Version, wanted: &Version) -> Result<(), String> {
    if kubeadm.major != wanted.major || wanted.minor + 1 < kubeadm.minor {
        return Err(format!(
            "this version of kubeadm only supports deploying clusters with the control plane version >= \
             {}.{}.0. Current version: {}",
            kubeadm.major,
            kubeadm.minor.saturating_sub(1),
            wanted.text
        ));
    }
    Ok(())
}

/// Feature gates: name, first minor, first minor without it.
const GATES: [(&str, u64, u64); 7] = [
    ("ControlPlaneKubeletLocalMode", 31, 36),
    ("EtcdLearnerMode", 27, 33),
    ("NodeLocalCRISocket", 32, u64::MAX),
    ("PublicKeysECDSA", 0, u64::MAX),
    ("RootlessControlPlane", 0, u64::MAX),
    ("UpgradeAddonsBeforeControlPlane", 28, 33),
    ("WaitForAllControlPlaneComponents", 30, 35),
];

/// Returns an error for a feature gate that this kubeadm does not know.
pub(crate) fn check_gates(kubeadm: &Version, gates: &Value) -> Result<(), String> {
    let gates = gates.as_object().into_iter().flatten();
    let known = |name: &str| {
        GATES.iter().any(|(gate, first, end)| *gate == name && (*first..*end).contains(&kubeadm.minor))
    };
    match gates.map(|(name, _)| name).find(|name| !known(name)) {
        Some(unknown) => Err(format!("featureGates: Invalid value: unrecognized feature gate {unknown}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_gates_and_skew_follow_kubeadm() {
        let version = |text: &str| parse(text).unwrap();
        assert_eq!(of_image(Some("ubuntu-2204-kube-v1.33.0")), Some(version("v1.33.0")));
        assert!(parse("1.33.0").is_err() && parse("v1.33").is_err());
        let download = "curl -Lo /usr/bin/kubeadm https://dl.k8s.io/release/v1.33.0/bin/linux/amd64/kubeadm";
        assert_eq!(downloaded(download), Some(version("v1.33.0")));
        assert_eq!(downloaded("/usr/bin/kubeadm join"), None);
        assert!(check_skew(&version("v1.33.0"), &version("v1.32.4")).is_ok());
        assert!(check_skew(&version("v1.33.0"), &version("v1.31.4")).is_err());
        assert!(check_skew(&version("v1.33.0"), &version("v1.34.0")).is_ok());
        let gate = json!({"ControlPlaneKubeletLocalMode": true});
        assert!(check_gates(&version("v1.31.0"), &gate).is_ok());
        assert!(check_gates(&version("v1.30.0"), &gate).is_err());
        assert!(check_gates(&version("v1.36.0"), &gate).is_err());
    }
}
