//! Fields of a KubeadmConfig without a form in v1beta3, the file of kubeadm up to 1.30.

use apiserver_types::{
    ClusterConfiguration, EnvVar, KubeadmConfigSpec, KubeadmTimeouts, NodeRegistrationOptions,
};

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
    if let Some(cluster) = &spec.cluster_configuration {
        fields.extend(of_cluster(cluster).map(|field| format!("clusterConfiguration.{field}")));
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

fn of_cluster(cluster: &ClusterConfiguration) -> impl Iterator<Item = &'static str> {
    let is_set = |variables: Option<&Vec<EnvVar>>| variables.is_some_and(|it| !it.is_empty());
    let server = cluster.api_server.as_ref().and_then(|it| it.extra_envs.as_ref());
    let controllers = cluster.controller_manager.as_ref().and_then(|it| it.extra_envs.as_ref());
    let scheduler = cluster.scheduler.as_ref().and_then(|it| it.extra_envs.as_ref());
    let local = cluster.etcd.as_ref().and_then(|etcd| etcd.local.as_ref());
    let etcd = local.and_then(|it| it.extra_envs.as_ref());
    let fields = [
        ("apiServer.extraEnvs", is_set(server)),
        ("controllerManager.extraEnvs", is_set(controllers)),
        ("scheduler.extraEnvs", is_set(scheduler)),
        ("etcd.local.extraEnvs", is_set(etcd)),
        ("certificateValidityPeriodDays", cluster.certificate_validity_period_days.is_some()),
    ];
    fields.into_iter().filter_map(|(field, is_set)| is_set.then_some(field))
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
        let variables = json!([{"name": "A", "value": "b"}]);
        let component = json!({"extraEnvs": variables});
        let spec = json!({
            "clusterConfiguration": {"apiServer": component, "controllerManager": component,
                "scheduler": component, "etcd": {"local": component}, "certificateValidityPeriodDays": 90},
            "initConfiguration": {
                "nodeRegistration": {"imagePullSerial": false},
                "timeouts": {"controlPlaneComponentHealthCheckSeconds": 300, "etcdAPICallSeconds": 5,
                    "kubernetesAPICallSeconds": 5, "kubeletHealthCheckSeconds": 5, "discoverySeconds": 5}},
            "joinConfiguration": {"timeouts": {"tlsBootstrapSeconds": 5, "discoverySeconds": 6}},
        });
        let expected = [
            "clusterConfiguration.apiServer.extraEnvs",
            "clusterConfiguration.controllerManager.extraEnvs",
            "clusterConfiguration.scheduler.extraEnvs",
            "clusterConfiguration.etcd.local.extraEnvs",
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
            "clusterConfiguration": {"caCertificateValidityPeriodDays": 90, "apiServer": {"extraEnvs": []}},
            "initConfiguration": {"nodeRegistration": {"imagePullSerial": true},
                "timeouts": {"controlPlaneComponentHealthCheckSeconds": 300}},
            "joinConfiguration": {"timeouts": {"discoverySeconds": 6}},
        });
        assert!(found("v1.29.0", spec).is_empty());
    }
}
