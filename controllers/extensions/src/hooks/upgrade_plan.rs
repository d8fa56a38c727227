//! Hook for the plan of an upgrade.

use apiserver_types::Cluster;
use serde::{Deserialize, Serialize};

use super::{requests, responses};

/// Step of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UpgradeStep {
    /// Kubernetes version of the step, e.g. `v1.34.0`.
    pub version: String,
}

requests! {
    /// Request of a plan.
    GenerateUpgradePlanRequest for GenerateUpgradePlan -> GenerateUpgradePlanResponse {
        /// Cluster, without its status.
        cluster: Cluster,
        /// Present Kubernetes version of the control plane.
        from_control_plane_kubernetes_version: String,
        /// Lowest Kubernetes version of the workers. Empty: there are none.
        #[serde(skip_serializing_if = "String::is_empty")]
        from_workers_kubernetes_version: String,
        /// Kubernetes version after the upgrade.
        to_kubernetes_version: String,
    }
}

responses! {
    /// Plan of an upgrade.
    GenerateUpgradePlanResponse {
        /// Steps of the control plane, in order. The last one has the version after the upgrade.
        control_plane_upgrades: Vec<UpgradeStep>,
        /// Steps of the workers, in order. Empty: as few as the distance of versions allows.
        workers_upgrades: Vec<UpgradeStep>,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_is_read_and_a_cluster_without_workers_has_no_version_of_them() {
        let steps = json!([{"version": "v1.34.0"}]);
        let plan = json!({"status": "Success", "controlPlaneUpgrades": steps, "workersUpgrades": null});
        let plan: GenerateUpgradePlanResponse = serde_json::from_value(plan).unwrap();
        assert_eq!(plan.control_plane_upgrades, [UpgradeStep { version: "v1.34.0".to_owned() }]);
        assert_eq!(plan.workers_upgrades, []);
        let sent = serde_json::to_value(GenerateUpgradePlanRequest::default()).unwrap();
        assert!(sent.get("fromWorkersKubernetesVersion").is_none());
        assert_eq!(sent["fromControlPlaneKubernetesVersion"], "");
    }
}
