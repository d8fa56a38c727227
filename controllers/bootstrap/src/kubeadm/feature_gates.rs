//! Feature gates of kubeadm. kubeadm refuses a file with a gate that it does not know.

use std::collections::BTreeMap;

use semver::Version;

/// Gate by which the kubelet of a control plane node talks to the API server of its own node, so that no kubelet is
/// newer than its API server during an upgrade.
const LOCAL_MODE: &str = "ControlPlaneKubeletLocalMode";

/// First minor whose kubeadm knows the gate.
const LOCAL_MODE_FIRST: u64 = 31;

/// First minor whose kubeadm does not know the gate any more: it is always on.
const LOCAL_MODE_REMOVED: u64 = 36;

/// Gates that a minor's kubeadm knows. For 1.31 and 1.32, `hack/kubeadm/gates.sh` printed them, from the source of kubeadm
/// v1.31.14 and v1.32.13.
const KNOWN: [(u64, &[&str]); 7] = [
    (
        30,
        &[
            "EtcdLearnerMode",
            "PublicKeysECDSA",
            "RootlessControlPlane",
            "UpgradeAddonsBeforeControlPlane",
            "WaitForAllControlPlaneComponents",
        ],
    ),
    (
        31,
        &[
            LOCAL_MODE,
            "EtcdLearnerMode",
            "PublicKeysECDSA",
            "RootlessControlPlane",
            "WaitForAllControlPlaneComponents",
        ],
    ),
    (
        32,
        &[
            LOCAL_MODE,
            "EtcdLearnerMode",
            "NodeLocalCRISocket",
            "PublicKeysECDSA",
            "RootlessControlPlane",
            "WaitForAllControlPlaneComponents",
        ],
    ),
    (33, AFTER_1_33),
    (34, AFTER_1_33),
    (35, &[LOCAL_MODE, "NodeLocalCRISocket", "PublicKeysECDSA", "RootlessControlPlane"]),
    (36, &["NodeLocalCRISocket", "PublicKeysECDSA", "RootlessControlPlane"]),
];

/// Gates of 1.33 and 1.34.
const AFTER_1_33: &[&str] = &[
    LOCAL_MODE,
    "NodeLocalCRISocket",
    "PublicKeysECDSA",
    "RootlessControlPlane",
    "WaitForAllControlPlaneComponents",
];

/// Returns the gates of a KubeadmConfig that a KubeadmControlPlane creates, from the gates that its user has given.
///
/// The kubelet's local mode is switched on, unless the user has set it. From 1.36 on it is always on, so the gate is
/// left out.
pub fn feature_gates(
    version: &str,
    given: Option<&BTreeMap<String, bool>>,
) -> Option<BTreeMap<String, bool>> {
    let mut gates = given.cloned().unwrap_or_default();
    let minor = minor(version);
    if minor.is_some_and(|minor| (LOCAL_MODE_FIRST..LOCAL_MODE_REMOVED).contains(&minor)) {
        gates.entry(LOCAL_MODE.to_owned()).or_insert(true);
    }
    if minor.is_some_and(|minor| minor >= LOCAL_MODE_REMOVED) && gates.get(LOCAL_MODE) == Some(&true) {
        gates.remove(LOCAL_MODE);
    }
    (given.is_some() || !gates.is_empty()).then_some(gates)
}

/// Returns the gates that the kubeadm of a version would refuse. For a version that is not in the table, there are none.
pub fn unknown_feature_gates(version: &str, given: &BTreeMap<String, bool>) -> Vec<String> {
    let known = minor(version).and_then(|minor| KNOWN.iter().find(|(known, _)| *known == minor));
    let Some((_, known)) = known else { return Vec::new() };
    given.keys().filter(|gate| !known.contains(&gate.as_str())).cloned().collect()
}

