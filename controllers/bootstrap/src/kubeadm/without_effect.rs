//! Fields of a KubeadmConfig without an effect on kubeadm up to 1.30: neither its file nor a patch can express them.

use apiserver_types::{KubeadmConfigSpec, KubeadmTimeouts, NodeRegistrationOptions};

use super::api_version::ApiVersion;

/// First version of kubeadm for which all fields have a form, for messages.
pub const ALL_FIELDS_FROM: &str = "v1.31.0";

/// Returns the paths of the fields that have no effect with the kubeadm of a version, below the spec of a KubeadmConfig.
///
/// A value that kubeadm uses by itself is not among them. An invalid version has no such fields: rendering reports it.
pub fn without_effect(version: &str, spec: &KubeadmConfigSpec) -> Vec<String> {
    if !matches!(ApiVersion::of(version), Ok(ApiVersion::V1Beta3)) {
        return Vec::new();
    }
    let mut fields = Vec::new();
    let validity = spec.cluster_configuration.as_ref().and_then(|it| it.certificate_validity_period_days);
    if validity.is_some() {
        fields.push("clusterConfiguration.certificateValidityPeriodDays".to_owned());
    }
    if let Some(init) = &spec.init_configuration {
        let init = of_node(init.node_registration.as_ref(), init.timeouts.as_ref(), false);
        fields.extend(init.into_iter().map(|field| format!("initConfiguration.{field}")));
    }
    if let Some(join) = &spec.join_configuration {
        let join = of_node(join.node_registration.as_ref(), join.timeouts.as_ref(), true);
        fields.extend(join.into_iter().map(|field| format!("joinConfiguration.{field}")));
    }
    fields
}

/// Returns the fields of a node. v1beta3 has one time for the discovery and the TLS bootstrap of a join, and the first
/// node alone sets the time for the components of the control plane.
fn of_node(
    registration: Option<&NodeRegistrationOptions>,
    timeouts: Option<&KubeadmTimeouts>,
    joins: bool,
) -> Vec<&'static str> {
    let parallel = registration.and_then(|it| it.image_pull_serial) == Some(false);
    let mut fields: Vec<&str> = parallel.then_some("nodeRegistration.imagePullSerial").into_iter().collect();
    let Some(timeouts) = timeouts else { return fields };
    let (bootstrap, discovery) = (timeouts.tls_bootstrap_seconds, timeouts.discovery_seconds);
    let has_own_discovery = discovery.is_some() && bootstrap.is_some() && bootstrap != discovery;
    let all = [
        ("timeouts.kubeletHealthCheckSeconds", timeouts.kubelet_health_check_seconds.is_some()),
        ("timeouts.kubernetesAPICallSeconds", timeouts.kubernetes_api_call_seconds.is_some()),
        ("timeouts.etcdAPICallSeconds", timeouts.etcd_api_call_seconds.is_some()),
        ("timeouts.tlsBootstrapSeconds", !joins && bootstrap.is_some()),
        ("timeouts.discoverySeconds", if joins { has_own_discovery } else { discovery.is_some() }),
    ];
    fields.extend(all.into_iter().filter_map(|(field, is_set)| is_set.then_some(field)));
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(version: &str, spec: Value) -> Vec<String> {
        without_effect(version, &serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn fields_that_v1beta3_lacks_are_named_and_later_versions_have_them_all() {
        let spec = json!({
            "clusterConfiguration": {"certificateValidityPeriodDays": 90},
            "initConfiguration": {
                "nodeRegistration": {"imagePullSerial": false},
                "timeouts": {"controlPlaneComponentHealthCheckSeconds": 300, "etcdAPICallSeconds": 5,
                    "kubernetesAPICallSeconds": 5, "kubeletHealthCheckSeconds": 5, "discoverySeconds": 5}},
            "joinConfiguration": {"timeouts": {"tlsBootstrapSeconds": 5, "discoverySeconds": 6}},
        });
        let expected = [
            "clusterConfiguration.certificateValidityPeriodDays",
            "initConfiguration.nodeRegistration.imagePullSerial",
            "initConfiguration.timeouts.kubeletHealthCheckSeconds",
            "initConfiguration.timeouts.kubernetesAPICallSeconds",
            "initConfiguration.timeouts.etcdAPICallSeconds",
            "initConfiguration.timeouts.discoverySeconds",
            "joinConfiguration.timeouts.discoverySeconds",
        ];
        assert_eq!(found("v1.30.14", spec.clone()), expected);
        assert!(found("v1.31.0", spec.clone()).is_empty());
        assert!(found("latest", spec).is_empty());
    }

    #[test]
    fn fields_that_v1beta3_expresses_in_another_way_have_an_effect() {
        let spec = json!({
            "clusterConfiguration": {"caCertificateValidityPeriodDays": 90,
                "apiServer": {"extraEnvs": [{"name": "A", "value": "b"}]}},
            "initConfiguration": {"nodeRegistration": {"imagePullSerial": true},
                "timeouts": {"controlPlaneComponentHealthCheckSeconds": 300}},
            "joinConfiguration": {"timeouts": {"discoverySeconds": 6}},
        });
        assert!(found("v1.29.0", spec).is_empty());
    }
}
