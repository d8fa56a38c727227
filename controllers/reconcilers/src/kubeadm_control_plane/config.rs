//! KubeadmConfig of a Machine: the settings of the control plane, for the first Machine or for one that joins.

use std::collections::BTreeMap;

use apiserver_types::{BootstrapFormat, JoinControlPlane, KubeadmConfigSpec, KubeadmControlPlane};

use crate::machine_versions;

/// kubeadm gate that makes the kubelet of a control plane Node use the API server of its own Node.
const LOCAL_MODE: &str = "ControlPlaneKubeletLocalMode";

/// Minor versions of Kubernetes whose kubeadm knows the gate: from the first up to, but without, the last.
const LOCAL_MODE_MINORS: std::ops::Range<u64> = 31..36;

/// Way in which a Machine becomes a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// `kubeadm init`: the first Machine of a cluster.
    Init,
    /// `kubeadm join`.
    Join,
}

/// Returns the KubeadmConfig of a new Machine.
pub(super) fn spec(control_plane: &KubeadmControlPlane, start: Start) -> KubeadmConfigSpec {
    let mut spec = control_plane.spec.kubeadm_config_spec.clone().unwrap_or_default();
    default_gates(&mut spec, &control_plane.spec.version);
    match start {
        Start::Init => spec.join_configuration = None,
        Start::Join => {
            spec.init_configuration = None;
            let join = spec.join_configuration.get_or_insert_default();
            join.control_plane.get_or_insert_with(JoinControlPlane::default);
        }
    }
    if spec == KubeadmConfigSpec::default() {
        // An empty spec is refused; this is the default in words.
        spec.format = Some(BootstrapFormat::CloudConfig);
    }
    spec
}

/// Sets the gates that kubeadm needs for a version, unless the user has set them.
pub(super) fn default_gates(spec: &mut KubeadmConfigSpec, version: &str) {
    let Some(version) = machine_versions::parse(version) else { return };
    if version.major != 1 || !LOCAL_MODE_MINORS.contains(&version.minor) {
        return;
    }
    let cluster = spec.cluster_configuration.get_or_insert_default();
    let gates = cluster.feature_gates.get_or_insert_with(BTreeMap::new);
    gates.entry(LOCAL_MODE.to_owned()).or_insert(true);
}

#[cfg(test)]
mod tests {
    use apiserver_types::{InitConfiguration, JoinConfiguration, KubeadmControlPlaneSpec};

    use super::*;

    #[test]
    fn the_first_machine_gets_no_join_configuration_and_the_others_no_init_configuration() {
        let config = KubeadmConfigSpec {
            init_configuration: Some(InitConfiguration::default()),
            join_configuration: Some(JoinConfiguration::default()),
            ..KubeadmConfigSpec::default()
        };
        let spec_of = KubeadmControlPlaneSpec {
            version: "v1.33.0".to_owned(),
            kubeadm_config_spec: Some(config),
            ..KubeadmControlPlaneSpec::default()
        };
        let control_plane = KubeadmControlPlane::new("c", spec_of);
        let init = spec(&control_plane, Start::Init);
        assert!(init.init_configuration.is_some() && init.join_configuration.is_none());
        let join = spec(&control_plane, Start::Join);
        assert!(join.init_configuration.is_none());
        assert!(join.join_configuration.is_some_and(|join| join.control_plane.is_some()));
        let bare = KubeadmControlPlane::default();
        assert_ne!(spec(&bare, Start::Init), KubeadmConfigSpec::default(), "the API refuses an empty spec");
    }

    #[test]
    fn the_gate_for_local_kubelets_is_set_where_kubeadm_knows_it_and_the_user_does_not_set_it() {
        let table = [
            ("v1.30.9", None, None),
            ("v1.31.0", None, Some(true)),
            ("v1.35.9", None, Some(true)),
            ("v1.36.0", None, None),
            ("v1.33.0", Some(false), Some(false)),
            ("no version", None, None),
        ];
        for (version, set, expected) in table {
            let mut spec = KubeadmConfigSpec::default();
            if let Some(set) = set {
                let gates = BTreeMap::from([(LOCAL_MODE.to_owned(), set)]);
                spec.cluster_configuration.get_or_insert_default().feature_gates = Some(gates);
            }
            default_gates(&mut spec, version);
            let gates = spec.cluster_configuration.and_then(|cluster| cluster.feature_gates);
            assert_eq!(gates.and_then(|gates| gates.get(LOCAL_MODE).copied()), expected, "{version}");
        }
    }
}
