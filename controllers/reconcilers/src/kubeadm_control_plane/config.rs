//! KubeadmConfig of a Machine: the settings of the control plane, for the first Machine or for one that joins.

use apiserver_types::{BootstrapFormat, JoinControlPlane, KubeadmConfigSpec, KubeadmControlPlane};
use controllers_bootstrap::kubeadm::feature_gates;

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
    let given = spec.cluster_configuration.as_ref().and_then(|cluster| cluster.feature_gates.as_ref());
    let gates = feature_gates(version, given).filter(|gates| !gates.is_empty());
    if gates.is_some() || given.is_some() {
        spec.cluster_configuration.get_or_insert_default().feature_gates = gates;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    fn the_gates_of_a_version_are_set_and_no_empty_ones() {
        let gates = |version: &str, given: &[(&str, bool)]| {
            let mut spec = KubeadmConfigSpec::default();
            let given: BTreeMap<String, bool> =
                given.iter().map(|(gate, value)| ((*gate).to_owned(), *value)).collect();
            if !given.is_empty() {
                spec.cluster_configuration.get_or_insert_default().feature_gates = Some(given);
            }
            default_gates(&mut spec, version);
            let gates = spec.cluster_configuration.and_then(|cluster| cluster.feature_gates);
            gates.map(|gates| gates.into_keys().collect::<Vec<_>>().join(","))
        };
        let local = "ControlPlaneKubeletLocalMode";
        assert_eq!(gates("v1.33.0", &[]).as_deref(), Some(local));
        assert_eq!(gates("v1.30.0", &[]), None);
        assert_eq!(gates("v1.36.0", &[(local, true)]), None, "kubeadm refuses what it does not know");
        assert_eq!(gates("v1.36.0", &[("PublicKeysECDSA", true)]).as_deref(), Some("PublicKeysECDSA"));
    }
}
