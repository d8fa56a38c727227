//! Mutable fields of a control plane: those for which its machines can be replaced.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::immutable;

/// Mutable fields below `spec`, including everything in them.
const CHANGEABLE: &[&str] = &[
    "kubeadmConfigSpec.clusterConfiguration.etcd",
    "kubeadmConfigSpec.clusterConfiguration.dns",
    "kubeadmConfigSpec.clusterConfiguration.imageRepository",
    "kubeadmConfigSpec.clusterConfiguration.featureGates",
    "kubeadmConfigSpec.clusterConfiguration.apiServer",
    "kubeadmConfigSpec.clusterConfiguration.controllerManager",
    "kubeadmConfigSpec.clusterConfiguration.scheduler",
    "kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays",
    "kubeadmConfigSpec.clusterConfiguration.encryptionAlgorithm",
    "kubeadmConfigSpec.initConfiguration.nodeRegistration",
    "kubeadmConfigSpec.initConfiguration.patches",
    "kubeadmConfigSpec.initConfiguration.skipPhases",
    "kubeadmConfigSpec.initConfiguration.bootstrapTokens",
    "kubeadmConfigSpec.initConfiguration.localAPIEndpoint",
    "kubeadmConfigSpec.initConfiguration.timeouts",
    "kubeadmConfigSpec.joinConfiguration.nodeRegistration",
    "kubeadmConfigSpec.joinConfiguration.patches",
    "kubeadmConfigSpec.joinConfiguration.skipPhases",
    "kubeadmConfigSpec.joinConfiguration.caCertPath",
    "kubeadmConfigSpec.joinConfiguration.controlPlane",
    "kubeadmConfigSpec.joinConfiguration.discovery",
    "kubeadmConfigSpec.joinConfiguration.timeouts",
    "kubeadmConfigSpec.bootCommands",
    "kubeadmConfigSpec.preKubeadmCommands",
    "kubeadmConfigSpec.postKubeadmCommands",
    "kubeadmConfigSpec.files",
    "kubeadmConfigSpec.verbosity",
    "kubeadmConfigSpec.users",
    "kubeadmConfigSpec.ntp",
    "kubeadmConfigSpec.ignition",
    "kubeadmConfigSpec.diskSetup",
    "kubeadmConfigSpec.format",
    "kubeadmConfigSpec.mounts",
    "machineTemplate.metadata",
    "machineTemplate.spec",
    "replicas",
    "version",
    "remediation",
    "machineNaming",
    "rollout",
];

/// Adds an error for every immutable field of `spec` that differs from `before`.
pub(super) fn validate(spec: &Value, before: &Value, errors: &mut Vec<FieldError>) {
    let changed = immutable::changed_paths(before, spec);
    let refused = changed.iter().filter(|path| !is_changeable(path));
    errors.extend(
        refused.map(|path| FieldError::forbidden(FieldPath::new("spec").child(path), "cannot be modified")),
    );
}

fn is_changeable(path: &str) -> bool {
    CHANGEABLE.iter().any(|allowed| {
        path.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(spec: &Value, before: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(spec, before, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_for_new_machines_are_mutable() {
        let before = json!({"replicas": 3, "version": "v1.34.1", "kubeadmConfigSpec": {
            "clusterConfiguration": {"certificatesDir": "/pki", "dns": {"imageTag": "v1"}}, "files": [{"path": "/a"}]},
            "machineTemplate": {"spec": {"infrastructureRef": {"name": "a"}}}});
        let mut spec = before.clone();
        spec["replicas"] = json!(1);
        spec["rollout"] = json!({"after": "2026-11-21T06:00:00Z"});
        spec["machineTemplate"]["spec"]["infrastructureRef"]["name"] = json!("b");
        spec["kubeadmConfigSpec"]["files"] = json!([]);
        spec["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"] = json!({"certSANs": ["x"]});
        spec["kubeadmConfigSpec"]["initConfiguration"] = json!({"patches": {"directory": "/p"}});
        assert_eq!(found(&spec, &before), Vec::<String>::new());
        // The reverse change removes the whole initConfiguration.
        assert_eq!(
            found(&before, &spec),
            ["spec.kubeadmConfigSpec.initConfiguration: Forbidden: cannot be modified"]
        );
    }

    #[test]
    fn settings_of_the_cluster_creation_are_immutable() {
        let before = json!({"kubeadmConfigSpec": {"clusterConfiguration": {"certificatesDir": "/pki"}}});
        let mut spec = before.clone();
        spec["kubeadmConfigSpec"]["clusterConfiguration"] = json!({"certificatesDir": "/other", "controlPlaneEndpoint": "h:1", "caCertificateValidityPeriodDays": 9});
        let path = "spec.kubeadmConfigSpec.clusterConfiguration";
        let mut expected: Vec<String> =
            ["certificatesDir", "controlPlaneEndpoint", "caCertificateValidityPeriodDays"]
                .iter()
                .map(|field| format!("{path}.{field}: Forbidden: cannot be modified"))
                .collect();
        let mut found = found(&spec, &before);
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}