/// Returns the gates that [`feature_gates`] leaves out, because the version always does what they request.
pub fn forced_feature_gates(version: &str, given: &BTreeMap<String, bool>) -> Vec<String> {
    let written = feature_gates(version, Some(given)).unwrap_or_default();
    given.keys().filter(|gate| !written.contains_key(*gate)).cloned().collect()
}

/// Returns the gates of a version that is not in the table which no version in the table knows either. kubeadm may refuse
/// them.
pub fn doubtful_feature_gates(version: &str, given: &BTreeMap<String, bool>) -> Vec<String> {
    let Some(minor) = minor(version).filter(|minor| KNOWN.iter().all(|(known, _)| known != minor)) else {
        return Vec::new();
    };
    // The local mode is known for every version.
    let is_local = |gate: &str| gate == LOCAL_MODE && (LOCAL_MODE_FIRST..LOCAL_MODE_REMOVED).contains(&minor);
    let is_known = |gate: &str| gate != LOCAL_MODE && KNOWN.iter().any(|(_, gates)| gates.contains(&gate));
    given.keys().filter(|gate| !is_local(gate) && !is_known(gate)).cloned().collect()
}

/// Returns the minor of a version 1.x.
pub(super) fn minor(version: &str) -> Option<u64> {
    let version = Version::parse(version.strip_prefix('v').unwrap_or(version)).ok()?;
    (version.major == 1).then_some(version.minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(gates: &[(&str, bool)]) -> BTreeMap<String, bool> {
        gates.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_local_mode_is_on_where_the_version_knows_it() {
        let on = Some(gates(&[(LOCAL_MODE, true)]));
        let off = gates(&[(LOCAL_MODE, false)]);
        let table = [
            ("v1.30.14", None, None),
            ("v1.31.0-rc.1", None, on.clone()),
            ("v1.35.1", None, on.clone()),
            ("v1.36.0", None, None),
            ("v1.33.0", Some(off.clone()), Some(off)),
            ("v1.36.0", on, Some(gates(&[]))),
            ("latest", None, None),
        ];
        for (version, given, expected) in table {
            assert_eq!(feature_gates(version, given.as_ref()), expected, "{version} {given:?}");
        }
    }

    #[test]
    fn a_gate_that_is_left_out_or_that_no_version_is_known_to_have_is_named() {
        let local = gates(&[(LOCAL_MODE, true)]);
        assert_eq!(forced_feature_gates("v1.36.0", &local), [LOCAL_MODE]);
        assert!(forced_feature_gates("v1.35.0", &local).is_empty());
        assert!(forced_feature_gates("v1.36.0", &gates(&[(LOCAL_MODE, false)])).is_empty());
        let given = gates(&[(LOCAL_MODE, true), ("EtcdLearnerMode", true), ("Misspelt", true)]);
        assert_eq!(doubtful_feature_gates("v1.37.0", &given), [LOCAL_MODE, "Misspelt"]);
        assert_eq!(doubtful_feature_gates("v1.29.0", &given), [LOCAL_MODE, "Misspelt"]);
        assert!(doubtful_feature_gates("v1.33.0", &given).is_empty(), "these are refused");
    }

    #[test]
    fn a_gate_that_the_version_does_not_know_is_named() {
        let given = gates(&[("EtcdLearnerMode", true), ("PublicKeysECDSA", true)]);
        assert!(unknown_feature_gates("v1.30.1", &given).is_empty());
        assert_eq!(unknown_feature_gates("v1.33.1", &given), ["EtcdLearnerMode"]);
        assert!(unknown_feature_gates("v1.31.1", &given).is_empty());
        assert!(unknown_feature_gates("v1.29.1", &given).is_empty(), "this version is not in the table");
        let others = gates(&[("NodeLocalCRISocket", true), ("UpgradeAddonsBeforeControlPlane", true)]);
        let both = ["NodeLocalCRISocket", "UpgradeAddonsBeforeControlPlane"];
        assert_eq!(unknown_feature_gates("v1.31.1", &others), both);
        assert_eq!(unknown_feature_gates("v1.32.1", &others), both[1..]);
    }
}
