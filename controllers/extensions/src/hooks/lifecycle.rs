//! Hooks of the life of a Cluster with a topology.

use apiserver_types::Cluster;

use super::{PlainResponse, RetryResponse, UpgradeStep, requests};

requests! {
    /// Request before the objects of a topology are created.
    BeforeClusterCreateRequest for BeforeClusterCreate -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
    }

    /// Request after a control plane was reachable for the first time.
    AfterControlPlaneInitializedRequest for AfterControlPlaneInitialized -> PlainResponse {
        /// Cluster, without its status.
        cluster: Cluster,
    }

    /// Request before an upgrade begins.
    BeforeClusterUpgradeRequest for BeforeClusterUpgrade -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
        /// Present Kubernetes version, e.g. `v1.33.0`.
        from_kubernetes_version: String,
        /// Kubernetes version after the upgrade.
        to_kubernetes_version: String,
        /// Steps of the control plane, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control_plane_upgrades: Vec<UpgradeStep>,
        /// Steps of the workers, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        workers_upgrades: Vec<UpgradeStep>,
    }

    /// Request before a step reaches the control plane.
    BeforeControlPlaneUpgradeRequest for BeforeControlPlaneUpgrade -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
        /// Present Kubernetes version of the control plane.
        from_kubernetes_version: String,
        /// Kubernetes version of the control plane after the step.
        to_kubernetes_version: String,
        /// Remaining steps of the control plane, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control_plane_upgrades: Vec<UpgradeStep>,
        /// Remaining steps of the workers, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        workers_upgrades: Vec<UpgradeStep>,
    }

    /// Request after the control plane has done a step.
    AfterControlPlaneUpgradeRequest for AfterControlPlaneUpgrade -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
        /// Kubernetes version of the control plane after the step.
        kubernetes_version: String,
        /// Remaining steps of the control plane, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control_plane_upgrades: Vec<UpgradeStep>,
        /// Remaining steps of the workers, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        workers_upgrades: Vec<UpgradeStep>,
    }

    /// Request before a step reaches the workers.
    BeforeWorkersUpgradeRequest for BeforeWorkersUpgrade -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
        /// Present Kubernetes version of the workers.
        from_kubernetes_version: String,
        /// Kubernetes version of the workers after the step.
        to_kubernetes_version: String,
        /// Remaining steps of the control plane, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control_plane_upgrades: Vec<UpgradeStep>,
        /// Remaining steps of the workers, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        workers_upgrades: Vec<UpgradeStep>,
    }

    /// Request after the workers have done a step.
    AfterWorkersUpgradeRequest for AfterWorkersUpgrade -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
        /// Kubernetes version of the workers after the step.
        kubernetes_version: String,
        /// Remaining steps of the control plane, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control_plane_upgrades: Vec<UpgradeStep>,
        /// Remaining steps of the workers, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        workers_upgrades: Vec<UpgradeStep>,
    }

    /// Request after the whole Cluster has the new version.
    AfterClusterUpgradeRequest for AfterClusterUpgrade -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
        /// Kubernetes version after the upgrade.
        kubernetes_version: String,
    }

    /// Request before the objects of a Cluster are deleted.
    BeforeClusterDeleteRequest for BeforeClusterDelete -> RetryResponse {
        /// Cluster, without its status.
        cluster: Cluster,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_has_upstreams_fields_and_none_for_an_empty_plan() {
        let step = |version: &str| UpgradeStep { version: version.to_owned() };
        let request = BeforeWorkersUpgradeRequest {
            from_kubernetes_version: "v1.33.0".to_owned(),
            to_kubernetes_version: "v1.34.0".to_owned(),
            workers_upgrades: vec![step("v1.34.0"), step("v1.35.0")],
            ..BeforeWorkersUpgradeRequest::default()
        };
        let mut sent = serde_json::to_value(request).unwrap();
        let cluster = sent.as_object_mut().unwrap().remove("cluster").unwrap();
        assert_eq!(cluster["apiVersion"], "cluster.x-k8s.io/v1beta2");
        assert_eq!(cluster["kind"], "Cluster");
        let expected = json!({
            "fromKubernetesVersion": "v1.33.0", "toKubernetesVersion": "v1.34.0",
            "workersUpgrades": [{"version": "v1.34.0"}, {"version": "v1.35.0"}],
        });
        assert_eq!(sent, expected);
        let after = serde_json::to_value(AfterClusterUpgradeRequest::default()).unwrap();
        assert_eq!(after["kubernetesVersion"], "");
    }
}
