//! Flags of control plane components that a version does not have any more. A component does not start with one.

use super::feature_gates::minor;

/// Flags of kube-apiserver, with the first minor that does not have them.
const REMOVED: [(&str, u64); 1] = [("cloud-provider", 33)];

/// Returns true if the kube-apiserver of a version refuses a flag that earlier versions had.
pub fn is_removed_from_api_server(version: &str, flag: &str) -> bool {
    let minor = minor(version);
    REMOVED.iter().any(|(removed, first)| *removed == flag && minor.is_some_and(|minor| minor >= *first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_flag_is_known_by_its_version() {
        let table = [
            ("v1.32.9", "cloud-provider", false),
            ("v1.33.0", "cloud-provider", true),
            ("v1.36.3", "cloud-provider", true),
            ("v1.36.3", "profiling", false),
            ("latest", "cloud-provider", false),
        ];
        for (version, flag, expected) in table {
            assert_eq!(is_removed_from_api_server(version, flag), expected, "{version} {flag}");
        }
    }
}
