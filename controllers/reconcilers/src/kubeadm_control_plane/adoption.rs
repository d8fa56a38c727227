//! Adoption of control plane Machines that have no controller.

use apiserver_types::KubeadmControlPlane;

use super::replica::Replica;
use crate::machine_versions;

/// Returns the reason that forbids the adoption, of all Machines together.
pub(super) fn refusal(control_plane: &KubeadmControlPlane, replicas: &[Replica]) -> Option<String> {
    let wished = machine_versions::parse(&control_plane.spec.version);
    for replica in replicas {
        let name = replica.name();
        let reference = replica.machine.spec.bootstrap.config_ref.as_ref();
        if reference.is_none_or(|reference| reference.kind != "KubeadmConfig") {
            return Some(format!(
                "Machine {name} cannot be adopted: its spec.bootstrap.configRef names no KubeadmConfig"
            ));
        }
        let version = replica.machine.spec.version.as_deref().unwrap_or_default();
        let near = match (machine_versions::parse(version), &wished) {
            (Some(version), Some(wished)) => {
                version.major == wished.major && version.minor.abs_diff(wished.minor) <= 1
            }
            _ => false,
        };
        if !near {
            return Some(format!(
                "Machine {name} cannot be adopted: its version {version:?} is more than one minor version from {}",
                control_plane.spec.version
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use apiserver_types::ContractVersionedObjectReference;

    use super::super::replica::examples::replica;
    use super::*;

    #[test]
    fn machines_are_adopted_only_if_kubeadm_made_all_of_them_at_most_one_minor_version_away() {
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.version = "v1.33.0".to_owned();
        let machine = |kind: &str, version: &str| {
            let mut replica = replica("m", 1);
            let kind = kind.to_owned();
            let reference = ContractVersionedObjectReference { kind, ..Default::default() };
            replica.machine.spec.bootstrap.config_ref = Some(reference);
            replica.machine.spec.version = Some(version.to_owned());
            replica
        };
        let config = "KubeadmConfig";
        let table = [
            (vec![machine(config, "v1.33.4"), machine(config, "v1.32.0")], true),
            (vec![machine(config, "v1.34.0")], true),
            (vec![machine(config, "v1.33.4"), machine(config, "v1.31.0")], false),
            (vec![machine(config, "")], false),
            (vec![machine("Other", "v1.33.0")], false),
            (vec![replica("m", 1)], false),
        ];
        for (replicas, expected) in table {
            assert_eq!(refusal(&control_plane, &replicas).is_none(), expected, "{replicas:?}");
        }
    }
}
